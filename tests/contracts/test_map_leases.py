"""What every kind of map leases promises."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from tileharvest.politeness.lock import Lock
from tileharvest.queue.map_leases import LocalMapLeases, MapLease
from tileharvest.queue.redis.map_leases import RedisMapLeases, _key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.servers.redis import RedisServer
    from tileharvest.queue.map_leases import MapLeases


class Worker:
    """A worker, at a time that the test sets."""

    def __init__(self, leases: MapLeases) -> None:
        self.leases, self.now = leases, 0.0
        self.runner = asyncio.Runner()
        self.call("open")

    def call(self, name: str, *arguments: Any) -> Any:
        async def called() -> Any:
            return await getattr(self.leases, name)(*arguments)

        return self.runner.run(called())

    def acquire(self, *names: str) -> MapLease | None:
        return self.call("acquire", names, self.now)

    def taken(self, *names: str) -> Sequence[str]:
        return self.call("taken", names, self.now)

    def close(self) -> None:
        self.call("close", self.now)
        self.runner.close()


@pytest.fixture(params=["local", "redis"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Worker]]:
    made = list[Worker]()

    def make() -> Worker:
        if request.param == "local":
            locks = tmp_path / "queues"
            leases: Any = LocalMapLeases(locks)
        else:
            leases = RedisMapLeases({"url": request.getfixturevalue("redis").socket_url})
        made.append(Worker(leases))
        return made[-1]

    yield make
    for one in made:
        one.close()
    if request.param == "redis":
        request.getfixturevalue("redis").ask("FLUSHALL")


def test_one_of_several_workers_gets_a_map(worker: Callable[[], Worker]) -> None:
    one, two = worker(), worker()
    assert one.acquire("a", "b") == MapLease("a", 0)
    assert two.acquire("a", "b") == MapLease("b", 0)
    assert two.acquire("a", "b") is None
    assert one.acquire() is None


def test_a_map_that_was_released_can_be_acquired_at_once(worker: Callable[[], Worker]) -> None:
    one, two = worker(), worker()
    one.acquire("a")
    two.call("release", "a", 0.0)
    assert two.acquire("a") is None
    one.call("release", "a", 0.0)
    assert two.acquire("a") == MapLease("a", 0)


def test_a_worker_that_ends_leaves_its_maps(worker: Callable[[], Worker]) -> None:
    one, two = worker(), worker()
    one.acquire("a")
    one.call("close", 0.0)
    assert two.acquire("a") == MapLease("a", 0)


def test_a_map_that_has_failed_is_left_alone_until_its_time_and_the_failures_are_counted(
    worker: Callable[[], Worker],
) -> None:
    one, two = worker(), worker()
    for failures in range(2):
        assert one.acquire("a") == MapLease("a", failures)
        one.call("fail", "a", one.now + 0.2, one.now)
        assert one.acquire("a") is None
        if isinstance(two.leases, RedisMapLeases):
            assert two.acquire("a") is None
        one.now += 0.2
        # Redis goes by its own clock.
        while isinstance(one.leases, RedisMapLeases) and one.call("_ask", "exists", _key("a", "pause")):
            time.sleep(0.01)
    assert one.acquire("a") == MapLease("a", 2)
    one.call("release", "a", one.now)
    assert one.acquire("a") == MapLease("a", 0)


def test_a_lease_in_redis_ends_by_itself_and_is_extended(redis: RedisServer) -> None:
    one = Worker(RedisMapLeases({"url": redis.socket_url}, silent=100.0))
    one.acquire("lasting")
    redis.ask("PEXPIRE", _key("lasting"), 50_000)
    one.call("extend", 0.0)
    assert 90_000 < redis.ask("PTTL", _key("lasting")) <= 100_000
    one.close()
    assert redis.ask("EXISTS", _key("lasting")) == 0


def test_a_map_whose_lease_was_lost_to_another_worker_stays_with_that(redis: RedisServer) -> None:
    one, two = (Worker(RedisMapLeases({"url": redis.socket_url})) for _ in range(2))
    one.acquire("lost")
    redis.ask("DEL", _key("lost"))
    assert two.acquire("lost") == MapLease("lost", 0)
    one.call("extend", 0.0)
    one.call("release", "lost", 0.0)
    assert one.taken("lost", "free") == ["lost"]
    assert two.taken("lost", "free") == []
    one.close()
    two.close()


def test_on_one_machine_a_map_whose_queue_is_worked_on_counts_as_leased(tmp_path: Path) -> None:
    locks = tmp_path / "queues"
    lock = Lock(locks, "a")
    lock.take()
    one = Worker(LocalMapLeases(locks))
    assert one.acquire("a", "b") == MapLease("b", 0)
    lock.drop()
    assert one.acquire("a", "b") == MapLease("a", 0)
    assert one.taken("a", "b") == ()
    one.close()
