"""The queues that every contract is tested with."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache, partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.contracts import paces
from tests.contracts.paces import AskedHost
from tests.scheduler.driving import ATTEMPTS, LEASE, Driven
from tests.servers.redis import queue_on, redis_cluster, redis_server
from tileharvest.history.costs import Traffic
from tileharvest.politeness.rate_limit import Pace
from tileharvest.queue.polite_queue import PoliteQueue
from tileharvest.queue.shared_states import StateFile
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.redis import RedisCluster, RedisServer
    from tileharvest.queue.port import RequestQueue

_servers = ExitStack()
_numbers = count()


class Backend(Protocol):
    """Gives a way to make one and the same queue, again and again, as programs do that are started
    again. A backend on a server would empty it here first."""

    def __call__(self, folder: Path, **options: Any) -> Callable[[], RequestQueue]: ...


def in_memory(folder: Path, **options: Any) -> Callable[[], RequestQueue]:
    # Such a queue is its contents.
    return cache(lambda: SqliteQueue(**options))


def in_sqlite(folder: Path, **options: Any) -> Callable[[], RequestQueue]:
    return lambda: SqliteQueue(folder / "queues" / "world.sqlite", **options)


def at_a_pace(folder: Path, **options: Any) -> Callable[[], RequestQueue]:
    """Returns a function that makes a queue with a pace that holds nothing up, so that nothing else may
    differ."""

    inside, random = SqliteQueue(**options), Random(1).random

    class AtAPace(PoliteQueue):
        async def open(self, now: float) -> None:
            await super().open(now)
            await self.set_pace(Pace("map.example.net", 100))

    hosts = folder / "hosts"
    return lambda: AtAPace(inside, StateFile(hosts), "world", Traffic(), clock=lambda: 0.0, random=random)


def in_redis(folder: Path, **options: Any) -> Callable[[], RequestQueue]:
    return _on(_redis(), **options)


def in_cluster(folder: Path, **options: Any) -> Callable[[], RequestQueue]:
    return _on(_cluster(), **options)


def _on(server: RedisServer | RedisCluster, **options: Any) -> Callable[[], RequestQueue]:
    # Some tests push 10,000 requests.
    return partial(queue_on, server, f"world-{next(_numbers)}", expected=20_000, **options)


@cache
def _redis() -> RedisServer:
    """Started when it is first needed."""
    return _servers.enter_context(redis_server())


@cache
def _cluster() -> RedisCluster:
    return _servers.enter_context(redis_cluster())


@pytest.fixture(scope="session", autouse=True)
def _stop_servers() -> Iterator[None]:
    with _servers:
        yield


LOCAL = [in_memory, in_sqlite, at_a_pace]
"""Have one worker, and take the leases of a former one back when they are opened."""

SHARED = [in_redis, pytest.param(in_cluster, marks=pytest.mark.repetition)]
"""Have any number of workers, and leave the leases of a former one to their time. What is different in a
cluster has tests of its own, in `tests/queue/test_redis_cluster.py`."""

BACKENDS = [*LOCAL, *SHARED]


def _making(backend: Backend, folder: Path, **options: Any) -> Driven:
    defaults = {"max_attempts": ATTEMPTS, "lease_seconds": LEASE, "minus_share": 0}
    return Driven(backend(folder, **defaults | options))


@pytest.fixture(params=BACKENDS)
def making(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Driven]:
    """Makes a queue with other options than `queue`, not open; the test closes it."""
    return partial(_making, request.param, tmp_path)


@pytest.fixture
def queue(making: Callable[..., Driven]) -> Iterator[Driven]:
    """Open, with 3 attempts, leases of 100 s and without ageing."""
    with making().open() as opened:
        yield opened


@pytest.fixture(params=LOCAL)
def local_queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driven]:
    with _making(request.param, tmp_path).open() as opened:
        yield opened


POLITE = {
    "memory": lambda: paces.in_memory,
    "sqlite": lambda: paces.in_sqlite,
    "redis": lambda: paces.in_redis(_redis()),
    "cluster": lambda: paces.in_redis(_cluster()),
}


@pytest.fixture(
    params=[name for name in POLITE if name != "cluster"]
    + [pytest.param("cluster", marks=pytest.mark.repetition)]
)
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AskedHost]:
    """A host of the test's own."""
    host = AskedHost(tmp_path, POLITE[request.param]())
    yield host
    host.close()
