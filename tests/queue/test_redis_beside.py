"""Programs beside the workers of a queue in Redis, and queues that are not open or begun afresh."""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings

from tests.queue.redis_maps import RedisMap
from tests.scheduler.driving import DAY, Driven, entry, pending
from tests.servers.redis import queue_on
from tileharvest.errors import QueueError
from tileharvest.queue.port import SILENT, Changes
from tileharvest.queue.redis import calls
from tileharvest.queue.settings import redis_queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.queue.redis.queue import RedisQueue


def test_a_program_beside_is_no_worker(world: RedisMap) -> None:
    beside = world.beside()
    beside.push(entry("1"))
    assert beside.run(beside.queue.workers()) == []


def test_a_program_that_ends_leaves_nothing_of_its_own(world: RedisMap) -> None:
    world.worker().note(DAY, "depth", "12")
    world.beside().note(DAY, "depth", "13")
    world.close_workers()
    assert {key.split(":")[2] for key in world.all_keys()} == {"numbers", "segment", "segments"}


def test_a_program_beside_pushes_counts_and_sees_to_failures(world: RedisMap) -> None:
    worker, beside = world.worker(), world.beside()
    worker.exchange(failed=[(worker.exchange(1, pushed=[entry("1")]).leases[0], "no")])
    (failure,) = beside.failures()
    beside.exchange(pushed=[entry("1", fingerprint=None)], taken_up=[failure.id])
    assert (pending(beside), beside.counts().failed) == ((0, 1, 0), 0)
    assert worker.bodies() == ["1"]


@pytest.mark.parametrize("way", ["finished", "returned"])
def test_a_program_beside_ends_no_lease(world: RedisMap, way: str) -> None:
    worker, beside = world.worker(), world.beside()
    lease = worker.exchange(1, pushed=[entry("1")]).leases[0]
    with pytest.raises(RuntimeError, match="only a worker"):
        beside.exchange(**{way: [lease]})
    with pytest.raises(RuntimeError, match="only a worker"):
        beside.lease()


def test_to_start_afresh_deletes_all_of_the_map_and_nothing_else(world: RedisMap) -> None:
    with RedisMap(world.server) as other:
        for one in (world.worker(), other.worker()):
            one.exchange(1, pushed=[entry("1", 1), entry("2", due=9.0), entry("3", -1)])
            one.note(DAY, "depth", "12")
        before = other.all_keys()
        world.close_workers()
        beside = world.beside()
        beside.stop()
        beside.run(beside.queue.discard())
        assert world.all_keys() == []
        assert other.all_keys() == before


def test_nobody_starts_afresh_while_others_work(world: RedisMap) -> None:
    worker, beside = world.worker(), world.beside()
    worker.push(entry("1"))
    beside.stop()
    with pytest.raises(QueueError, match=rf"\(pid {os.getpid()}\); nothing was changed"):
        beside.run(beside.queue.discard())
    assert worker.bodies() == ["1"]


def test_a_queue_that_is_open_cannot_be_opened_or_discarded(world: RedisMap) -> None:
    worker = world.worker()
    for work in (worker.queue.open(0.0), worker.queue.open_beside(), worker.queue.discard()):
        with pytest.raises(RuntimeError, match="open already"):
            worker.run(work)
    assert worker.push(entry("1")).duplicates == 0


WORKS: list[Callable[[RedisQueue], Any]] = [
    lambda queue: queue.exchange(Changes(), 0, 0.0),
    lambda queue: queue.extend([], 0.0),
    lambda queue: queue.counts(0.0),
    lambda queue: queue.failures(),
    lambda queue: queue.forget(DAY),
    lambda queue: queue.forget_others(1, DAY),
    lambda queue: queue.note(DAY, "depth", "12"),
    lambda queue: queue.workers(),
]


def test_a_queue_that_is_not_open_does_nothing(world: RedisMap) -> None:
    closed = world.worker()
    closed.stop()
    closed.stop()
    with Driven(lambda: queue_on(world.server, world.name)) as unopened:
        for one, work in product((closed, unopened), WORKS):
            with pytest.raises(RuntimeError, match="not open"):
                one.run(work(one.queue))


def test_a_program_that_only_looks_writes_nothing(world: RedisMap) -> None:
    world.worker().push(entry("1"))
    commands = ("hset", "set", "zadd", "expire", "del", "unlink", "zremrangebyscore")

    def written() -> list[int]:
        found = world.server.ask("INFO", "commandstats")
        return [int(found.get(f"cmdstat_{one}", {"calls": 0})["calls"]) for one in commands]

    before = written()
    with RedisMap(world.server) as never_harvested:
        for one in (world, never_harvested):
            beside = one.beside()
            beside.run(beside.queue.workers())
            beside.run(beside.queue.notes(""))
            beside.stop()
        assert never_harvested.all_keys() == []
    assert written() == before


def test_what_a_program_pushes_into_a_new_queue_says_its_format(world: RedisMap) -> None:
    world.beside().push(entry("1"))
    assert world.ask("HGET", "numbers", "format") == calls.FORMAT.encode()


@pytest.mark.parametrize(("longest", "wanted"), [(300.0, SILENT), (5.0, 5.0)])
def test_a_lease_ends_with_half_a_minute_of_silence_at_the_latest(
    world: RedisMap, longest: float, wanted: float
) -> None:
    settings = Settings({"REDIS_URL": world.server.socket_url, "LEASE_SECONDS": longest})
    with Driven(lambda: redis_queue(settings, world.name)).open() as queue:
        queue.exchange(1, pushed=[entry("1")])
        _, end = world.ask("ZRANGE", "leases", 0, -1, "WITHSCORES")
        _, heard = world.ask("ZRANGE", "workers", 0, -1, "WITHSCORES")
        assert float(end) - float(heard) == pytest.approx(wanted, abs=0.001)
