"""The item pipeline: `ITEM_PIPELINES = {"tileharvest.pipelines.HistoryPipeline": 300}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec
from scrapy.exceptions import DropItem

from tileharvest.errors import TileHarvestError
from tileharvest.scheduler.crawl import crawl_of, harvest_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.scheduler.crawl import CrawlContext
    from tileharvest.spiders.blocks import BlockResult


class HistoryPipeline:
    """Stores the new images of a block, records the block, and hands the result on as a plain dictionary
    without the bytes, for feeds and further pipelines. When it has passed these, the lease of its request
    ends.

    A result that cannot be kept ends the harvest.
    """

    def __init__(self, crawl: CrawlContext, harvest: Harvest) -> None:
        self._crawl = crawl
        self._harvest = harvest

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawl_of(crawler), harvest_of(crawler))

    async def process_item(self, item: BlockResult) -> dict[str, Any]:
        self._harvest.cost_meter.spared_bytes += item.spared_bytes
        try:
            await self._harvest.keep(item.block, item.found, item.bodies)
        except TileHarvestError as error:
            self._crawl.end(error)
            raise DropItem(f"not kept: {item.block}", log_level="DEBUG") from None
        plain: dict[str, Any] = msgspec.to_builtins({"block": item.block, "found": item.found})
        return plain
