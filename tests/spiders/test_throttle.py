"""What a crawl's throttle hears of the crawl."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from tileharvest.maps.budgets import Budget
from tileharvest.politeness.rules import Rules
from tileharvest.queue.controls import Controls
from tileharvest.scheduler.crawl import CrawlContext
from tileharvest.spiders.throttle import CrawlThrottle

if TYPE_CHECKING:
    from pathlib import Path


def throttle_of(folder: Path, *, is_busy: bool) -> CrawlThrottle:
    """Returns the throttle of a crawl of the map, as one of several workers of this computer."""
    scheduler = SimpleNamespace(controls=Controls(), is_busy=is_busy)
    crawler: Any = Crawler(Spider)
    crawler.get_spider_middleware = lambda kind: SimpleNamespace(scheduler=scheduler)
    settings = Settings({"TILEHARVEST_DATA": str(folder)})
    return CrawlThrottle(CrawlContext(crawler), settings, Rules("h", 4), "m", ZoneInfo("UTC"))


@pytest.mark.parametrize(("is_busy", "left"), [(True, 0), (False, 4)])
async def test_a_crawl_that_has_nothing_to_ask_leaves_its_places_to_others(
    tmp_path: Path, is_busy: bool, left: int
) -> None:
    one, other = throttle_of(tmp_path, is_busy=is_busy), throttle_of(tmp_path, is_busy=True)
    try:
        await one.open(Budget())
        await other.open(Budget())
        assert other.map.concurrency("h") == left
    finally:
        await one.close()
        await other.close()
