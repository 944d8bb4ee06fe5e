"""What every kind of map leases promises."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from scrapy.settings import BaseSettings

from tests.servers.redis import RedisServer
from tileharvest.politeness.lock import Lock
from tileharvest.queue.map_leases import LocalMapLeases, RedisMapLeases, _key
from tileharvest.queue.redis.link import RedisLink

Leases = LocalMapLeases | RedisMapLeases
Making = Callable[[], Awaitable[Leases]]


def over_redis(url: str) -> RedisMapLeases:
    return RedisMapLeases(
        RedisLink(BaseSettings({"REDIS_URL": url}), "the list of map leases", 5.0), silent=100.0
    )


@pytest.fixture(params=["local", "redis"])
async def worker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Making]:
    """Opens the leases of one more worker."""
    made = list[LocalMapLeases | RedisMapLeases]()
    shared = request.getfixturevalue("redis").socket_url if request.param == "redis" else None

    async def make() -> LocalMapLeases | RedisMapLeases:
        leases = over_redis(shared) if shared else LocalMapLeases(tmp_path / "queues")
        made.append(leases)
        await made[-1].open()
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_one_of_several_workers_gets_a_map(worker: Making) -> None:
    one, two = await worker(), await worker()
    assert await one.acquire(["a", "b"]) == "a"
    assert await two.acquire(["a", "b"]) == "b"
    assert await two.acquire(["a", "b"]) is None
    assert await one.acquire([]) is None


async def test_a_worker_that_ends_leaves_its_maps(worker: Making) -> None:
    one, two = await worker(), await worker()
    await one.acquire(["a"])
    await one.close()
    assert await two.acquire(["a"]) == "a"


@pytest.fixture
async def both(redis: RedisServer) -> AsyncIterator[list[RedisMapLeases]]:
    """Two workers that share a Redis."""
    made = [over_redis(redis.socket_url) for _ in range(2)]
    for one in made:
        await one.open()
    yield made
    for one in made:
        await one.close()


async def test_over_redis_a_map_that_is_released_with_a_pause_is_left_alone_by_all(
    both: list[RedisMapLeases], redis: RedisServer
) -> None:
    one, two = both
    await one.acquire(["failed"])
    await one.release("failed", 60.0)
    assert await one.acquire(["failed"]) is await two.acquire(["failed"]) is None
    assert await two.taken(["failed"]) == []
    assert 0 < redis.ask("PTTL", _key("failed")) <= 60_000
    redis.ask("DEL", _key("failed"))
    assert await two.acquire(["failed"]) == "failed"


async def test_a_lease_in_redis_ends_by_itself_and_is_extended(
    both: list[RedisMapLeases], redis: RedisServer
) -> None:
    await both[0].acquire(["lasting"])
    redis.ask("PEXPIRE", _key("lasting"), 50_000)
    await both[0].extend()
    assert 90_000 < redis.ask("PTTL", _key("lasting")) <= 100_000


async def test_a_map_whose_lease_was_lost_to_another_worker_stays_with_that(
    both: list[RedisMapLeases], redis: RedisServer
) -> None:
    one, two = both
    await one.acquire(["lost"])
    redis.ask("DEL", _key("lost"))
    assert await two.acquire(["lost"]) == "lost"
    await one.extend()
    await one.release("lost")
    assert await one.taken(["lost", "free"]) == ["lost"]
    assert await two.taken(["lost", "free"]) == []


async def test_on_one_machine_a_map_whose_queue_is_worked_on_counts_as_leased(tmp_path: Path) -> None:
    lock, one = Lock(tmp_path, "a"), LocalMapLeases(tmp_path)
    lock.take()
    assert await one.acquire(["a", "b"]) == "b"
    lock.drop()
    assert await one.acquire(["a", "b"]) == "a"
    await one.close()
