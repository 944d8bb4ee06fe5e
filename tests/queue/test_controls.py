"""What a person orders is kept in the queue, and understood by all who look."""

import asyncio
from pathlib import Path

import pytest
from scrapy.settings import Settings

from tests.queue.driven import DAY
from tests.servers.redis import RedisServer
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
    assert [await resume(queue), await resume(queue)] == [True, False]
    assert await controls_of(queue) == Controls()


@pytest.mark.parametrize("is_shared", [False, True])
def test_many_queues_are_asked_and_one_that_cannot_be_asked_holds_up_no_other(
    tmp_path: Path, redis: RedisServer, is_shared: bool
) -> None:
    settings = Settings({"TILEHARVEST_DATA": str(tmp_path), "REDIS_URL": redis.url if is_shared else ""})

    async def pause_both() -> None:
        for name in ("paused", "damaged"):
            async with open_beside(settings, name) as queue:
                await pause(queue, "10:00")

    asyncio.run(pause_both())
    wanted = {"paused": Controls("10:00"), "damaged": Controls("10:00"), "without a queue": Controls()}
    for damaged in tmp_path.rglob("damaged.sqlite"):
        damaged.write_bytes(b"no database" * 100)
        del wanted["damaged"]
    before = redis.ask("INFO", "stats")["total_connections_received"]
    controls, errors = asyncio.run(controls_for_all(settings, ["damaged", "paused", "without a queue"]))
    # In Redis all are asked over one connection; the other one is this test's.
    assert redis.ask("INFO", "stats")["total_connections_received"] <= before + 2
    assert controls == wanted
    assert ["damaged.sqlite" in str(error) for error in errors] == ([] if is_shared else [True])
    assert not list(tmp_path.rglob("without*"))
    assert asyncio.run(controls_for(settings, "paused")) == Controls("10:00")
