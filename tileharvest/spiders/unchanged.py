"""The short way of tiles of which nothing is new: most of a harvest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from pydispatch.dispatcher import getAllReceivers, liveReceivers  # type: ignore[import-untyped]
from scrapy import signals
from scrapy.http import Response

from tileharvest.errors import TileHarvestError
from tileharvest.middlewares.diff import DiffMiddleware
from tileharvest.middlewares.outage import OutageMiddleware
from tileharvest.middlewares.redirect import TileRedirectMiddleware
from tileharvest.middlewares.retry import PatientRetryMiddleware
from tileharvest.middlewares.traffic import TrafficMiddleware
from tileharvest.pipelines import HistoryPipeline
from tileharvest.politeness.reasons import Reason
from tileharvest.queue.codec import VERSION, QueuedRequest
from tileharvest.scheduler.fingerprint import SegmentFingerprinter
from tileharvest.spiders.download import Head, TileDownloadHandler
from tileharvest.spiders.log import is_debugging
from tileharvest.tiles.questions import TileQuestion
from tileharvest.tiles.verdict import HEAD_REFUSED, Answer, length_of
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scrapy import Request

    from tileharvest.queue.port import Lease
    from tileharvest.scheduler.blocks import QueuedTile
    from tileharvest.scheduler.scheduler import Scheduler
    from tileharvest.spiders.tiles import TileSpider
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.results import TileResult

_OURS: Final = {
    DiffMiddleware,
    PatientRetryMiddleware,
    OutageMiddleware,
    TileRedirectMiddleware,
    TrafficMiddleware,
}
"""The middlewares that this way knows. But for two of them they have nothing to do for such a tile."""
_CALLBACK: Final = "answered"
_ERRBACK: Final = "failed"
_OF_TILE: Final = {"verbatim_url", "download_slot"}
"""Keys of meta of such a tile."""


class UnchangedTiles:
    """Asks for tiles by HEAD, and keeps what is unchanged or still missing: the `ShortWay` of a tile spider.

    It takes the place of request, response, middlewares, callback, item and pipeline for these, which cost
    most of what a tile costs. Each other answer goes their way, from the answer on. What both ways decide is
    decided in the same functions.
    """

    def __init__(
        self,
        spider: TileSpider,
        scheduler: Scheduler,
        handlers: Mapping[str, TileDownloadHandler],
        diff: DiffMiddleware,
        outages: OutageMiddleware,
    ) -> None:
        """`handlers` are by scheme."""
        self._spider = spider
        self._harvest = spider.harvest
        self._crawl = spider.crawl
        self._scheduler = scheduler
        self._handlers = handlers
        self._diff = diff
        self._outages = outages

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
            and queued.method == "HEAD"
            and queued.kind == "Request"
            and queued.callback == _CALLBACK
            and queued.errback == _ERRBACK
            and queued.meta.keys() == _OF_TILE
            and not (queued.headers or queued.body or queued.cookies or queued.cb_kwargs or queued.flags)
            and queued.url.partition(":")[0] in self._handlers
        )

    def _is_as_now(self, queued: QueuedRequest) -> bool:
        """Returns whether a tile that has waited in another run would be written down as it is. So the
        spider has nothing to prepare."""
        layers, question = self._harvest.layers, queued.question
        if question is None or question.tile is None or question.layer not in layers:
            return False
        layer = layers[question.layer].layer
        try:
            is_same = queued == queued_head(layer, question)
        except ValueError:
            return False
        return is_same and question.layer not in self._harvest.endless

    def may_ask(self, tile: QueuedTile) -> bool:
        if self._harvest.fetches_at_once:
            return False
        robots, politeness = self._crawl.robots, self._crawl.politeness
        reasons = politeness.reasons if politeness is not None else ()
        if reasons and reasons != {Reason.SPENT}:
            return False
        if robots.rules and not robots.allows(tile.url):
            return False
        return self._diff.asks_by_head(tile.meta["download_slot"])

    async def ask(self, tile: QueuedTile) -> Head | Exception:
        url, question = tile.url, tile.queued.question
        assert question is not None
        layer, place = question.place
        # The history is asked at the same time as the site. Of what is not kept it has no versions.
        fetching: list[asyncio.Task[Any] | None] = [self._harvest.walks.marks.fetch(layer, place)]
        if place.zoom in self._harvest.layers[layer].walk.kept_zooms:
            fetching.append(self._harvest.versions.fetch(layer, place))
        try:
            answer: Head | Exception = await self._handlers[url.partition(":")[0]].head(url)
        except Exception as error:  # noqa: BLE001 - as in Scrapy's own engine: the middlewares hear of it
            answer = error
        for task in fetching:
            if task is not None:
                await asyncio.wait([task])
        return answer

    def keep(self, tile: QueuedTile, answer: Head | Exception) -> asyncio.Future[BaseException | None] | None:
        question, harvest = tile.queued.question, self._harvest
        assert question is not None
        if isinstance(answer, Exception) or answer.status not in (200, 404):
            if not isinstance(answer, Exception) and answer.status in HEAD_REFUSED:
                # Its response comes to the middleware after the next tile was asked.
                self._diff.note_refusal(tile.meta["download_slot"])
            return None
        found = self._diff.unchanged(question, _answer_of(answer))
        if found is None:
            return None
        result, spared_bytes = found
        # What can raise comes first, as an answer that is kept here must not go on.
        entries = self._scheduler.entries_of(self._after(tile, result, question))
        try:
            transaction = harvest.keep_unchanged(result)
        except TileHarvestError:
            # It is raised once more, where it ends the crawl.
            return None
        # Not before, or what goes on as a request counts it once more.
        harvest.traffic.spared_bytes += spared_bytes
        tile.result = result
        self._outages.answered(tile.meta["download_slot"], tile.url if answer.status == 200 else None)
        self._scheduler.enqueue_entries(entries)
        return transaction

    def kept(self, tiles: Sequence[QueuedTile], failure: BaseException | None) -> bool:
        try:
            self._harvest.kept((tile.result for tile in tiles if tile.result is not None), failure)
        except TileHarvestError as error:
            self._crawl.end(error)
            return False
        except BaseException as error:
            self._spider.logger.error("a mistake in the program stopped the harvest", exc_info=error)
            mistake = (
                f"results could not be recorded ({error!r}); what was recorded before is kept: report this"
            )
            self._crawl.end(TileHarvestError(mistake))
            return False
        return True

    def response(self, request: Request, answer: Head | Exception) -> Response | Exception:
        if isinstance(answer, Exception):
            return answer
        return Response(request.url, status=answer.status, headers=answer.headers, request=request)

    def _after(self, tile: QueuedTile, result: TileResult, question: TileQuestion) -> Iterator[QueuedRequest]:
        layer = self._harvest.layers[result.layer].layer
        for below, asked in self._spider.after(result, question.asked, known=False):
            yield queued_head(layer, TileQuestion(layer.name, below, asked))


def queued_head(layer: Layer, question: TileQuestion) -> QueuedRequest:
    """Returns what `TileSpider.ask` asks by HEAD, as it waits."""
    _, tile = question.place
    return QueuedRequest(
        version=VERSION,
        url=layer.addresses.url_of(tile),
        method="HEAD",
        meta={"verbatim_url": True, "download_slot": layer.host},
        callback=_CALLBACK,
        errback=_ERRBACK,
        question=question,
    )


def unchanged_tiles(spider: TileSpider, scheduler: Scheduler) -> UnchangedTiles | None:
    """Returns the short way of a spider, or None where anything of the project's is to see each tile: a
    spider of its own, a fingerprinter, a middleware, a pipeline, a feed, or the log at the level DEBUG."""
    crawler = spider.crawler
    engine: Any = crawler.engine
    middlewares = {type(one): one for one in engine.downloader.middleware.middlewares}
    pipelines = {type(one) for one in engine.scraper.itemproc.middlewares}
    handlers = {scheme: engine.downloader.handlers._get_handler(scheme) for scheme in ("http", "https")}
    # Of Scrapy's signals the blocks send only those of items.
    is_listened_to = any(liveReceivers(getAllReceivers(crawler, signals.item_scraped)))
    if (
        not spider.is_usual
        or type(crawler.request_fingerprinter) is not SegmentFingerprinter
        or middlewares.keys() != _OURS
        or pipelines != {HistoryPipeline}
        or any(type(one) is not TileDownloadHandler for one in handlers.values())
        or is_listened_to
        or is_debugging(crawler.settings)
    ):
        return None
    diff, outages = middlewares[DiffMiddleware], middlewares[OutageMiddleware]
    return UnchangedTiles(spider, scheduler, handlers, diff, outages)


def _answer_of(head: Head) -> Answer:
    told = dict(head.headers)
    etag, modified, length = told.get(b"etag"), told.get(b"last-modified"), told.get(b"content-length")
    validator = Validator(
        None if etag is None else etag.decode("latin-1"),
        None if modified is None else modified.decode("latin-1"),
    )
    return Answer(head.status, validator, length_of(length))
