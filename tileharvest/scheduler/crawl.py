"""What the Scrapy parts of one crawl share."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from tileharvest.harvest.harvest import Harvest

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


def relax_garbage_collection(settings: BaseSettings) -> None:
    """Let the collector of reference cycles look less often, and never again at what was imported."""
    gc.freeze()
    gc.set_threshold(settings.getint("GC_THRESHOLD"))


def harvest_of(crawler: Crawler) -> Harvest:
    """The harvest of the crawler's spider. Raises NotConfigured, which switches the asking component
    off without a word, for a spider that harvests nothing."""
    harvest = getattr(crawler.spider, "harvest", None)
    if harvest is None:
        raise NotConfigured
    assert isinstance(harvest, Harvest)
    return harvest
