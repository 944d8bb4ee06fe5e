from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.queue.driven import DAY, Driven, entry
from tests.servers.redis import queue_on, redis_server
from tileharvest.monitoring.overview import look, workers_as_plain
from tileharvest.queue.port import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.redis import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


def worker(host: str = "box", heartbeat: float = 0.0) -> Worker:
    return Worker(
        host=host,
        machine="machine",
        pid=4_194_303,
        segment="2026-11-20",
        started=0.0,
        heartbeat=heartbeat,
        leased=1_024,
        finished=12,
        looked_at=100.0,
    )


def test_how_long_a_worker_was_silent_is_never_less_than_nothing() -> None:
    found = workers_as_plain([worker(heartbeat=90.0), worker(heartbeat=101.0)])
    assert [one["heartbeat_age_seconds"] for one in found] == [10.0, 0.0]


def test_a_shared_queue_tells_its_workers_and_their_ages_by_its_own_clock(server: RedisServer) -> None:
    with Driven(lambda: queue_on(server, "world")) as first:
        first.open(now=time.time())
        first.tell(entry("1"), entry("2"), entry("3", priority=-1))
        first.lease(1)
        first.run(first.queue.beat(time.time()))
        overview = first.run(look(first.queue, DAY, time.time()))
    assert overview.workers is not None
    (found,) = overview.workers
    assert (found["host"], found["pid"], found["leased"]) == (socket.gethostname(), os.getpid(), 1)
    told = overview.as_plain()
    assert (told["pending/normal"], told["pending/minus"], told["leased"]) == (1, 1, 1)
