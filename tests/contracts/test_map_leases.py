"""What every kind of map leases promises."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tileharvest.politeness.lock import Lock
from tileharvest.queue.map_leases import LocalMapLeases
from tileharvest.queue.redis.map_leases import RedisMapLeases, _key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.servers.redis import RedisServer


class Worker:
    """A worker, whose leases are asked in an event loop of its own."""

    def __init__(self, leases: LocalMapLeases | RedisMapLeases) -> None:
        self.leases = leases
        self.runner = asyncio.Runner()
        self.call("open")

    def call(self, name: str, *arguments: Any) -> Any:
        async def called() -> Any:
            return await getattr(self.leases, name)(*arguments)

        return self.runner.run(called())

    def acquire(self, *names: str) -> str | None:
        return self.call("acquire", names)

    def taken(self, *names: str) -> Sequence[str]:
        return self.call("taken", names)

    def close(self) -> None:
        self.call("close")
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
    assert one.acquire("a", "b") == "a"
    assert two.acquire("a", "b") == "b"
    assert two.acquire("a", "b") is None
    assert one.acquire() is None


def test_a_map_that_was_released_can_be_acquired_at_once(worker: Callable[[], Worker]) -> None:
    one, two = worker(), worker()
    one.acquire("a")
    two.call("release", "a")
    assert two.acquire("a") is None
    one.call("release", "a")
    assert two.acquire("a") == "a"


def test_a_worker_that_ends_leaves_its_maps(worker: Callable[[], Worker]) -> None:
    one, two = worker(), worker()
    one.acquire("a")
    one.call("close")
    assert two.acquire("a") == "a"


def test_over_redis_a_map_that_is_released_with_a_pause_is_left_alone_by_all(redis: RedisServer) -> None:
    one, two = (Worker(RedisMapLeases({"url": redis.socket_url})) for _ in range(2))
    one.acquire("failed")
    one.call("release", "failed", 60.0)
    assert one.acquire("failed") is two.acquire("failed") is None
    assert two.taken("failed") == []
    assert 0 < redis.ask("PTTL", _key("failed")) <= 60_000
    redis.ask("DEL", _key("failed"))
    assert two.acquire("failed") == "failed"
    one.close()
    two.close()


def test_a_lease_in_redis_ends_by_itself_and_is_extended(redis: RedisServer) -> None:
    one = Worker(RedisMapLeases({"url": redis.socket_url}, silent=100.0))
    one.acquire("lasting")
    redis.ask("PEXPIRE", _key("lasting"), 50_000)
    one.call("extend")
    assert 90_000 < redis.ask("PTTL", _key("lasting")) <= 100_000
    one.close()
    assert redis.ask("EXISTS", _key("lasting")) == 0


def test_a_map_whose_lease_was_lost_to_another_worker_stays_with_that(redis: RedisServer) -> None:
    one, two = (Worker(RedisMapLeases({"url": redis.socket_url})) for _ in range(2))
    one.acquire("lost")
    redis.ask("DEL", _key("lost"))
    assert two.acquire("lost") == "lost"
    one.call("extend")
    one.call("release", "lost")
    assert one.taken("lost", "free") == ["lost"]
    assert two.taken("lost", "free") == []
    one.close()
    two.close()


def test_on_one_machine_a_map_whose_queue_is_worked_on_counts_as_leased(tmp_path: Path) -> None:
    locks = tmp_path / "queues"
    lock = Lock(locks, "a")
    lock.take()
    one = Worker(LocalMapLeases(locks))
    assert one.acquire("a", "b") == "b"
    lock.drop()
    assert one.acquire("a", "b") == "a"
    assert one.taken("a", "b") == ()
    one.close()
