"""Fetches through Scrapy's engine what a probe asks of a site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request

from tileharvest.errors import SiteError, TileHarvestError
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.queue.requests import STATE, RequestState
from tileharvest.renderers.site import Fetched

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from tileharvest.renderers.site import Fetch


def fetch_with(crawler: Crawler) -> Fetch:
    """Returns a function that asks as the harvest asks: at its pace, with its patience and its counts."""

    async def fetch(method: str, url: str) -> Fetched:
        request = Request(url, method=method, meta={STATE: RequestState(is_aside=True)})
        try:
            response = await crawler.engine.download_async(request)
        except TileHarvestError:
            # Of the turn that it has waited for.
            raise
        # Whatever download handlers and middlewares raise means the same here: no answer.
        except Exception as error:
            raise SiteError(
                f"{url} cannot be reached ({no_answer_in_words(error)}): nothing was changed; try again later"
            ) from error
        return Fetched(response.status, response.body, response.url)

    return fetch
