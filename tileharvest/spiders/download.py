"""The download handler: Scrapy's own for aiohttp, with a shorter way for HEAD."""

from __future__ import annotations

import time
from secrets import choice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiohttp import ClientSession, DummyCookieJar, TCPConnector
from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler, _ClientResponse
from scrapy.http import Headers, Response
from scrapy.utils.ssl import _make_ssl_context

from tileharvest.maps.settings import setting
from tileharvest.politeness.reasons import HeldBackError, Reason
from tileharvest.queue.requests import is_offered
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from ssl import SSLContext

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

_TOLD = ("ETag", "Last-Modified", "Content-Length", "Retry-After", "Location")
"""The headers of an answer to HEAD that anything here reads: middlewares, verdict and redirects."""

_TLS: Final = (
    "DOWNLOAD_TLS_MIN_VERSION",
    "DOWNLOAD_TLS_MAX_VERSION",
    "DOWNLOADER_CLIENT_TLS_CIPHERS",
    "DOWNLOAD_VERIFY_CERTIFICATES",
)
_CONTEXTS: Final[dict[tuple[Any, ...], SSLContext]] = {}
"""By the values of these settings."""


class TileDownloadHandler(AiohttpDownloadHandler):
    """Most requests of a harvest are HEADs, and all have the same headers.

    So the headers of the settings (`USER_AGENT`, `DEFAULT_REQUEST_HEADERS`) are made once, instead of per
    request by two middlewares. Of an answer to HEAD only the headers that are read are kept. Where the
    setting `USER_AGENTS` lists several, each request that our scheduler offers takes any of them; requests
    that find out about a site or a host have the one of `USER_AGENT`.

    Raises HeldBackError for an offered request while requests are held back, unless that is only
    because a budget is spent.

    Everything else, GETs included, is Scrapy's. It calls this handler experimental and warns at every start:
    what we need of it is covered by tests against real servers, and Scrapy is pinned.
    """

    experimental: ClassVar[bool] = False
    lazy = True
    """Made for the first request: aiohttp needs a running event loop, which the shell has only then."""

    def __init__(self, crawler: Crawler) -> None:
        # All but the base class's: that makes a TLS context for each crawler, which reads all certificates
        # of the system. With Debian's Python that takes 25 ms.
        super(AiohttpDownloadHandler, self).__init__(crawler)
        self._ssl_context = _tls_context(crawler.settings)
        self._session = ClientSession(
            connector=TCPConnector(
                local_addr=self._bind_address,
                limit=self._pool_size_total,
                limit_per_host=self._pool_size_per_host,
            ),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            response_class=_ClientResponse,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        self._crawl = crawl_of(crawler)
        settings = crawler.settings
        constant = settings.getdict("DEFAULT_REQUEST_HEADERS")
        self._constant = _made_once({**constant, "User-Agent": settings["USER_AGENT"]})
        agents = settings.getlist("USER_AGENTS", setting(settings, "USER_AGENTS"))
        self._pool = [_made_once({**constant, "User-Agent": agent}) for agent in agents if len(agents) > 1]
        self._timeout = settings.getfloat("DOWNLOAD_TIMEOUT")
        # aiohttp repeats at once what breaks on a connection kept open: uncounted, without a pause, and
        # on top of our own attempts.
        self._session._retry_connection = False
        # Scrapy's advice for broken answers, to keep them, would be wrong here.
        self._fail_on_dataloss_warned = True

    async def download_request(self, request: Request) -> Response:
        politeness = self._crawl.politeness
        # Between the scheduler and here lies Scrapy's own delay, of AutoThrottle for one. What was offered
        # before the budget was spent is a part of that.
        reasons = () if politeness is None else politeness.reasons
        if reasons and reasons != {Reason.SPENT} and is_offered(request):
            raise HeldBackError
        request.meta.setdefault("download_timeout", self._timeout)
        if request.method != "HEAD":
            return await super().download_request(request)
        started = time.monotonic()
        async with self._make_request(request, request.meta["download_timeout"]) as answer:
            # As for GETs; AutoThrottle goes by it.
            request.meta["download_latency"] = time.monotonic() - started
            found = {}
            for name in _TOLD:
                if name in answer.headers:
                    found[name] = answer.headers[name]
            return Response(request.url, status=answer.status, headers=found, request=request)

    def _request_headers(self, request: Request) -> Headers:  # type: ignore[override]
        constant = choice(self._pool) if self._pool and is_offered(request) else self._constant
        if not request._headers:
            return constant
        headers = constant.copy()
        headers.update(super()._request_headers(request))
        return headers


def _tls_context(settings: BaseSettings) -> SSLContext:
    """Returns the context of these settings. The crawlers of a process share it."""
    said = tuple(settings[name] for name in _TLS)
    if said not in _CONTEXTS:
        _CONTEXTS[said] = _make_ssl_context(settings)
    return _CONTEXTS[said]


def _made_once(values: dict[str, str | None]) -> Headers:
    """Returns headers that all requests have. What aiohttp is given of them is made once, and copied."""
    headers = Headers({name: value for name, value in values.items() if value})
    headers.to_tuple_list = headers.to_tuple_list().copy  # type: ignore[method-assign]
    return headers
