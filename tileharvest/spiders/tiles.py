"""What the spiders of all renderers share."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, DontCloseSpider

from tileharvest.errors import ExitStatus, TileHarvestError
from tileharvest.harvest.settings import harvesting_for
from tileharvest.maps.settings import data_folder
from tileharvest.politeness.limits import Room
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.requests import ATTEMPT, AUDITED, FAILURE, IN_FULL, LATE, PUSHED
from tileharvest.scheduler.crawl import relax_garbage_collection
from tileharvest.scheduler.spider import HeldSpider
from tileharvest.spiders.addressing import addressed
from tileharvest.spiders.beginning import begin, offer
from tileharvest.spiders.completing import complete
from tileharvest.spiders.ending import close_reason, settle
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.verdict import with_attempts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure

    from tileharvest.harvest.harvest import Harvesting
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.robots import Robots
    from tileharvest.politeness.rules import Rules
    from tileharvest.renderers.overviewer import Fetch
    from tileharvest.renderers.site import Site
    from tileharvest.scheduler.fleet import Fleet
    from tileharvest.tiles.layers import Layer

_LEVELS: Final = {ExitStatus.DONE: logging.INFO, ExitStatus.BUDGET: logging.WARNING}
"""At which a harvest's end is told that is no error."""

CHECKS = 0
"""Priority of the lane for checks: normal."""


class TileSpider(Spider, HeldSpider):
    """Harvests one map: `-a map=NAME`, and if wanted `-a dry=1`, `-a day=2026-11-20`, `-a segment=run`,
    `-a fresh=1`, `-a stay=1`.

    A failure ends it with one line in the log; `ending` holds it for the command that ran the spider.
    """

    harvesting: Harvesting
    rules: Rules
    """What the map's owner may expect, for all parts of the crawl."""
    robots: Robots | None = None
    """What the site's robots.txt allows, once it was read; None: everything."""
    holds_scheduler = True
    """The site must be probed before a tile has an address."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ending: TileHarvestError | None = None
        """The failure that ended the harvest."""
        self.finished = False
        """Whether the harvest reached its end."""
        self.counts: dict[Outcome, int] = {}
        """The exact counts, once the spider has closed."""
        self._work: Fleet | None = None
        self._completing: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[Any] | None = None

    @property
    def ended_here(self) -> bool:
        """Whether it is this worker that has to tell of the end."""
        return self.harvesting.ended_here

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """What the map's site says about itself. Raises SiteError."""
        raise NotImplementedError

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        try:
            harvesting = harvesting_for(crawler.settings, kwargs)
            spider.rules = rules_for(crawler.settings, harvesting.description)
            spider.harvesting = harvesting
        except TileHarvestError as error:
            spider.ending = error
            return spider
        behave(crawler.settings, spider.rules)
        if spider.rules.min_free is not None:
            spider.harvesting.room = Room(data_folder(crawler.settings), spider.rules.min_free)
        relax_garbage_collection(crawler.settings)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        crawler.signals.connect(spider.end, signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Probe the site, begin the harvest, and ask for the tiles at which the walks start."""
        # By the scheduler, before this.
        said = self.ending is not None and hasattr(self, "harvesting")
        self._beginning = asyncio.current_task()
        try:
            if self.ending is None:
                await begin(self)
        except TileHarvestError as error:
            self.ending = error
        except Exception as error:
            self.logger.error("a mistake in the program stopped the harvest", exc_info=error)
            self.ending = TileHarvestError(
                f"the harvest stopped before it began ({error!r}); nothing was changed: report this"
            )
        if self.ending is not None:
            self._beginning = None
            if not said:
                self._say(self.ending)
            raise CloseSpider(close_reason(self.ending))
        self._work, is_first = await offer(self)
        self._beginning = None
        if not is_first:
            return
        for layer, tile in self.harvesting.first():
            yield self.ask(layer, tile)
        if self._work is not None:
            # By now all of them are enqueued.
            self._work.seeded()

    def prepared(self, request: Request, segment: str) -> Request | None:
        """A request that has waited, as the site now wants it: its address may have changed with the map's
        depth. None for one of an earlier segment, whose tile the present walk asks for itself."""
        meta = request.meta
        if segment == PUSHED:
            asked = self.again(request, surely=True)
            if asked is not None:
                asked.meta[ATTEMPT] = meta[ATTEMPT]
            return asked
        if segment != self.harvesting.segment.name:
            return None
        return self._addressed(request) if self.harvesting.continued else request

    def again(self, request: Request, *, surely: bool = False) -> Request | None:
        """A request that failed in an earlier segment, as the present walk asks it: so it is asked once."""
        found = self._addressed(request)
        if found is None:
            return None
        meta = found.meta
        layer = self.harvesting.layers[meta["layer"]].layer
        return self.ask(layer, Tile(*meta["tile"]), surely=surely, late=surely, in_full=IN_FULL in meta)

    def ask(
        self,
        layer: Layer,
        tile: Tile,
        *,
        surely: bool = False,
        late: bool = False,
        in_full: bool = False,
        audited: bool = False,
    ) -> Request:
        """The request that asks whether a tile has changed; `surely`: although it was asked already.

        `late`: what lies below it may have been asked before. `in_full`: nothing below it is to be skipped.
        `audited`: it was skipped, and what lies below it is not asked unless it has changed.
        """
        kinds = ((LATE, late), (IN_FULL, in_full), (AUDITED, audited))
        return Request(
            layer.tile_url(tile),
            method="HEAD",
            callback=self.answered,
            errback=self.failed,
            dont_filter=surely,
            priority=CHECKS,
            meta={
                "layer": layer.name,
                "tile": (tile.zoom, tile.x, tile.y),
                # It has been made valid once for the whole layer.
                "verbatim_url": True,
                "download_slot": layer.host,
                **{kind: True for kind, holds in kinds if holds},
            },
        )

    def answered(self, response: Response) -> Iterator[TileResult | Request]:
        """Yield the result, which the diff middleware has put beside the answer, and the tiles below."""
        yield from self._go_on(response.meta["result"], response.meta)

    async def failed(self, failure: Failure) -> AsyncIterator[TileResult | Request]:
        """Yield a `fail` for a request that got no answer."""
        meta = failure.request.meta  # type: ignore[attr-defined]
        name, tile = meta["layer"], Tile(*meta["tile"])
        assert failure.value is not None
        reason = with_attempts(no_answer_in_words(failure.value), meta.get("retry_times", 0) + 1)
        meta["known"] = await self.harvesting.knows_below(name, tile)
        for step in self._go_on(TileResult(name, tile, Outcome.FAILED, reason=reason), meta):
            yield step

    def idle(self) -> None:
        """When nothing is left to do: end the harvest, unless something was missed, which is asked for."""
        if self.ending is not None or not self.harvesting.is_open or self.finished:
            return
        if self._completing is None or self._completing.done():
            self._completing = asyncio.ensure_future(self._complete())
        raise DontCloseSpider

    async def _complete(self) -> None:
        reason = "finished"
        try:
            counts = await complete(self, self._work)
            if counts is not None:
                self.counts, self.finished = counts, True
            elif self._work is not None and self._work.waits:
                reason = "waiting"
            else:
                return
        except TileHarvestError as error:
            self.give_up(error)
            reason = close_reason(error)
        # Not awaited: while it closes, the spider waits for what completes it.
        self._closing = asyncio.ensure_future(self.crawler.engine.close_spider_async(reason=reason))

    def give_up(self, error: TileHarvestError) -> bool:
        """Note the failure that ends the harvest; False if one already did. The caller closes the spider."""
        if self.ending is not None:
            return False
        self.ending = error
        self._say(error)
        return True

    def _say(self, error: TileHarvestError) -> None:
        self.logger.log(_LEVELS.get(error.exit_status, logging.ERROR), "%s", error)

    async def begin_no_more(self) -> None:
        """Returns when nothing is begun any more: the site may have asked for long pauses."""
        if self._beginning is not None:
            await cancel(self._beginning)

    async def settled(self) -> None:
        """Returns when nothing is begun, and nothing is completed any more."""
        await self.begin_no_more()
        if self._completing is not None:
            await asyncio.wait([self._completing])

    async def end(self, reason: str) -> None:
        """When the spider has closed: end the harvest, or leave it to be continued."""
        await self.settled()
        if not self.harvesting.is_open:
            return
        try:
            try:
                await settle(self, reason)
            finally:
                await self.harvesting.close()
        except TileHarvestError as error:
            self.give_up(error)

    def _go_on(self, result: TileResult, meta: dict[str, Any]) -> Iterator[TileResult | Request]:
        layer, walk = self.harvesting.layers[result.layer]
        if result.outcome is Outcome.FAILED:
            meta[FAILURE] = result.reason
        in_full = IN_FULL in meta
        # The tiles below come first: what is yielded after the result waits until that is durable.
        if not result.step.skips:
            for child in walk.below(result.tile, result.outcome, known=meta["known"]):
                yield self.ask(layer, child, in_full=in_full)
        if result.is_recorded:
            yield result

    def _addressed(self, request: Request) -> Request | None:
        return addressed(request, self.harvesting.layers, self.logger)


def behave(settings: BaseSettings, rules: Rules) -> None:
    """Let Scrapy do its part of what the map's owner may expect; the scheduler does the rest."""
    for setting in ("CONCURRENT_REQUESTS", "CONCURRENT_REQUESTS_PER_DOMAIN"):
        settings.set(setting, rules.concurrency, priority="spider")
    settings.set("AUTOTHROTTLE_ENABLED", rules.autothrottle, priority="spider")
    settings.set("USER_AGENT", rules.user_agents[0], priority="spider")
    settings.set("USER_AGENTS", rules.user_agents, priority="spider")
