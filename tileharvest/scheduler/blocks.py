"""Blocks: tiles that are one request to Scrapy, asked one after the other.

Besides `completion.py` this is the place that knows Scrapy's engine from inside.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from tileharvest.queue.requests import FAILURE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tileharvest.queue.codec import QueuedRequest
    from tileharvest.queue.port import Lease
    from tileharvest.tiles.results import TileResult


_WITH_BODY: Final = 8 * 1024
"""Bytes beside its body that a tile counts which has one. Until it is kept it takes some 16 kB: request,
response, result, and what waits for the disk. With the 1 kB of Scrapy's responses thousands waited for a slow
disk, in 160 to 204 MB. With half of what they take some 500 small ones are below Scrapy's bound of 5 MB, as
many as fill half a transaction."""


@dataclass(slots=True, eq=False)
class QueuedTile:
    """A tile that starts, as it has waited. Scrapy's request for it is made where one is needed."""

    lease: Lease
    queued: QueuedRequest
    result: TileResult | None = None
    """What the short way has found."""

    @property
    def url(self) -> str:
        return self.queued.url

    @property
    def method(self) -> str:
        return self.queued.method

    @property
    def meta(self) -> dict[str, Any]:
        return self.queued.meta


class ShortWay(Protocol):
    """The way of a tile that nothing needs a request for: it is asked as all are, and nothing of it is new.

    It does for such a tile what middlewares, callback and pipelines do for a request.
    """

    def takes(self, lease: Lease, queued: QueuedRequest, *, is_begun: bool) -> bool:
        """Returns whether what has waited is such a tile, as far as it tells by itself. Where this run has
        not begun the segment's work, the site may want it otherwise by now."""
        ...

    def may_ask(self, tile: QueuedTile) -> bool:
        """Returns whether a tile that it takes may be asked by it now."""
        ...

    async def ask(self, tile: QueuedTile) -> Any:
        """Returns what was answered, or the exception that tells why nothing was. Raises nothing else than
        CancelledError."""
        ...

    def keep(self, tile: QueuedTile, answer: Any) -> asyncio.Future[BaseException | None] | None:
        """Judges the answer. Returns the transaction in which the result is kept, and enqueues what is below.
        Returns None, and has done nothing, where a request must go on with the answer. So does one whose
        answer made this raise."""
        ...

    def kept(self, tiles: Sequence[QueuedTile], failure: BaseException | None) -> bool:
        """The transaction of these tiles is done, or has failed. Returns whether they are kept."""
        ...

    def response(self, request: Request, answer: Any) -> Response | Exception:
        """Returns the answer as a download handler would give it for this request, or raise it."""
        ...


class BlockListener(Protocol):
    """Who has the tiles."""

    def next_tile(self, before: Request | QueuedTile) -> Request | QueuedTile | None:
        """Returns the tile that starts now after that one, at the same host; None ends the block."""
        ...

    def request_of(self, tile: QueuedTile) -> Request | None:
        """Returns the request that takes the tile's place from now on. None where it cannot be made: then the
        tile has failed."""
        ...

    def through(self, tile: Request) -> None:
        """The tile's result is kept, and what it leads to is enqueued; or it has failed."""
        ...

    def all_through(self, tiles: Sequence[QueuedTile]) -> None:
        """So too of several tiles."""
        ...

    def cut_off(self, tile: Request | QueuedTile) -> None:
        """The tile has neither a result nor a failure: it is to be asked again."""
        ...


class Block(Request):
    """Stands for its first tile, and for those that follow it. Each of them has a request of its own, which
    Scrapy's engine does not see."""

    def __init__(self, first: Request | QueuedTile) -> None:
        self.first = first
        self.under_way: set[asyncio.Future[Any]] = set()
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
    of that, and spider middlewares, of which there must be none. Where there is a short way, a tile goes that
    until its answer tells of something new.

    A block has no list: when a tile is answered, its connection takes the next one that may start, whichever
    that is by then. So whatever holds requests back does so within a block, nothing that was not asked must
    go back, and tiles are asked in the order in which they would be asked alone.
    """

    def __init__(self, engine: Any, listener: BlockListener, most: int) -> None:
        """A block has at most so many tiles."""
        self._engine = engine
        self._listener = listener
        self._most = most
        self.short_way: ShortWay | None = None
        self._kept: dict[asyncio.Future[BaseException | None], list[QueuedTile]] = {}
        """By the transaction in which they are kept: the tiles that went the short way."""
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
        tile: Request | QueuedTile | None = request.first
        left, way = self._most, self.short_way
        while tile is not None:
            if isinstance(tile, QueuedTile) and way is not None and way.may_ask(tile):
                await self._ask_shortly(request, tile, way)
            elif (made := tile if isinstance(tile, Request) else self._listener.request_of(tile)) is not None:
                await self._process(request, made)
            left -= 1
            tile = self._listener.next_tile(tile) if left and self.may_go_on else None
        return Response(request.url, request=request)

    async def _ask_shortly(self, block: Block, tile: QueuedTile, way: ShortWay) -> None:
        try:
            answer = await way.ask(tile)
        except BaseException:
            self._listener.cut_off(tile)
            raise
        try:
            transaction = way.keep(tile, answer)
        except Exception:  # noqa: BLE001 - what cannot be judged is a failure at the end of the usual way
            transaction = None
        if transaction is None:
            if (request := self._listener.request_of(tile)) is not None:
                self._process(block, request, way.response(request, answer))
            return
        self._engine.scraper.slot.active_size += self._engine.scraper.slot.MIN_RESPONSE_SIZE
        tiles = self._kept.get(transaction)
        if tiles is None:
            tiles = self._kept[transaction] = []
            transaction.add_done_callback(self._settle)
        tiles.append(tile)
        if transaction not in block.under_way:
            block.under_way.add(transaction)
            transaction.add_done_callback(block.under_way.discard)

    def _settle(self, transaction: asyncio.Future[BaseException | None]) -> None:
        """A transaction is done: its tiles are through, or nobody knows what became of them."""
        tiles, slot = self._kept.pop(transaction), self._engine.scraper.slot
        slot.active_size -= len(tiles) * slot.MIN_RESPONSE_SIZE
        assert self.short_way is not None
        if self.short_way.kept(tiles, transaction.result()):
            self._listener.all_through(tiles)
            return
        for tile in tiles:
            self._listener.cut_off(tile)

    def _process(
        self, block: Block, tile: Request, given: Response | Exception | None = None
    ) -> asyncio.Future[None]:
        """Lets the tile go its way, from its answer on where that is `given`. Returns what is done when its
        connection is free again.

        It is free as soon as the answer is there. What becomes of that may take long, and may need a
        connection, too: a redirect asks another host for its robots.txt.
        """
        answered = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._processed(tile, answered, given))
        block.under_way.add(task)
        task.add_done_callback(block.under_way.discard)
        return answered

    async def _processed(
        self, tile: Request, answered: asyncio.Future[None], given: Response | Exception | None
    ) -> None:
        scraper = self._engine.scraper
        # By this the engine asks for no more where results are kept slower than they come.
        size = scraper.slot.MIN_RESPONSE_SIZE
        scraper.slot.active_size += size
        is_cut_off = False
        try:
            answer = await self._answer(tile, answered, given)
            if isinstance(answer, Request):
                self._engine.crawl(answer)
                return
            if isinstance(answer, Response) and answer.body:
                more = len(answer.body) + _WITH_BODY - size
                size += more
                scraper.slot.active_size += more
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

    async def _answer(
        self, tile: Request, answered: asyncio.Future[None], given: Response | Exception | None
    ) -> Any:
        """Returns what has passed the middlewares: a response, a failure, or a request in its place."""

        async def ask(request: Request) -> Any:
            try:
                return await self._ask(request)
            finally:
                _tell(answered)

        middleware = self._engine.downloader.middleware
        try:
            if given is None:
                return await self._through(ask, tile)
            # The middlewares have nothing to say any more of how it is asked.
            if isinstance(given, Exception):
                given = await middleware._process_exception(given, tile)
            return await middleware._process_response(given, tile)
        except Exception:  # noqa: BLE001 - as in Scrapy's own engine: the errback hears of it
            return Failure()  # type: ignore[no-untyped-call]
        finally:
            # A middleware may have kept it from being asked.
            _tell(answered)


def _tell(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)
