"""How a site is probed through Scrapy's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request

from tileharvest.errors import SiteError
from tileharvest.maps.overviewer import Answer

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from tileharvest.maps.overviewer import Fetch


def fetch_with(crawler: Crawler) -> Fetch:
    """Ask as the harvest asks: with its courtesy, its patience and its counts."""

    async def fetch(method: str, url: str) -> Answer:
        # Other schedulers than ours know no such turn.
        scheduler: Any = crawler.engine.scheduler
        is_ours = hasattr(scheduler, "aside")
        if is_ours:
            await scheduler.aside()
        try:
            response = await crawler.engine.download_async(Request(url, method=method))
        # Whatever download handlers and middlewares raise means the same here: no answer.
        except Exception as error:
            raise SiteError(
                f"{url} cannot be reached ({error or type(error).__name__}):"
                f" nothing was harvested; try again later"
            ) from error
        if is_ours:
            await scheduler.received_aside(len(response.body))
        return Answer(response.status, response.body, response.url)

    return fetch
