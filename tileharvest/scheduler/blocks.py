"""Blocks: tiles that are one request to Scrapy, asked one after the other.

Besides `completion.py` this is the place that knows Scrapy's engine from inside.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from tileharvest.queue.requests import FAILURE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class BlockListener(Protocol):
    """Who has the tiles."""

    def next_tile(self, before: Request) -> Request | None:
        """Returns the tile that starts now after that one, at the same host; None ends the block."""
        ...

    def through(self, tile: Request) -> None:
        """The tile's result is kept, and what it leads to is enqueued; or it has failed."""
        ...

    def cut_off(self, tile: Request) -> None:
        """The tile has neither a result nor a failure: it is to be asked again."""
        ...


class Block(Request):
    """Stands for its first tile, and for those that follow it. Each of them has a request of its own, which
    Scrapy's engine does not see."""

    def __init__(self, first: Request) -> None:
        self.first = first
        self.under_way: set[asyncio.Task[None]] = set()
        """What becomes of the tiles that were answered, and are not through."""
        meta = {"download_slot": first.meta["download_slot"], "verbatim_url": True}
        super().__init__(first.url, self._rest, first.method, dont_filter=True, meta=meta)

    async def _rest(self, _response: Response) -> AsyncIterator[Request]:
        """Scrapy's callback: the block is through when all of its tiles are."""
        while self.under_way:
            await asyncio.wait(self.under_way)
        for request in tuple[Request, ...]():
            yield request


class Blocks:
    """Lets Scrapy's engine take blocks.

    Each tile passes the downloader middlewares, the download handler, the callback and the pipelines by
    itself, as if it were alone. What it is spared is the engine's own work for each request, with the signals
    of that, and spider middlewares, of which there must be none.

    A block has no list: when a tile is answered, its connection takes the next one that may start, whichever
    that is by then. So whatever holds requests back does so within a block, nothing that was not asked must
    go back, and tiles are asked in the order in which they would be asked alone.
    """

    def __init__(self, engine: Any, listener: BlockListener, most: int) -> None:
        """A block has at most so many tiles."""
        self._engine = engine
        self._listener = listener
        self._most = most
        middleware, handlers = engine.downloader.middleware, engine.downloader.handlers
        self._through = middleware.download_async
        self._ask = handlers.download_request_async
        middleware.download_async = self._passed
        handlers.download_request_async = self._asked

    @staticmethod
    def is_possible(engine: Any) -> bool:
        """Returns whether nothing of the project's looks at each answer between engine and spider."""
        return not engine.scraper.spidermw.middlewares

    @property
    def may_go_on(self) -> bool:
        """Whether a block that is on the way may take another tile, as the engine sees it."""
        engine = self._engine
        downloader, slot = engine.downloader, engine._slot
        is_open = slot is not None and slot.closing is None and engine.running and not engine.paused
        is_within = not 0 < downloader.total_concurrency < len(downloader.active)
        return bool(is_open and is_within and not engine.scraper.slot.needs_backout())

    async def _passed(self, download: Any, request: Request) -> Any:
        # A block by itself asks for nothing: no middleware has anything to say of it.
        is_block = isinstance(request, Block)
        return await (download(request) if is_block else self._through(download, request))

    async def _asked(self, request: Request) -> Any:
        if not isinstance(request, Block):
            return await self._ask(request)
        tile: Request | None = request.first
        left = self._most
        while tile is not None:
            # The connection is free again as soon as the answer is there. What becomes of that may take long,
            # and may need a connection, too: a redirect asks another host for its robots.txt.
            answered = asyncio.get_running_loop().create_future()
            task = asyncio.ensure_future(self._processed(tile, answered))
            request.under_way.add(task)
            task.add_done_callback(request.under_way.discard)
            await answered
            left -= 1
            tile = self._listener.next_tile(tile) if left and self.may_go_on else None
        return Response(request.url, request=request)

    async def _processed(self, tile: Request, answered: asyncio.Future[None]) -> None:
        scraper = self._engine.scraper
        # By this the engine asks for no more where results are kept slower than they come.
        size = scraper.slot.MIN_RESPONSE_SIZE
        scraper.slot.active_size += size
        is_cut_off = False
        try:
            answer = await self._answer(tile, answered)
            if isinstance(answer, Request):
                self._engine.crawl(answer)
                return
            if isinstance(answer, Response):
                size += len(answer.body)
                scraper.slot.active_size += len(answer.body)
            answer.request = tile
            call: Any = tile.errback if isinstance(answer, Failure) else tile.callback
            await scraper.handle_spider_output_async(call(answer), tile, answer)
        except BaseException as error:
            if not isinstance(error, Exception):
                # Such as the end of a wait that the end of the crawl cuts short.
                is_cut_off = True
            else:
                tile.meta.setdefault(FAILURE, str(error) or type(error).__name__)
            raise
        finally:
            scraper.slot.active_size -= size
            (self._listener.cut_off if is_cut_off else self._listener.through)(tile)

    async def _answer(self, tile: Request, answered: asyncio.Future[None]) -> Any:
        """Returns what has passed the middlewares: a response, a failure, or a request in its place."""

        async def ask(request: Request) -> Any:
            try:
                return await self._ask(request)
            finally:
                _tell(answered)

        try:
            return await self._through(ask, tile)
        except Exception:  # noqa: BLE001 - as in Scrapy's own engine: the errback hears of it
            return Failure()  # type: ignore[no-untyped-call]
        finally:
            # A middleware may have kept it from being asked.
            _tell(answered)


def _tell(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)
