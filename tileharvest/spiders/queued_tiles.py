"""The short way: asks for queued tiles in blocks, and keeps what it finds."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace
from pydispatch.dispatcher import getAllReceivers, liveReceivers  # type: ignore[import-untyped]
from scrapy import signals
from scrapy.http import Response

from tileharvest.errors import TileHarvestError
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
from tileharvest.spiders.download import TileDownloadHandler
from tileharvest.spiders.log import is_debugging
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.questions import TileQuestion
from tileharvest.tiles.verdict import HEAD_REFUSED, Answer, length_of
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy.crawler import Crawler

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.queue.port import Lease
    from tileharvest.scheduler.blocks import Block, QueuedTile
    from tileharvest.scheduler.scheduler import Scheduler
    from tileharvest.spiders.download import Reply
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
        after: Callable[..., Iterator[tuple[Tile, Asked]]],
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
        self._is_elsewhere = (lambda host: False) if politeness is None else politeness.is_elsewhere
        self._stores_in_turn = bool(crawl.rules and crawl.rules.store_gap != NO_GAP)
        """Whether the pipeline pauses between two images."""
        self._kept: dict[asyncio.Future[BaseException | None], tuple[list[QueuedTile], list[TileResult]]] = {}
        """The tiles of which nothing is new, with their results, by the transaction that keeps them."""

    def takes(self, lease: Lease, queued: QueuedRequest, *, is_begun: bool) -> bool:
        question = queued.question
        if not is_begun and (lease.segment != self._harvest.segment.name or not self._is_as_now(queued)):
            return False
        return (
            lease.attempt == 1
            and question is not None
            and question.tile is not None
            and question.layer in self._harvest.layers
            and not question.asked.again
            and (queued.method == "HEAD" or (queued.method == "GET" and not self._stores_in_turn))
            and queued.kind == "Request"
            and queued.callback == _CALLBACK
            and queued.errback == _ERRBACK
            and queued.meta.keys() == _OF_TILE
            and not (queued.headers or queued.body or queued.cookies or queued.cb_kwargs or queued.flags)
            and queued.url.partition(":")[0] in self._handlers
            # The download handler lets a request wait for its turn at another host.
            and not self._is_elsewhere(queued.meta["download_slot"])
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

    def _may_ask(self, queued: QueuedRequest) -> bool:
        """Returns whether the short way may ask for a tile at this moment."""
        robots, politeness = self._crawl.robots, self._crawl.politeness
        reasons = politeness.reasons if politeness is not None else ()
        if reasons and reasons != {Reason.SPENT}:
            return False
        if robots.rules and not robots.allows(queued.url):
            return False
        assert queued.question is not None
        return self._diff.keeps_method(queued.method, queued.question, queued.meta["download_slot"])

    async def ask_all(self, block: Block) -> Response:
        tile: QueuedTile | None = block.first
        left = self._scheduler.block_size
        while tile is not None:
            # Something may have changed since the scheduler has looked.
            if not self._may_ask(tile.queued):
                self._scheduler.leave(tile)
            else:
                reply = await self._ask(tile)
                if isinstance(reply, Exception):
                    self._scheduler.leave(tile, reply)
                elif not self._keep(block, tile, reply):
                    self._scheduler.leave(tile, _response_of(reply, tile.queued))
            left -= 1
            tile = await self._following(tile) if left else None
        return Response(block.url, request=block)

    async def _following(self, before: QueuedTile) -> QueuedTile | None:
        """Returns the next tile of a block when it may start, or None if the block is over."""
        while may_go_on(self._engine):
            tile = self._scheduler.next_tile(before)
            if tile is not None or not await self._scheduler.until_start():
                return tile
        return None

    async def _ask(self, tile: QueuedTile) -> Reply | Exception:
        """Returns what the site replies, or the exception that tells why it does not. By then the history has
        been asked, too: about the tile's mark, and about its latest version if the tile is to be kept."""
        url, question = tile.queued.url, tile.queued.question
        assert question is not None
        layer, place = question.place
        fetching: list[asyncio.Task[Any] | None] = [self._harvest.walks.marks.fetch(layer, place)]
        if place.zoom in self._harvest.layers[layer].walk.kept_zooms:
            fetching.append(self._harvest.versions.fetch(layer, place))
        try:
            reply: Reply | Exception
            try:
                reply = await self._handlers[url.partition(":")[0]].ask(tile.queued.method, url)
            except Exception as error:  # noqa: BLE001 - as in Scrapy's own engine: the middlewares hear of it
                reply = error
            for task in fetching:
                if task is not None:
                    await asyncio.wait([task])
        except BaseException:
            self._scheduler.cut_off(tile)
            raise
        return reply

    def _keep(self, block: Block, tile: QueuedTile, reply: Reply) -> bool:
        """Judges the reply, enqueues the tiles below, and begins to keep the result. Returns False, and has
        done nothing, if an ordinary request must go on with the reply."""
        queued, question = tile.queued, tile.queued.question
        assert question is not None
        by_head, host = queued.method == "HEAD", queued.meta["download_slot"]
        if by_head and reply.status in HEAD_REFUSED:
            # The middleware hears of it later, when further tiles were asked.
            self._diff.note_refusal(host)
        if reply.status not in _JUDGED:
            return False
        transaction = None
        try:
            # All that can raise an exception comes before anything is changed.
            found = self._diff.found_at_once(question, _answer_of(reply, by_head=by_head), by_head=by_head)
            if found is None:
                return False
            if found == "GET":
                result, spared = None, 0
                entries = self._scheduler.entries_of([_get_of(queued)])
            else:
                result, image = found
                spared = image.size if image is not None and result.outcome is Outcome.IGNORED else 0
                below = list(self._below(result, question.asked, known=image is not None))
                entries = self._scheduler.entries_of(below) if below else []
            if result is not None and result.image is None and result.is_recorded:
                transaction = self._harvest.keep_unchanged(result)
        except Exception:  # noqa: BLE001 - the ordinary request raises it again, and the tile fails
            return False
        self._count(len(reply.body), spared)
        self._outages.answered(host, queued.url if reply.status == HTTPStatus.OK else None)
        if entries:
            self._scheduler.enqueue_entries(entries)
        if result is not None and transaction is not None:
            self._await(block, tile, result, transaction)
        elif result is not None and result.image is not None:
            self._store(block, tile, result)
        else:
            self._scheduler.through(tile)
        return True

    def _below(self, result: TileResult, asked: Asked, *, known: bool) -> Iterator[QueuedRequest]:
        layer = self._harvest.layers[result.layer].layer
        for tile, how in self._after(result, asked, known=known):
            method = method_for(self._harvest, layer, tile)
            yield queued_tile(layer, TileQuestion(layer.name, tile, how), method)

    def _count(self, received: int, spared: int) -> None:
        """Counts the bytes of a reply that is kept. Those of one that is left are counted by middlewares."""
        self._harvest.traffic.spared_bytes += spared
        if received:
            self._harvest.traffic.received_bytes += received
            if self._crawl.politeness is not None:
                self._crawl.politeness.received()

    # Until a tile is kept, it counts in the scraper of Scrapy's engine as a response does: the engine asks
    # for no more while too much is there.

    def _await(
        self,
        block: Block,
        tile: QueuedTile,
        result: TileResult,
        transaction: asyncio.Future[BaseException | None],
    ) -> None:
        """Lets a tile be through when the transaction is done that records its result."""
        slot = self._engine.scraper.slot
        slot.active_size += slot.MIN_RESPONSE_SIZE
        if transaction not in self._kept:
            self._kept[transaction] = [], []
            transaction.add_done_callback(self._settle)
        tiles, results = self._kept[transaction]
        tiles.append(tile)
        results.append(result)
        if transaction not in block.under_way:
            block.under_way.add(transaction)
            transaction.add_done_callback(block.under_way.discard)

    def _settle(self, transaction: asyncio.Future[BaseException | None]) -> None:
        (tiles, results), slot = self._kept.pop(transaction), self._engine.scraper.slot
        slot.active_size -= len(tiles) * slot.MIN_RESPONSE_SIZE
        try:
            self._harvest.kept(results, transaction.result())
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


def method_for(harvest: Harvest, layer: Layer, tile: Tile) -> Literal["HEAD", "GET"]:
    """Returns how a tile is asked for on the walk. If nothing was known before, a HEAD could only say what
    the GET says, too."""
    is_kept = tile.zoom in harvest.layers[layer.name].walk.kept_zooms
    return "GET" if harvest.fetches_at_once and is_kept else "HEAD"


def queued_tile(layer: Layer, question: TileQuestion, method: str, priority: int = 0) -> QueuedRequest:
    """Returns what `TileSpider.ask` asks, as the queue keeps it."""
    _, tile = question.place
    return QueuedRequest(
        version=VERSION,
        url=layer.addresses.url_of(tile),
        method=method,
        meta={"verbatim_url": True, "download_slot": layer.host},
        callback=_CALLBACK,
        errback=_ERRBACK,
        priority=priority,
        question=question,
    )


def queued_tiles(
    crawler: Crawler, scheduler: Scheduler, after: Callable[..., Iterator[tuple[Tile, Asked]]]
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


def _get_of(queued: QueuedRequest) -> QueuedRequest:
    return replace(queued, method="GET", priority=GETS)


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
