"""What the spiders of all renderers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, DontCloseSpider

from tileharvest.errors import MovedError, TileHarvestError
from tileharvest.items import TileResult
from tileharvest.maps.grid import Tile
from tileharvest.outcomes import Outcome
from tileharvest.spiders.fetching import fetch_with
from tileharvest.verdict import with_attempts
from tileharvest.wiring import harvesting_for, relax_garbage_collection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

    from tileharvest.harvesting import Harvesting
    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.overviewer import Fetch
    from tileharvest.maps.site import Site, SiteLayer

CHECKS = 0
"""Priority of the lane for checks: normal."""


class TileSpider(Spider):
    """Harvests one map: `-a map=NAME`, and if wanted `-a dry=1`, `-a day=2026-11-20`.

    A failure ends it with one line in the log; `ending` holds it for the command that ran the spider.
    """

    harvesting: Harvesting

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ending: TileHarvestError | None = None
        """The failure that ended the harvest."""
        self.finished = False
        """Whether the harvest reached its end."""
        self.counts: dict[Outcome, int] = {}
        """The exact counts, once the spider has closed."""

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """What the map's site says about itself. Raises SiteError."""
        raise NotImplementedError

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        try:
            spider.harvesting = harvesting_for(
                crawler.settings, kwargs.get("map"), kwargs.get("day"), kwargs.get("dry")
            )
        except TileHarvestError as error:
            spider.ending = error
            return spider
        for setting in ("CONCURRENT_REQUESTS", "CONCURRENT_REQUESTS_PER_DOMAIN"):
            crawler.settings.set(setting, spider.harvesting.description.concurrency, priority="spider")
        relax_garbage_collection(crawler.settings)
        crawler.signals.connect(spider.ask_for_the_rest, signals.spider_idle)
        crawler.signals.connect(spider.end, signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Probe the site, begin the harvest, and ask for the tiles at which the walks start."""
        try:
            await self._begin()
        except TileHarvestError as error:
            self.ending = error
        if self.ending is not None:
            self.logger.error("%s", self.ending)
            raise CloseSpider(close_reason(self.ending))
        for layer, tile in self.harvesting.first():
            yield self.ask(layer, tile)

    def ask(self, layer: SiteLayer, tile: Tile) -> Request:
        """The request that asks whether a tile has changed."""
        return Request(
            layer.tile_url(tile),
            method="HEAD",
            callback=self.answered,
            errback=self.failed,
            # Every tile is asked for once per walk, so that there is nothing to filter; its address has
            # been made valid once for the whole layer.
            dont_filter=True,
            priority=CHECKS,
            meta={
                "layer": layer.name,
                "tile": (tile.zoom, tile.x, tile.y),
                "verbatim_url": True,
                "download_slot": layer.host,
            },
        )

    def answered(self, response: Response) -> Iterator[TileResult | Request]:
        """Yield the result, which the diff middleware has put beside the answer, and the tiles below."""
        yield from self._go_on(response.meta["result"], known=response.meta["known"])

    async def failed(self, failure: Failure) -> AsyncIterator[TileResult | Request]:
        """Yield a `fail` for a request that got no answer."""
        meta = failure.request.meta  # type: ignore[attr-defined]
        name, tile = meta["layer"], Tile(*meta["tile"])
        reason = with_attempts(failure.getErrorMessage(), meta.get("retry_times", 0) + 1)
        result = TileResult(name, tile, Outcome.FAILED, reason=reason)
        for step in self._go_on(result, known=await self.harvesting.knows_below(name, tile)):
            yield step

    def ask_for_the_rest(self) -> None:
        """When the walk is through: ask for what the history has and the walk did not reach."""
        if self.ending is not None or not self.harvesting.is_open:
            return
        try:
            unasked = self.harvesting.unasked()
        except TileHarvestError as error:
            self.give_up(error)
            raise CloseSpider(close_reason(error)) from None
        for layer, tile in unasked:
            self.crawler.engine.crawl(self.ask(layer, tile))
        if unasked:
            raise DontCloseSpider

    def give_up(self, error: TileHarvestError) -> bool:
        """Note the failure that ends the harvest; False if one already did. The caller closes the spider."""
        if self.ending is not None:
            return False
        self.ending = error
        self.logger.error("%s", error)
        return True

    async def end(self, reason: str) -> None:
        """When the spider has closed: end the harvest, or leave it to be continued."""
        if not self.harvesting.is_open:
            return
        try:
            try:
                await self._settle(reason)
            finally:
                await self.harvesting.close()
        except TileHarvestError as error:
            self.give_up(error)

    async def _begin(self) -> None:
        if self.ending is not None:
            raise self.ending
        description = self.harvesting.description
        site = await self.probe(description, fetch_with(self.crawler))
        if site.probed:
            self.logger.info("the site has no configuration: depths were found by asking for tiles")
        await self.harvesting.open(site)
        self.logger.info(
            "%s the harvest of map '%s' for %s: %s",
            "continuing" if self.harvesting.continued else "beginning",
            description.name,
            self.harvesting.day,
            ", ".join(f"layer {layer.name} of depth {layer.depth}" for layer in site.layers),
        )

    def _go_on(self, result: TileResult, *, known: bool) -> Iterator[TileResult | Request]:
        layer, walk = self.harvesting.layers[result.layer]
        # The tiles below come first: what is yielded after the result waits until that is durable.
        for child in walk.below(result.tile, result.outcome, known=known):
            yield self.ask(layer, child)
        if walk.keeps(result.tile.zoom) or result.outcome is Outcome.FAILED:
            yield result

    async def _settle(self, reason: str) -> None:
        if isinstance(self.ending, MovedError):
            self.counts = await self.harvesting.abandon_as_moved()
        elif self.ending is None and reason == "finished":
            self.counts = await self.harvesting.finish()
            self.finished = True
        else:
            self.counts = await self.harvesting.counts()
            self.logger.info("the harvest is not finished; run it again to continue")
        for outcome, tiles in self.counts.items():
            self.crawler.stats.set_value(f"harvest/outcome/{outcome}", tiles)
        found = ", ".join(f"{outcome} {tiles}" for outcome, tiles in self.counts.items() if tiles)
        self.logger.info("outcomes of map '%s': %s", self.harvesting.description.name, found or "none")


def close_reason(error: TileHarvestError) -> str:
    """What Scrapy's statistics call an end by this failure."""
    return error.exit_status.name.lower()
