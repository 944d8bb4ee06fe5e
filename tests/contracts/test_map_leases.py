"""What every kind of map leases promises."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import BaseSettings

from tests.servers.redis import RedisServer
from tileharvest.politeness.lock import Lock
from tileharvest.queue.map_leases import LocalMapLeases, RedisMapLeases, _key
from tileharvest.queue.redis.link import RedisLink

Leases = LocalMapLeases | RedisMapLeases


def over_redis(redis: RedisServer) -> RedisMapLeases:
    link = RedisLink(BaseSettings({"REDIS_URL": redis.socket_url}), "the list of map leases", 5.0)
    return RedisMapLeases(link, silent=100.0)


async def opened(make: Callable[[], Leases]) -> AsyncIterator[list[Any]]:
    made = [make(), make()]
    for one in made:
        await one.open()
    yield made
    for one in made:
        await one.close()


@pytest.fixture(params=["local", "redis"])
async def workers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Leases]]:
    """Two workers of either kind."""
    redis = request.getfixturevalue("redis") if request.param == "redis" else None
    async for both in opened(lambda: over_redis(redis) if redis else LocalMapLeases(tmp_path / "queues")):
        yield both


@pytest.fixture
async def both(redis: RedisServer) -> AsyncIterator[list[RedisMapLeases]]:
    """Two workers that share a Redis."""
    async for made in opened(lambda: over_redis(redis)):
        yield made


async def test_one_of_several_workers_gets_a_map_until_it_ends(workers: list[Leases]) -> None:
    one, two = workers
    assert await one.acquire(["a", "b"]) == "a"
    assert await two.acquire(["a", "b"]) == "b"
    assert await two.acquire(["a", "b"]) is await one.acquire([]) is None
    await one.close()
    await one.open()
    assert await two.acquire(["a"]) == "a"


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
