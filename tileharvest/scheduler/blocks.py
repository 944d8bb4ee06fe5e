"""Blocks: one request to Scrapy's engine for several queued tiles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from scrapy import Request

from tileharvest.queue.codec import QueuedRequest
from tileharvest.queue.port import Entry, Lease
from tileharvest.scheduler.engine import is_closing
from tileharvest.tiles.results import TileResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response


class QueuedTile(msgspec.Struct, eq=False):
    """A tile whose lease has started, as the queue has kept it. It has no Scrapy request."""

    lease: Lease
    queued: QueuedRequest
    result: TileResult | None = None
    """What was found. None before the tile is answered, and if a GET is to tell."""
    entries: Sequence[Entry] = ()
    """What is enqueued because of the answer."""
    spared_bytes: int = 0
    """The size of an image that was not sent, as it has not changed."""


class ShortWay(Protocol):
    """Asks for queued tiles and keeps what it finds, without a Scrapy request for each of them."""

    def takes(self, lease: Lease, queued: QueuedRequest, *, is_begun: bool) -> bool:
        """Returns whether a leased tile may be asked this way. `is_begun` says that this run has begun the
        segment's work; otherwise the tile has waited since an earlier run, which may have known the site by
        other addresses."""
        ...

    async def ask_all(self, block: Block) -> Response:
        """Asks for the tiles of a block one after the other, from its first tile to the last one that the
        scheduler gives. Returns an empty response that stands for no tile."""
        ...


class Block(Request):
    """One connection's turn: a request that stands for its first tile and for those that follow it.

    The middleware that is nearest to the engine, `DiffMiddleware`, lets the short way ask for the tiles.
    """

    over: asyncio.Future[None]
    """Done when no tile may start now. A block whose turn has not begun has none."""

    def __init__(self, first: QueuedTile, way: ShortWay) -> None:
        self.way = way
        self.first = first
        self.tile: QueuedTile | None = None
        """The tile that is asked for now. None if none may start."""
        self.left = 0
        """How many tiles the block may still have, with this one. It is set when its turn begins."""
        self.look_up: asyncio.Future[Any] | None = None
        """What the history was asked about this tile. None if the answer was in memory."""
        self.under_way: set[asyncio.Future[Any]] = set()
        """The transactions and writes of tiles that were answered and are not yet kept."""
        url, method = first.queued.url, first.queued.method
        super().__init__(url, self._end, method, dont_filter=True, meta={"verbatim_url": True})

    async def _end(self, _response: Response) -> AsyncIterator[Request]:
        """Scrapy's callback: it ends when every tile of the block is kept, and yields nothing."""
        while self.under_way:
            await asyncio.wait(self.under_way)
        for request in tuple[Request, ...]():
            yield request


def may_go_on(engine: Any) -> bool:
    """Returns whether a block that is on the way may take another tile.

    The engine's own `needs_backout` cannot say so: it counts the block itself among those on the way.
    """
    downloader = engine.downloader
    is_too_many = 0 < downloader.total_concurrency < len(downloader.active)
    is_open = engine.running and not engine.paused and not is_closing(engine)
    return bool(is_open and not is_too_many and not engine.scraper.slot.needs_backout())
