"""What a person tells a map's harvest is kept in its queue, and understood by all who look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import Settings

from tests.queue.polite_memory import polite_memory
from tileharvest.maps.rates import Gap
from tileharvest.queue.orders import Orders, orders_of, pause, resume, set_rate, stop
from tileharvest.queue.settings import open_beside, orders_for, orders_for_all

if TYPE_CHECKING:
    from pathlib import Path

    from tests.queue.redis_maps import RedisMap


def test_at_first_nothing_is_told() -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            assert await orders_of(queue) == Orders()

    asyncio.run(test())


def test_a_map_that_is_paused_twice_is_paused_since_the_first_time() -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            assert await pause(queue, "10:00") is None
            assert await pause(queue, "11:00") == "10:00"
            assert await orders_of(queue) == Orders(paused="10:00")

    asyncio.run(test())


def test_who_resumes_hears_whether_it_was_paused() -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            await pause(queue, "10:00")
            assert await resume(queue)
            assert not await resume(queue)
            assert await orders_of(queue) == Orders()

    asyncio.run(test())


def test_a_rate_holds_until_it_is_taken_back() -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            await set_rate(queue, "30/min")
            assert await orders_of(queue) == Orders(rate=Gap(2.0, 2.0))
            await set_rate(queue, None)
            assert await orders_of(queue) == Orders()

    asyncio.run(test())


def test_what_is_no_rate_leaves_the_one_before() -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            await set_rate(queue, "2/s")
            with pytest.raises(ValueError, match="is no rate"):
                await set_rate(queue, "fast")
            assert (await orders_of(queue)).rate == Gap(0.5, 0.5)

    asyncio.run(test())


def test_each_order_to_stop_is_another_one_and_keeps_its_reason() -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            await stop(queue, "budget: 1,000 requests")
            first = await orders_of(queue)
            assert first.spent == "budget: 1,000 requests"
            await stop(queue)
            second = await orders_of(queue)
            assert (second.spent, second.stop != first.stop) == (None, True)

    asyncio.run(test())


def test_all_of_it_outlives_the_segment() -> None:
    async def test() -> None:
        async with polite_memory() as queue:
            await pause(queue, "10:00")
            await set_rate(queue, "2/s")
            for day in ("2026-11-20", "2026-11-21", "2026-11-22"):
                await queue.forget_others(1, day)
                await queue.forget(day)
            assert await orders_of(queue) == Orders("10:00", Gap(0.5, 0.5))

    asyncio.run(test())


def test_a_rate_that_is_not_understood_counts_as_none() -> None:
    assert Orders.read({"rate": "warp 9", "paused": "10:00"}) == Orders(paused="10:00")


def told(settings: Settings, name: str, since: str) -> None:
    """Pauses the map."""

    async def tell() -> None:
        async with open_beside(settings, name) as queue:
            await pause(queue, since)

    asyncio.run(tell())


def test_many_maps_are_asked_at_once_and_one_that_cannot_be_asked_holds_up_no_other(tmp_path: Path) -> None:
    settings = Settings({"TILEHARVEST_DATA": str(tmp_path)})
    told(settings, "paused", "10:00")
    told(settings, "damaged", "11:00")
    damaged = next(tmp_path.rglob("damaged.sqlite"))
    damaged.write_bytes(b"no database" * 100)
    orders, errors = asyncio.run(orders_for_all(settings, ["damaged", "paused", "without a queue"]))
    assert orders == {"paused": Orders(paused="10:00"), "without a queue": Orders()}
    assert [str(damaged) in str(error) for error in errors] == [True]
    assert not list(tmp_path.rglob("without*"))
    assert asyncio.run(orders_for(settings, "paused")) == orders["paused"]


def test_maps_on_a_redis_are_asked_over_one_connection(world: RedisMap) -> None:
    settings = Settings({"REDIS_URL": world.server.url})
    told(settings, world.name, "10:00")
    before = world.server.ask("INFO", "stats")["total_connections_received"]
    names = [world.name, *(f"{world.name}-{number}" for number in range(1200))]
    orders, errors = asyncio.run(orders_for_all(settings, names))
    assert world.server.ask("INFO", "stats")["total_connections_received"] <= before + 2
    assert orders == dict.fromkeys(names, Orders()) | {world.name: Orders(paused="10:00")}
    assert errors == []


def test_a_redis_that_is_not_there_is_named_once() -> None:
    settings = Settings({"REDIS_URL": "redis://127.0.0.1:1/0"})
    orders, errors = asyncio.run(orders_for_all(settings, ["one", "other"]))
    assert (orders, len(errors)) == ({}, 1)
    assert "127.0.0.1:1" in str(errors[0])
