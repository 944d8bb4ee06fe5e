"""Fetches through Scrapy's engine what a probe asks of a site."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from scrapy import Request

from tileharvest.errors import SiteError, TileHarvestError
from tileharvest.history.site_files import SiteFile
from tileharvest.middlewares.diff import answer_of
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.queue.requests import STATE, RequestState
from tileharvest.renderers.site import Fetched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler

    from tileharvest.renderers.site import Fetch


def fetch_with(
    crawler: Crawler, known: Mapping[str, SiteFile] | None = None, read: dict[str, SiteFile] | None = None
) -> Fetch:
    """Returns a function that asks as the harvest asks: at its pace, with its patience and its counts.

    What is `known` of the site is asked for under conditions, and returned where it has not changed. What is
    worth keeping of the files that were read comes into `read`.
    """
    files = known or {}

    async def fetch(method: str, url: str) -> Fetched:
        file = files.get(url) if method == "GET" else None
        headers = {} if file is None else dict(file.validator.conditions)
        request = Request(url, method=method, headers=headers, meta={STATE: RequestState(is_aside=True)})
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
        if file is not None and response.status == HTTPStatus.NOT_MODIFIED:
            status, body = HTTPStatus.OK.value, file.body
        else:
            status, body = response.status, response.body
            file = SiteFile(answer_of(response).validator, body)
        if read is not None and method == "GET" and status == HTTPStatus.OK and file.is_worth_keeping:
            read[url] = file
        return Fetched(status, body, response.url)

    return fetch
