"""Follows redirects of tiles: hosts put old addresses onto new ones."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from tileharvest.maps.rates import NO_GAP
from tileharvest.middlewares.diff import answer_of
from tileharvest.politeness.neighbours import refused_network
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.politeness.robots import Robots, origin_of, too_slow
from tileharvest.queue.requests import STATE, RequestState, question_of, state_of
from tileharvest.scheduler.crawl import crawl_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from tileharvest.scheduler.crawl import Crawl

_ROBOTS: Final = "/robots.txt"
_TOO_MANY: Final = 429
_FAILURES: Final = 500
"""The first status by which a server says that it has failed."""


class TileRedirectMiddleware(RedirectMiddleware):
    """Scrapy's, without its care for a Referer header, which our requests do not have.

    What it sends elsewhere is never filtered: a host may put many tiles onto one address. What the map's
    renderer understands as an answer of its own is not sent elsewhere. Another site is asked for its
    robots.txt first, and is not asked at all where its address is of a network that the map's own host is
    not in.
    """

    _crawl: Crawl
    _asked: dict[str, asyncio.Future[str | None]]
    """By site why it must not be asked, or None; only of those that are no part of the map."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Makes it without Scrapy's look for its Referer middleware, which warns that there is none."""
        middleware = cls(crawler.settings)
        middleware.crawler = crawler
        middleware._crawl = crawl_of(crawler)
        middleware._asked = {}
        return middleware

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response | Awaitable[Request | Response]:
        if 300 <= response.status < 400 and self._is_answer(request, response):
            return response
        followed = super().process_response(request, response)
        is_robots = isinstance(followed, Request) and urlsplit(followed.url).path == _ROBOTS
        if isinstance(followed, Response) or is_robots or self._crawl.harvest is None:
            # RFC 9309, section 2.3.1.2: a robots.txt may lie on another host.
            return followed
        origin = origin_of(followed.url)
        return followed if origin in self._own_origins() else self._allowed(followed, origin)

    def _own_origins(self) -> frozenset[str]:
        """Returns the sites of the map, whose robots.txt was asked before all else."""
        harvest = self._crawl.harvest
        if harvest is None:
            return frozenset()
        folders = (part.layer.addresses.folder for part in harvest.layers.values())
        return frozenset(map(origin_of, (harvest.description.page, *folders)))

    async def _allowed(self, followed: Request, origin: str) -> Request:
        """Returns the request to another site, once that is found to be one that may be asked. Its robots.txt
        is asked for once in a crawl. Raises IgnoreRequest with the reason where it may not."""
        harvest, rules = self._crawl.harvest, self._crawl.rules
        assert harvest is not None
        if origin not in self._asked:
            look = self._look_at(origin, harvest.description.host, obeys=rules is None or rules.robots)
            self._asked[origin] = asyncio.ensure_future(look)
        refused = await asyncio.shield(self._asked[origin])
        if refused is not None:
            state_of(followed).was_sent = False
            raise IgnoreRequest(f"the redirect to {origin} was not followed: {refused}")
        return followed

    async def _look_at(self, origin: str, own: str, *, obeys: bool) -> str | None:
        """Returns why a site must not be asked, or None. Its robots.txt comes to those that the crawl
        keeps."""
        host = urlsplit(origin).hostname or ""
        network = refused_network(await _addresses_of(host), await _addresses_of(own))
        if network is not None:
            return f"its address is of a network that is {network}, and the map's own host is not in it"
        if not obeys:
            return None
        url, crawl = f"{origin}{_ROBOTS}", self._crawl
        try:
            aside = Request(url, meta={STATE: RequestState(is_aside=True)})
            answer = await self.crawler.engine.download_async(aside)
        except Exception as error:  # noqa: BLE001 - whatever handlers and middlewares raise: no answer
            return f"its robots.txt cannot be read ({no_answer_in_words(error)})"
        if answer.status >= _FAILURES or answer.status == _TOO_MANY:
            return f"its robots.txt answers {answer.status}"
        found = Robots.of(origin, answer.body if answer.status == HTTPStatus.OK else b"")
        assert crawl.harvest is not None
        slow = too_slow(found.gap, crawl.harvest.description.gap or NO_GAP)
        if slow is not None:
            return f"its robots.txt {slow}"
        crawl.robots = crawl.robots.beside(found)
        if crawl.politeness is not None:
            crawl.politeness.obey(crawl.robots.gap)
        return None

    def _is_answer(self, request: Request, response: Response) -> bool:
        harvest, question = self._crawl.harvest, question_of(request)
        if harvest is None or question is None or question.tile is None:
            return False
        answer = answer_of(response)
        return harvest.understood(answer, question.tile).status != answer.status

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        followed = super()._redirect(redirected, request, reason)
        followed.dont_filter = True
        return followed

    def handle_referer(self, request: Request, response: Response) -> None:
        """Nothing to do."""


async def _addresses_of(host: str) -> list[str]:
    """Returns the IP addresses of a host, or none where nobody knows them: it cannot be asked then."""
    with suppress(OSError, UnicodeError):
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
        return list({str(address[0]) for *_, address in found})
    return []
