"""What a person orders is kept in the queue, and understood by all who look."""

import asyncio
from pathlib import Path

import pytest
from scrapy.settings import Settings

from tests.queue.driven import DAY
from tests.servers.redis import redis_server
from tileharvest.maps.rates import Delay
from tileharvest.queue.controls import Controls, controls_of, pause, resume, set_rate
from tileharvest.queue.settings import controls_for, controls_for_all, open_beside
from tileharvest.queue.sqlite.queue import SqliteQueue


async def test_orders_hold_until_they_are_taken_back_and_outlive_segments() -> None:
    queue = SqliteQueue()
    await queue.open(DAY, 0.0)
    assert await controls_of(queue) == Controls()
    assert await pause(queue, "10:00") is None
    # A queue that is paused twice is paused since the first time.
    assert await pause(queue, "11:00") == "10:00"
    await set_rate(queue, "30/min")
    with pytest.raises(ValueError, match="is not a rate"):
        await set_rate(queue, "fast")
    await queue.forget(DAY)
    assert await controls_of(queue) == Controls("10:00", Delay(2.0, 2.0))
    await set_rate(queue, None)
    assert await resume(queue)
    assert not await resume(queue)
    assert await controls_of(queue) == Controls()


def paused(settings: Settings, name: str, since: str) -> None:
    async def tell() -> None:
        async with open_beside(settings, name) as queue:
            await pause(queue, since)

    asyncio.run(tell())


def test_many_queues_are_asked_and_one_that_cannot_be_asked_holds_up_no_other(tmp_path: Path) -> None:
    settings = Settings({"TILEHARVEST_DATA": str(tmp_path)})
    paused(settings, "paused", "10:00")
    paused(settings, "damaged", "11:00")
    damaged = next(tmp_path.rglob("damaged.sqlite"))
    damaged.write_bytes(b"no database" * 100)
    controls, errors = asyncio.run(controls_for_all(settings, ["damaged", "paused", "without a queue"]))
    assert controls == {"paused": Controls(paused="10:00"), "without a queue": Controls()}
    assert [str(damaged) in str(error) for error in errors] == [True]
    assert not list(tmp_path.rglob("without*"))
    assert asyncio.run(controls_for(settings, "paused")) == controls["paused"]


def test_queues_in_a_redis_are_asked_over_one_connection() -> None:
    with redis_server() as server:
        settings = Settings({"REDIS_URL": server.url})
        paused(settings, "paused", "10:00")
        before = server.ask("INFO", "stats")["total_connections_received"]
        names = ["paused", *(f"other-{number}" for number in range(1200))]
        controls, errors = asyncio.run(controls_for_all(settings, names))
        assert server.ask("INFO", "stats")["total_connections_received"] <= before + 2
    assert controls == dict.fromkeys(names, Controls()) | {"paused": Controls(paused="10:00")}
    assert errors == []
