"""Workers without work, in Redis, who are woken when others push."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.queue.redis_maps import RedisMap
from tests.scheduler.driving import entry
from tests.servers.redis import queue_on
from tileharvest.queue.port import Changes


def waiting(driven: Any, seconds: float) -> bool:
    return bool(driven.run(driven.queue.wait_for_work(seconds)))


def test_a_worker_without_work_is_woken_when_another_pushes(world: RedisMap) -> None:
    async def woken() -> bool:
        idle, busy = (queue_on(world.server, world.name) for _ in range(2))
        async with AsyncExitStack() as stack:
            for queue in (idle, busy):
                await queue.open(0.0)
                stack.push_async_callback(queue.close)
            # Whatever was pushed before its first wait is not told, so it looks once more.
            assert await idle.wait_for_work(60)
            waits = asyncio.create_task(idle.wait_for_work(60))
            await busy.exchange(Changes(pushed=[entry("1")]), 0, 0.0)
            return await waits

    # False would say that the minute is over.
    assert asyncio.run(woken())


def test_a_worker_is_woken_by_what_came_since_it_looked(world: RedisMap) -> None:
    idle, busy = world.worker(), world.worker()
    assert waiting(idle, 60)
    busy.push(entry("1"))
    assert waiting(idle, 60)


@pytest.mark.parametrize("what", ["its own", "leased at once", "nothing new", "delayed"])
def test_a_worker_is_not_woken_for_nothing(world: RedisMap, what: str) -> None:
    idle, busy = world.worker(), world.worker()
    busy.push(entry("before"))
    assert waiting(idle, 60)
    if what == "its own":
        idle.exchange(1)
        idle.push(entry("1"))
    elif what == "leased at once":
        busy.exchange(9, pushed=[entry("1")])
    elif what == "nothing new":
        busy.push(entry("1"))
    else:
        busy.exchange(9)
        busy.push(entry("1", due=9.0))
    assert not waiting(idle, 0.02)


def test_what_is_given_back_wakes_others(world: RedisMap) -> None:
    idle, busy = world.worker(), world.worker()
    leases = busy.exchange(1, pushed=[entry("1")]).leases
    assert waiting(idle, 60)
    busy.exchange(returned=leases)
    assert waiting(idle, 60)


def test_workers_of_other_maps_are_left_asleep(world: RedisMap) -> None:
    idle = world.worker()
    assert waiting(idle, 60)
    with RedisMap(world.server) as other:
        other.worker().push(entry("1"))
        assert not waiting(idle, 0.02)


def test_a_lost_subscription_is_made_again(world: RedisMap) -> None:
    idle = world.worker()
    assert waiting(idle, 60)
    world.server.ask("CLIENT", "KILL", "TYPE", "pubsub")
    # Something may have come meanwhile.
    assert waiting(idle, 0.05)
    assert waiting(idle, 0.05)
    assert not waiting(idle, 0.05)
