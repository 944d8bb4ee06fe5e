"""Fetches through Scrapy's engine what a probe asks of a site."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from scrapy import Request

from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError
from tileharvest.history.site_files import MISSING, SiteFile
from tileharvest.middlewares.diff import answer_of
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.queue.requests import STATE, RequestState
from tileharvest.renderers.site import Fetched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler

    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.probe import Probe
    from tileharvest.renderers.site import Fetch, Site

_ABSENT: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


def fetch_with(
    crawler: Crawler, known: Mapping[str, SiteFile] | None = None, read: dict[str, SiteFile] | None = None
) -> Fetch:
    """Returns a function that asks as the harvest asks: at its pace, with its patience and its counts.

    What is `known` of the site is asked for under conditions, and returned where it has not changed. All
    files that were asked for by GET and read, or were not there, come into `read`.
    """
    files = {url: file for url, file in (known or {}).items() if file != MISSING}

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
        if read is not None and method == "GET":
            if status == HTTPStatus.OK:
                read[url] = file
            elif status in _ABSENT:
                read[url] = MISSING
        return Fetched(status, body, response.url)

    return fetch


async def probe_as_before(
    probe: Probe,
    description: MapDescription,
    fetch: Fetch,
    known: Mapping[str, SiteFile],
    read: dict[str, SiteFile],
) -> Site:
    """Probes a site of which files are known. `read` is that of `fetch`.

    What was missing is not looked for while all files that are there are as they were: whoever sets up a site
    in another way changes one of them. Where one has changed, or the probe fails, it is probed anew, and all
    is looked for. Nothing that was answered is asked twice. Raises what `probe` raises.
    """
    answers: dict[tuple[str, str], Fetched] = {}
    assumed: set[str] = set()

    async def fetch_present(method: str, url: str) -> Fetched:
        if method == "GET" and known.get(url) == MISSING:
            assumed.add(url)
            return Fetched(HTTPStatus.NOT_FOUND, url=url)
        answers[method, url] = await fetch(method, url)
        return answers[method, url]

    async def fetch_rest(method: str, url: str) -> Fetched:
        # A probe may ask twice for a file that was just being written.
        return answers.pop((method, url), None) or await fetch(method, url)

    try:
        site = await probe(description, fetch_present)
    except (SiteError, ConfigurationError):
        if not assumed:
            raise
    else:
        if not assumed or all(file == known.get(url, MISSING) for url, file in read.items()):
            read.update(dict.fromkeys(assumed, MISSING))
            return site
    return await probe(description, fetch_rest)
