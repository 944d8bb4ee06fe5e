"""Blocks: when one goes on, and when it is over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest
from scrapy.http import Response

from tileharvest.queue.codec import VERSION, QueuedRequest
from tileharvest.queue.port import Lease
from tileharvest.scheduler.blocks import Block, QueuedTile, may_go_on

URL: Final = "http://map.example.net/0.png"


def engine(**change: Any) -> Any:
    """Scrapy's engine with one block on the way, as many as may be."""
    is_full = change.pop("is_full", False)
    active = change.pop("active", {"this block"})
    usual = {
        "running": True,
        "paused": False,
        "_slot": SimpleNamespace(closing=None),
        "downloader": SimpleNamespace(total_concurrency=1, active=active),
        "scraper": SimpleNamespace(slot=SimpleNamespace(needs_backout=lambda: is_full)),
    }
    return SimpleNamespace(**usual | change)


def test_a_block_goes_on_while_as_many_are_on_the_way_as_may_be() -> None:
    assert may_go_on(engine())


@pytest.mark.parametrize(
    "change",
    [
        {"running": False},
        {"paused": True},
        {"is_full": True},
        {"active": {"this block", "another one"}},
        {"_slot": SimpleNamespace(closing="soon")},
        {"_slot": None},
    ],
    ids=["stopped", "paused", "results wait to be kept", "fewer are to be on the way", "closing", "closed"],
)
def test_a_block_takes_no_other_tile_where_the_engine_would_ask_for_none(change: dict[str, Any]) -> None:
    assert not may_go_on(engine(**change))


def test_a_block_is_over_when_all_of_its_tiles_are_kept() -> None:
    async def test() -> None:
        way: Any = None
        lease = Lease(1, 1, b"", "2024-05-01", 0)
        block = Block(QueuedTile(lease, QueuedRequest(version=VERSION, url=URL, method="HEAD")), way)
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        block.under_way |= {first, second}
        for one in (first, second):
            one.add_done_callback(block.under_way.discard)

        async def end() -> list[Any]:
            assert block.callback is not None
            return [found async for found in block.callback(Response(URL))]

        over = asyncio.ensure_future(end())
        first.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not over.done()
        second.set_result(None)
        assert await asyncio.wait_for(over, 10) == []

    asyncio.run(test())
