"""The files that a probe asks of a site, fetched through Scrapy's engine."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING, Final

from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError
from tileharvest.history.site_files import MISSING, SiteFile
from tileharvest.politeness.outages import answer_in_words
from tileharvest.politeness.waits import noted
from tileharvest.renderers.bounds import MOST_BYTES as FILE_BYTES
from tileharvest.renderers.site import Fetched
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.outages import Patience
from tileharvest.tiles.verdict import Answer, length_of
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.probe import Probe
    from tileharvest.renderers.site import Fetch, Site

    WithIndexes = Callable[[Site, Fetch], Awaitable[Site]]
    """Returns the site with its change indexes."""

_ABSENT: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


def fetch_with(
    crawler: Crawler,
    known: Mapping[str, SiteFile] | None = None,
    read: dict[str, SiteFile] | None = None,
) -> Fetch:
    """Returns a function that asks as the harvest asks: at its pace, with its patience and its counts.

    A `known` file of the site is asked for by a conditional GET, and returned as it is known if it has not
    changed. Each file that was asked for by GET is added to `read`, also if it was not there.
    """
    files = {url: file for url, file in (known or {}).items() if file != MISSING}

    async def fetch(method: str, url: str) -> Fetched:
        file = files.get(url) if method == "GET" else None
        headers = {} if file is None else dict(file.validator.conditions)
        request = Request(url, method=method, headers=headers, meta={"download_maxsize": FILE_BYTES})
        try:
            response = await _patiently(crawler, request)
        except TileHarvestError:
            # There is no turn for it any more.
            raise
        except IgnoreRequest as error:
            raise SiteError(f"{error}; nothing was changed: tell the map's owner") from error
        # Whatever download handlers and middlewares raise means the same here: no answer.
        except Exception as error:
            raise SiteError(
                f"{url} cannot be reached ({answer_in_words(error)}): nothing was changed; try again later"
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


async def _patiently(crawler: Crawler, request: Request) -> Response:
    """Returns the answer to a request, which is made again after growing pauses while it may yet be answered.
    Raises what the last attempt has raised."""
    patience = Patience(crawler.settings)
    assert crawler.engine is not None
    for attempt in count(2):
        try:
            response = await crawler.engine.download_async(request.replace(dont_filter=True))
        except Exception as error:
            found: Answer | Exception = error
            if (pause := patience.pause_before(attempt, error)) is None:
                raise
        else:
            found = answer_of(response)
            if (pause := patience.pause_before(attempt, found)) is None:
                return response
        why = answer_in_words(found)
        with noted(crawl_of(crawler).waits, f"another attempt at {request.url} ({why})", pause):
            await asyncio.sleep(pause)
    raise AssertionError


def answer_of(response: Response) -> Answer:
    """Returns the parts of a response on which a verdict rests."""
    names = ("ETag", "Last-Modified", "Content-Length", "Location", "Retry-After")
    values = (response.headers.get(name) for name in names)
    etag, modified, length, *others = (None if one is None else one.decode("latin-1") for one in values)
    return Answer(response.status, Validator(etag, modified), length_of(length), response.body, *others)


async def probe_as_before(
    probe: Probe,
    with_indexes: WithIndexes,
    known: Mapping[str, SiteFile],
    read: dict[str, SiteFile],
    description: MapDescription,
    fetch: Fetch,
) -> Site:
    """Probes a site with its change indexes. `read` is that of `fetch`. `known` has the files that the site
    had, or is empty if change indexes are not relied on.

    If the indexes have files, only these are asked for: they change with every render. Otherwise all files
    that were there are. If they are as they were, the other files are taken to be so, too: whoever sets up a
    site in another way changes one of those. If not, the site is probed anew, and every file is looked for.
    No file is asked for twice. Raises the errors of `probe`.
    """
    answers: dict[str, Fetched] = {}
    recalled: list[str] = []

    async def recall(method: str, url: str) -> Fetched:
        if method != "GET" or url not in known:
            raise SiteError(f"{url} is not known")
        recalled.append(url)
        file = known[url]
        return Fetched(HTTPStatus.NOT_FOUND if file == MISSING else HTTPStatus.OK, file.body, url)

    async def fetch_once(method: str, url: str) -> Fetched:
        """An earlier answer is given once in place of a request: a probe may ask twice for a file that was
        just being written."""
        return answers.pop(url) if method == "GET" and url in answers else await fetch(method, url)

    with suppress(SiteError, ConfigurationError):
        site = await probe(description, recall)
        of_probe = len(recalled)
        site = await with_indexes(site, recall)
        for url in recalled[of_probe:] or known:
            if known[url] != MISSING:
                answers[url] = await fetch("GET", url)
        # `read` lacks what was refused. Files that are redirected must be probed to know where they lie.
        is_as_before = all(read.get(url) == known[url] and one.url == url for url, one in answers.items())
        if is_as_before and len(site.indexes) == len(site.layers):
            read.update(known)
            return site
    return await with_indexes(await probe(description, fetch_once), fetch_once)
