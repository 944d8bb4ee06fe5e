"""What the Scrapy parts of one crawl share."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from tileharvest.harvest.harvest import Harvesting

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


def relax_garbage_collection(settings: BaseSettings) -> None:
    """Let the collector of reference cycles look less often, and never again at what was imported."""
    gc.freeze()
    gc.set_threshold(settings.getint("GC_THRESHOLD"))


def harvesting_of(crawler: Crawler) -> Harvesting:
    """The harvest of the crawler's spider. Raises NotConfigured, which switches the asking component
    off without a word, for a spider that harvests nothing."""
    harvesting = getattr(crawler.spider, "harvesting", None)
    if harvesting is None:
        raise NotConfigured
    assert isinstance(harvesting, Harvesting)
    return harvesting
