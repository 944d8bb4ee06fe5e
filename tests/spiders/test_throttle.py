"""What a crawl's throttle hears of the crawl."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler

from tileharvest.errors import QueueError
from tileharvest.maps.budgets import Budget
from tileharvest.maps.description import MapDescription
from tileharvest.politeness.rules import Rules
from tileharvest.queue.controls import Controls
from tileharvest.scheduler.crawl import CrawlContext
from tileharvest.spiders.throttle import CrawlThrottle


def throttle_of(folder: Path, *, is_busy: bool = True, is_crawling: bool = True) -> CrawlThrottle:
    """Returns the throttle of a crawl of the map, as one of several workers of this computer."""
    scheduler = SimpleNamespace(controls=Controls(), is_busy=is_busy)
    crawler: Any = Crawler(Spider)
    crawler.get_spider_middleware = lambda kind: SimpleNamespace(scheduler=scheduler)
    crawler.crawling = is_crawling
    crawler.settings.set("TILEHARVEST_DATA", str(folder))
    return CrawlThrottle(CrawlContext(crawler), Rules("h", 4), MapDescription(name="m", url="http://h/"))


@pytest.mark.parametrize(("is_busy", "left"), [(True, 0), (False, 4)])
async def test_a_crawl_that_has_nothing_to_ask_leaves_its_places_to_others(
    tmp_path: Path, is_busy: bool, left: int
) -> None:
    one, other = throttle_of(tmp_path, is_busy=is_busy), throttle_of(tmp_path)
    try:
        await one.open(Budget())
        await other.open(Budget())
        assert other.map.concurrency("h") == left
    finally:
        await one.close()
        await other.close()


@pytest.mark.parametrize("is_crawling", [True, False])
async def test_after_a_signal_to_end_nothing_more_starts(tmp_path: Path, is_crawling: bool) -> None:
    throttle = throttle_of(tmp_path, is_crawling=is_crawling)
    await throttle.open(Budget())
    assert (throttle.map.held is None) is is_crawling
    await throttle.close()


async def test_after_a_failure_of_the_queue_the_throttle_waits_for_nothing(tmp_path: Path) -> None:
    throttle = throttle_of(tmp_path)
    await throttle.open(Budget())
    throttle._crawl.end(QueueError("Redis does not answer"))
    await throttle._shared.close()
    await throttle.close()
