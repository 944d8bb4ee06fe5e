"""Scrapy's item pipeline: makes results durable."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy.exceptions import DropItem

from tileharvest.errors import TileHarvestError
from tileharvest.scheduler.completion import is_closing
from tileharvest.scheduler.crawl import harvesting_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from tileharvest.harvest.harvest import Harvesting
    from tileharvest.maps.rates import Gap
    from tileharvest.tiles.results import TileResult

_LOOK: Final = 0.5
"""Seconds between two looks whether the harvest is about to end."""


class HistoryPipeline:
    """Stores a result's bytes, then records its version. A result that cannot be kept ends the harvest."""

    def __init__(self, crawler: Crawler, harvesting: Harvesting, gap: Gap) -> None:
        """`gap` is between the storing of one image and that of the next."""
        self._crawler = crawler
        self._harvesting = harvesting
        self._gap = gap
        self._next = 0.0
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        harvesting = harvesting_of(crawler)
        spider: Any = crawler.spider
        return cls(crawler, harvesting, spider.rules.store_gap)

    async def process_item(self, item: TileResult) -> TileResult:
        if self._gap and item.image is not None:
            await self._turn()
        try:
            await self._harvesting.keep(item)
        except TileHarvestError as error:
            self._give_up(error)
            raise DropItem(f"not kept: {item}", log_level="DEBUG") from None
        return item

    async def _turn(self) -> None:
        clock, engine = asyncio.get_running_loop().time, self._crawler.engine
        begin = max(clock(), self._next)
        self._next = begin + self._gap.draw(random.random())  # noqa: S311 - no secret
        # A harvest that ends stores what it has at once: nobody is to wait for that.
        while (left := begin - clock()) > 0 and not is_closing(engine):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(min(left, _LOOK))

    def _give_up(self, error: TileHarvestError) -> None:
        if self._crawler.spider.give_up(error):  # type: ignore[union-attr]
            # Not awaited: the spider closes when its items, this one included, are through.
            self._closing = asyncio.ensure_future(
                self._crawler.engine.close_spider_async(reason=error.exit_status.name.lower())
            )
