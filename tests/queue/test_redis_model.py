"""A queue in Redis with two workers that take turns, compared step by step with the model."""

from __future__ import annotations

from functools import partial
from itertools import count
from math import ceil
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.stateful import initialize, invariant, rule

from tests.queue.queue_model import ModelQueue
from tests.queue.test_queue_model import OPTIONS, QueueMachine, TestMemoryQueue
from tests.scheduler.driving import LEASE, Driven
from tests.servers.redis import queue_on, redis_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import ClassVar

    from tests.queue.queue_model import Held, Request
    from tests.servers.redis import RedisServer
    from tileharvest.queue.redis.queue import RedisQueue

NUMBERS = count()


class SharedModel(ModelQueue):
    """The plain list, with a note of who holds what, and of who was heard of when."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = 0
        self.holders: dict[int, int] = {}
        self.heard = {0: 0.0, 1: 0.0}

    def lease(self, wanted: int) -> list[Held]:
        self.heard[self.worker] = self.now
        alive = sum(self.now - heard < LEASE for heard in self.heard.values())
        leases = super().lease(min(wanted, ceil(len(self.waiting()) / alive)))
        self.holders |= {id(lease.request): self.worker for lease in leases}
        return leases

    def holds(self, lease: Held) -> bool:
        return super().holds(lease) and self.holders[id(lease.request)] == self.worker

    def extend(self, leases: Iterable[Held]) -> int:
        self.heard[self.worker] = self.now
        return super().extend(leases)

    def leased_elsewhere(self) -> int:
        leased: Iterable[Request] = (r for r in self.requests if r.until is not None)
        return sum(self.holders[id(request)] != self.worker for request in leased)


class RedisMachine(QueueMachine):
    server: ClassVar[RedisServer]

    @initialize()
    def begin(self) -> None:
        self.make_queue = partial(queue_on, self.server, f"world-{next(NUMBERS)}", expected=2, **OPTIONS)
        super().begin()
        self.model = SharedModel()
        self.queues = {0: self.queue, 1: Driven(self.make_queue).open()}
        self.newest = 1

    def make(self, folder: object) -> Callable[[], RedisQueue]:
        return self.make_queue

    @rule()
    def the_other_worker_goes_on(self) -> None:
        (self.model.worker,) = (worker for worker in self.queues if worker != self.model.worker)
        self.queue = self.queues[self.model.worker]

    @rule()
    def restart(self) -> None:
        """A worker that is started again is another one: what it held is held until it expires."""
        self.queue.restart(self.model.now)
        self.newest += 1
        self.queues[self.newest] = self.queues.pop(self.model.worker)
        del self.model.heard[self.model.worker]
        self.model.worker = self.newest
        self.model.heard[self.newest] = self.model.now

    @invariant()
    def what_others_hold_is_told(self) -> None:
        answer = self.queue.exchange(now=self.model.now)
        self.model.heard[self.model.worker] = self.model.now
        assert answer.leased_elsewhere == self.model.leased_elsewhere()

    def teardown(self) -> None:
        for queue in getattr(self, "queues", {}).values():
            if queue is not self.queue:
                queue.close()
        super().teardown()


class TestRedisQueue(RedisMachine.TestCase):
    settings = settings(TestMemoryQueue.settings, max_examples=40)

    @pytest.fixture(autouse=True)
    def server(self) -> Iterator[None]:
        with redis_server() as RedisMachine.server:
            yield


del TestMemoryQueue
