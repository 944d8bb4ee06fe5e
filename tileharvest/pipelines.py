"""Scrapy's item pipeline: makes results durable."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from scrapy.exceptions import DropItem

from tileharvest.errors import TileHarvestError
from tileharvest.wiring import harvesting_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from tileharvest.harvesting import Harvesting
    from tileharvest.items import TileResult


class HistoryPipeline:
    """Stores a result's bytes, then records its version. A result that cannot be kept ends the harvest."""

    def __init__(self, crawler: Crawler, harvesting: Harvesting) -> None:
        self._crawler = crawler
        self._harvesting = harvesting
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, harvesting_of(crawler))

    async def process_item(self, item: TileResult) -> TileResult:
        try:
            await self._harvesting.keep(item)
        except TileHarvestError as error:
            self._give_up(error)
            raise DropItem(f"not kept: {item}", log_level="DEBUG") from None
        return item

    def _give_up(self, error: TileHarvestError) -> None:
        if self._crawler.spider.give_up(error):  # type: ignore[union-attr]
            # Not awaited: the spider closes when its items, this one included, are through.
            self._closing = asyncio.ensure_future(
                self._crawler.engine.close_spider_async(reason=error.exit_status.name.lower())
            )
