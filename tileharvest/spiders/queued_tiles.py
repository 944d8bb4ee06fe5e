"""The short way: asks for queued tiles in blocks, and keeps what it finds."""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace
from pydispatch.dispatcher import getAllReceivers, liveReceivers  # type: ignore[import-untyped]
from scrapy import signals
from scrapy.http import Response

from tileharvest.errors import TileHarvestError
from tileharvest.history.known import block_of
from tileharvest.maps.rates import NO_GAP
from tileharvest.middlewares.diff import GETS, DiffMiddleware
from tileharvest.middlewares.outage import OutageMiddleware
from tileharvest.middlewares.redirect import TileRedirectMiddleware
from tileharvest.middlewares.retry import PatientRetryMiddleware
from tileharvest.middlewares.traffic import TrafficMiddleware
from tileharvest.pipelines import HistoryPipeline
from tileharvest.politeness.reasons import Reason
from tileharvest.queue.codec import VERSION, QueuedRequest
from tileharvest.scheduler.blocks import may_go_on
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.fingerprint import SegmentFingerprinter
from tileharvest.spiders.download import Reply, TileDownloadHandler
from tileharvest.spiders.log import is_debugging
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.questions import TileQuestion
from tileharvest.tiles.verdict import HEAD_REFUSED, OK, Answer, length_of
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy.crawler import Crawler

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.history.known import BlockKey
    from tileharvest.queue.port import Lease
    from tileharvest.scheduler.blocks import Block, QueuedTile
    from tileharvest.scheduler.scheduler import Scheduler
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.questions import Asked
    from tileharvest.tiles.results import TileResult

_logger = logging.getLogger(__name__)

_OURS: Final = {
    DiffMiddleware,
    PatientRetryMiddleware,
    OutageMiddleware,
    TileRedirectMiddleware,
    TrafficMiddleware,
}
"""The middlewares whose work the short way does, or which have nothing to do for a tile that it keeps."""
_CALLBACK: Final = "answered"
_ERRBACK: Final = "failed"
_OF_TILE: Final = {"verbatim_url", "download_slot"}
"""The keys of meta that a tile has which has nothing of its own."""
_JUDGED: Final = (200, 204, 404, 410)
"""Statuses whose answers may be kept here: the tile, or word that it is not there, as the site's own server
says it. What others mean, a redirect or a rest, the middlewares know."""

_WITH_BODY: Final = 8 * 1024
"""Bytes that an image counts for, beside its own, until it is kept. It takes some 16 kB in that time: reply,
result, and what waits for the disk. With the 1 kB of Scrapy's responses thousands of images waited for a slow
disk, in 160 to 204 MB. With half of what they take, some 500 small ones are below Scrapy's bound of 5 MB, as
many as fill half a transaction."""


class QueuedTiles:
    """Asks for the tiles of blocks, and keeps what it finds: the `ShortWay` of a tile spider.

    For a tile that has nothing of its own it takes the place of request, response, middlewares, callback,
    item and pipeline, which cost most of what a tile costs. It decides by the same functions as they do. What
    it cannot keep it leaves to an ordinary request, together with the answer.

    A block has no list. When a tile is answered, its connection takes the next one that may start, whichever
    that is by then. At a slowly asked site one block waits for that start. Whatever holds requests back does
    so in the middle of a block, too; nothing that was not asked must go back to the queue, and the order is
    that of single requests.
    """

    def __init__(
        self,
        crawler: Crawler,
        scheduler: Scheduler,
        handlers: Mapping[str, TileDownloadHandler],
        diff: DiffMiddleware,
        outages: OutageMiddleware,
        after: Callable[..., list[tuple[Tile, Asked]]],
    ) -> None:
        """`handlers` are by scheme. `after` is that of `TileSpider`."""
        self._crawl = crawl = crawl_of(crawler)
        assert crawl.harvest is not None
        self._engine: Any = crawler.engine
        self._harvest = crawl.harvest
        self._scheduler = scheduler
        self._handlers = handlers
        self._diff = diff
        self._outages = outages
        self._after = after
        politeness = crawl.politeness
        # The download handler lets a request wait for its turn at another host.
        self._layers = {
            name
            for name, part in crawl.harvest.layers.items()
            if politeness is None or not politeness.is_elsewhere(part.layer.host)
        }
        """The layers whose tiles may be asked this way."""
        self._stores_in_turn = bool(crawl.rules and crawl.rules.store_gap != NO_GAP)
        """Whether the pipeline pauses between two images."""
        self._context = copy_context()
        """The context of this crawl, by which the log names its map. The connections, which all crawls share,
        tell of answers in the context of another crawl."""
        self._heard: list[tuple[Block, Reply | BaseException]] = []
        """What was answered in this turn of the event loop, each with the block whose tile was asked."""
        self._kept: dict[asyncio.Future[BaseException | None], list[tuple[QueuedTile, TileResult]]] = {}
        """The tiles of which nothing is new, with their results, by the transaction that keeps them."""

    def takes(self, lease: Lease, queued: QueuedRequest, *, is_begun: bool) -> bool:
        question = queued.question
        if not is_begun and (lease.segment != self._harvest.segment.name or not self._is_as_now(queued)):
            return False
        return (
            lease.attempt == 1
            and question is not None
            and question.tile is not None
            and question.layer in self._layers
            and not question.asked.again
            and (queued.method == "HEAD" or (queued.method == "GET" and not self._stores_in_turn))
            and queued.kind == "Request"
            and queued.callback == _CALLBACK
            and queued.errback == _ERRBACK
            and queued.meta.keys() == _OF_TILE
            and not (queued.headers or queued.body or queued.cookies or queued.cb_kwargs or queued.flags)
            and queued.url.partition(":")[0] in self._handlers
            and (not self._crawl.robots.rules or self._crawl.robots.allows(queued.url))
            and self._diff.keeps_method(queued.method, question, queued.meta["download_slot"])
        )

    def _is_as_now(self, queued: QueuedRequest) -> bool:
        """Returns whether a tile that has waited in another run would be written down as it is. Then the
        spider has nothing to prepare."""
        layers, question = self._harvest.layers, queued.question
        if question is None or question.tile is None or question.layer not in layers:
            return False
        layer = layers[question.layer].layer
        try:
            is_same = queued == queued_tile(layer, question, queued.method, queued.priority)
        except ValueError:
            return False
        return is_same and question.layer not in self._harvest.endless

    async def ask_all(self, block: Block) -> Response:
        block.left = self._scheduler.block_size
        tiles = [block.first]
        if not self._still_takes(block.first):
            self._scheduler.leave(block.first)
            tiles = []
        try:
            while tiles:
                block.over = asyncio.get_running_loop().create_future()
                self._ask([block], tiles)
                await block.over
                tiles = await self._later() if block.left else []
        except BaseException:
            if block.tile is not None:
                self._scheduler.cut_off(block.tile)
                block.tile = None
            raise
        return Response(block.url, request=block)

    def _still_takes(self, tile: QueuedTile) -> bool:
        """Returns whether the first tile of a block may be asked this way. Something may have changed since
        the scheduler has looked. If only the budget is spent the tile may be asked: it is a part of what was
        spent."""
        politeness = self._crawl.politeness
        reasons = politeness.reasons if politeness is not None else ()
        is_held_back = bool(reasons) and reasons != {Reason.SPENT}
        return not is_held_back and self.takes(tile.lease, tile.queued, is_begun=True)

    async def _later(self) -> list[QueuedTile]:
        """Returns the next tile of a block when it may start, or nothing if the block is over."""
        while may_go_on(self._engine):
            # First of all: since the block was told that none may start, leases may have come that nobody
            # tells of again.
            tiles = self._scheduler.next_tiles(1)
            if tiles or not await self._scheduler.until_start():
                return tiles
        return []

    def _ask(self, blocks: Sequence[Block], tiles: Sequence[QueuedTile]) -> None:
        """Asks for the tiles of these blocks, one for each: the site, and meanwhile the history about each
        tile's latest version and its mark."""
        look_ups: dict[BlockKey, asyncio.Future[Any] | None] = {}
        # This comes first: if anything below raises, each block cuts off its tile.
        for block, tile in zip(blocks, tiles, strict=True):
            block.tile = tile
        for block, tile in zip(blocks, tiles, strict=True):
            queued, question = tile.queued, tile.queued.question
            assert question is not None
            layer, place = question.place
            key = block_of(layer, place)
            if key not in look_ups:
                look_ups[key] = self._harvest.walks.known.fetch(key, place)
            block.look_up = look_ups[key]
            try:
                handler = self._handlers[queued.url.partition(":")[0]]
                handler.ask(queued.method, queued.url, partial(self._hear, block))
            except Exception as error:  # noqa: BLE001 - as in Scrapy's own engine: the middlewares hear of it
                self._hear(block, error)

    def _go_on(self, blocks: Sequence[Block]) -> None:
        """Asks for the tiles that may start now, one for each of these blocks, whose tiles were answered.
        Ends the wait for the blocks that get none."""
        for block in blocks:
            block.tile = None
            block.left -= 1
        going = [block for block in blocks if block.left] if may_go_on(self._engine) else []
        tiles = self._scheduler.next_tiles(len(going)) if going else []
        self._ask(going[: len(tiles)], tiles)
        for block in blocks:
            if block.tile is None:
                block.over.set_result(None)

    def _hear(self, block: Block, reply: Reply | BaseException) -> None:
        """Hears what the site has answered. When the history has answered, too, the tile is taken in together
        with all others of this turn of the event loop."""
        if block.look_up is not None and not block.look_up.done():
            block.look_up.add_done_callback(lambda _: self._hear(block, reply))
            return
        if not self._heard:
            asyncio.get_running_loop().call_soon(self._take_in, context=self._context)
        self._heard.append((block, reply))

    def _take_in(self) -> None:
        """Keeps the tiles that were answered, and asks for those that follow them."""
        heard, self._heard = self._heard, []
        try:
            self._keep(self._judged(heard))
            self._go_on([block for block, _ in heard if not block.over.done()])
        except Exception as error:  # noqa: BLE001 - a mistake of ours must end the blocks, not hang them
            for block, _ in heard:
                if not block.over.done():
                    block.over.set_exception(error)

    def _judged(
        self, heard: list[tuple[Block, Reply | BaseException]]
    ) -> list[tuple[Block, QueuedTile, Reply]]:
        """Returns the tiles whose replies can be kept, and leaves the others to ordinary requests."""
        found: list[tuple[Block, QueuedTile, Reply]] = []
        for block, reply in heard:
            tile = block.tile
            if tile is None or block.over.done():
                # The wait for the block was cut short.
                continue
            if isinstance(reply, Reply) and self._judge(tile, reply):
                found.append((block, tile, reply))
            elif isinstance(reply, (Reply, Exception)):
                self._leave(tile, reply)
            else:
                block.over.cancel()
        return found

    def _leave(self, tile: QueuedTile, reply: Reply | Exception) -> None:
        """Leaves a tile to an ordinary request, together with what came."""
        answer = _response_of(reply, tile.queued) if isinstance(reply, Reply) else reply
        self._scheduler.leave(tile, answer)

    def _judge(self, tile: QueuedTile, reply: Reply) -> bool:
        """Notes with the tile its result, and what is enqueued because of it. Returns False if an ordinary
        request must go on with the reply. All that can raise an exception comes before anything is kept."""
        queued, question = tile.queued, tile.queued.question
        assert question is not None
        by_head = queued.method == "HEAD"
        if by_head and reply.status in HEAD_REFUSED:
            # The middleware hears of it later, when further tiles were asked.
            self._diff.note_refusal(queued.meta["download_slot"])
        if reply.status not in _JUDGED:
            return False
        try:
            found = self._diff.found_at_once(question, _answer_of(reply, by_head=by_head), by_head=by_head)
            if found is None:
                return False
            if found == "GET":
                tile.entries = self._scheduler.entries_of([replace(queued, method="GET", priority=GETS)])
                return True
            tile.result, image = found
            if image is not None and tile.result.outcome is Outcome.IGNORED:
                tile.spared_bytes = image.size
            following = self._after(tile.result, question.asked, known=image is not None)
            if following:
                tile.entries = self._scheduler.entries_of(self._queued(question.layer, following))
        except Exception:  # noqa: BLE001 - the ordinary request raises it again, and the tile fails
            tile.result = None
            return False
        return True

    def _queued(self, layer_name: str, following: Iterable[tuple[Tile, Asked]]) -> list[QueuedRequest]:
        """Returns the requests for tiles of a layer, each of which is asked as it says."""
        layer, fetched = self._harvest.layers[layer_name].layer, fetched_zooms(self._harvest, layer_name)
        return [
            queued_tile(
                layer, TileQuestion(layer_name, tile, asked), "GET" if tile.zoom in fetched else "HEAD"
            )
            for tile, asked in following
        ]

    # Until a tile is kept, it counts in the scraper of Scrapy's engine as a response does: the engine asks
    # for no more while too much is there.

    def _keep(self, found: list[tuple[Block, QueuedTile, Reply]]) -> None:
        """Enqueues what follows from these tiles, and begins to keep their results."""
        settled: list[QueuedTile] = []
        unchanged: list[tuple[Block, QueuedTile, TileResult]] = []
        images: list[tuple[Block, QueuedTile, TileResult]] = []
        for block, tile, _ in found:
            result = tile.result
            if result is None or not result.is_recorded:
                settled.append(tile)
            elif result.image is None:
                unchanged.append((block, tile, result))
            else:
                images.append((block, tile, result))
        transaction = None
        if unchanged:
            try:
                transaction = self._harvest.keep_unchanged([result for _, _, result in unchanged])
            except Exception:  # noqa: BLE001 - the ordinary requests raise it again, and end the crawl
                for _, tile, reply in found:
                    self._leave(tile, reply)
                return
        self._follow(found)
        if transaction is not None:
            self._await(transaction, unchanged)
        for block, tile, result in images:
            self._store(block, tile, result)
        if settled:
            self._scheduler.through(*settled)

    def _follow(self, found: list[tuple[Block, QueuedTile, Reply]]) -> None:
        """Enqueues what follows from these replies, counts their bytes, and notes that their hosts answer.
        The replies that are left are for the middlewares."""
        if entries := [entry for _, tile, _ in found for entry in tile.entries]:
            self._scheduler.enqueue_entries(entries)
        received, well = 0, dict[str, str | None]()
        for _, tile, reply in found:
            host, url = tile.queued.meta["download_slot"], tile.queued.url
            well[host] = url if reply.status == OK else well.get(host)
            received += len(reply.body)
            self._harvest.traffic.spared_bytes += tile.spared_bytes
        for host, address in well.items():
            self._outages.answered(host, address)
        if received:
            self._harvest.traffic.received_bytes += received
            if self._crawl.politeness is not None:
                self._crawl.politeness.received()

    def _await(
        self,
        transaction: asyncio.Future[BaseException | None],
        unchanged: list[tuple[Block, QueuedTile, TileResult]],
    ) -> None:
        """Lets these tiles be through when the transaction is done that records their results."""
        slot = self._engine.scraper.slot
        slot.active_size += len(unchanged) * slot.MIN_RESPONSE_SIZE
        if transaction not in self._kept:
            self._kept[transaction] = []
            transaction.add_done_callback(self._settle)
        self._kept[transaction] += [(tile, result) for _, tile, result in unchanged]
        for block, _, _ in unchanged:
            if transaction not in block.under_way:
                block.under_way.add(transaction)
                transaction.add_done_callback(block.under_way.discard)

    def _settle(self, transaction: asyncio.Future[BaseException | None]) -> None:
        kept, slot = self._kept.pop(transaction), self._engine.scraper.slot
        slot.active_size -= len(kept) * slot.MIN_RESPONSE_SIZE
        tiles = [tile for tile, _ in kept]
        try:
            self._harvest.kept([result for _, result in kept], transaction.result())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it ends the crawl
            self._end(error)
            self._scheduler.cut_off(*tiles)
        else:
            self._scheduler.through(*tiles)

    def _store(self, block: Block, tile: QueuedTile, result: TileResult) -> None:
        """Begins to store an image and to record its version."""
        assert result.body is not None
        slot, size = self._engine.scraper.slot, len(result.body) + _WITH_BODY
        slot.active_size += size

        def end(task: asyncio.Future[None]) -> None:
            slot.active_size -= size
            block.under_way.discard(task)

        task = asyncio.ensure_future(self._stored(tile, result))
        block.under_way.add(task)
        task.add_done_callback(end)

    async def _stored(self, tile: QueuedTile, result: TileResult) -> None:
        try:
            await self._harvest.keep(result)
        except BaseException as error:
            self._scheduler.cut_off(tile)
            if not isinstance(error, Exception):
                raise
            self._end(error)
        else:
            self._scheduler.through(tile)

    def _end(self, error: BaseException) -> None:
        """Ends the crawl, as results could not be kept."""
        if not isinstance(error, TileHarvestError):
            _logger.error("a mistake in the program stopped the harvest", exc_info=error)
            error = TileHarvestError(
                f"results could not be recorded ({error!r}); what was recorded before is kept: report this"
            )
        self._crawl.end(error)


def fetched_zooms(harvest: Harvest, layer: str) -> range:
    """Returns the zooms whose tiles the walk asks for by GET at once. If nothing was known before, a HEAD
    could only say what the GET says, too."""
    return harvest.layers[layer].walk.kept_zooms if harvest.fetches_at_once else range(0)


def queued_tile(layer: Layer, question: TileQuestion, method: str, priority: int = 0) -> QueuedRequest:
    """Returns what `TileSpider.ask` asks, as the queue keeps it."""
    assert question.tile is not None
    return QueuedRequest(
        version=VERSION,
        url=layer.addresses.url_of(question.tile),
        method=method,
        meta={"verbatim_url": True, "download_slot": layer.host},
        callback=_CALLBACK,
        errback=_ERRBACK,
        priority=priority,
        question=question,
    )


def queued_tiles(
    crawler: Crawler, scheduler: Scheduler, after: Callable[..., list[tuple[Tile, Asked]]]
) -> QueuedTiles | None:
    """Returns the short way of a crawl, or None if anything of the project's is to see each tile: a
    fingerprinter, a middleware, a pipeline, a feed, or the log at the level DEBUG."""
    engine: Any = crawler.engine
    middlewares = {type(one): one for one in engine.downloader.middleware.middlewares}
    pipelines = {type(one) for one in engine.scraper.itemproc.middlewares}
    handlers = {scheme: engine.downloader.handlers._get_handler(scheme) for scheme in ("http", "https")}
    # The short way yields no items, so nobody is told of them.
    is_listened_to = any(liveReceivers(getAllReceivers(crawler, signals.item_scraped)))
    if (
        type(crawler.request_fingerprinter) is not SegmentFingerprinter
        or middlewares.keys() != _OURS
        or next(iter(middlewares)) is not DiffMiddleware
        or engine.scraper.spidermw.middlewares
        or pipelines != {HistoryPipeline}
        or any(type(one) is not TileDownloadHandler for one in handlers.values())
        or is_listened_to
        or is_debugging(crawler.settings)
    ):
        return None
    diff, outages = middlewares[DiffMiddleware], middlewares[OutageMiddleware]
    return QueuedTiles(crawler, scheduler, handlers, diff, outages, after)


def _response_of(reply: Reply, queued: QueuedRequest) -> Response | Exception:
    """Returns what a download handler would give for the reply. Headers that no response can be made of are a
    failure of the tile, as they are there."""
    try:
        return reply.response(queued.method, queued.url)
    except Exception as error:  # noqa: BLE001 - as in Scrapy's own engine: the middlewares hear of it
        return error


def _answer_of(reply: Reply, *, by_head: bool) -> Answer:
    told = dict(reply.headers)
    etag, modified, length = told.get(b"etag"), told.get(b"last-modified"), told.get(b"content-length")
    location = told.get(b"location")
    validator = Validator(
        None if etag is None else etag.decode("latin-1"),
        None if modified is None else modified.decode("latin-1"),
    )
    return Answer(
        reply.status,
        validator,
        length_of(length) if by_head else len(reply.body),
        b"" if by_head else reply.body,
        None if location is None else location.decode("latin-1"),
    )
