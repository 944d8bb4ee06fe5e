"""The middleware that follows redirects of tiles."""

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

from tileharvest.errors import TileHarvestError
from tileharvest.maps.rates import NO_GAP
from tileharvest.middlewares.diff import answer_of
from tileharvest.politeness.neighbours import refused_network
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.politeness.robots import Robots, origin_of, too_slow
from tileharvest.queue.requests import NEAR, STATE, RequestState, is_offered, question_of, state_of
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
_PASSES: Final = 300.0
"""Seconds after which another site is asked again for a robots.txt that could not be read."""
_MOST_SITES: Final = 100
"""The most other sites to which a map's redirects are followed. Otherwise a map that sends each tile to a new
name would cost a robots.txt for each tile, and memory without an end."""
_OWN_UNKNOWN: Final = "its network is not the internet, and the address of the map's own host is not known"


class TileRedirectMiddleware(RedirectMiddleware):
    """Scrapy's middleware, without its care for a Referer header, which our requests do not have.

    A request that was redirected is never filtered, as a host may put many tiles onto one address. A redirect
    that the map's renderer understands as an answer about the tile is not followed. Another site is asked for
    its robots.txt first. It is not asked at all if its address is of a private network that the map's own
    host is not in. That is looked up before the site is asked, and the download handler looks once more when
    it is connected: a name may have another address by then.
    """

    _crawl: Crawl
    _asked: dict[str, asyncio.Future[str | None]]
    """By site that is no part of the map: why it must not be asked, or None if it may."""
    _own: list[str]
    """The IP addresses of the map's own host. Empty until they are known."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Makes the middleware without Scrapy's own `from_crawler`, which warns that there is no Referer
        middleware."""
        middleware = cls(crawler.settings)
        middleware.crawler = crawler
        middleware._crawl = crawl_of(crawler)
        middleware._asked, middleware._own = {}, []
        return middleware

    def process_request(self, request: Request) -> Awaitable[Request | None] | None:
        """Looks at the site of a request that was redirected by another worker or in an earlier run."""
        if NEAR not in request.meta or not is_offered(request) or origin_of(request.url) in self._asked:
            return None
        return self._looked_at(request)

    async def _looked_at(self, request: Request) -> Request | None:
        state = state_of(request)
        state.was_sent = False
        found = await self._sent_elsewhere(request, request)
        if found is not request:
            return found
        state.was_sent = True
        return None

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response | Awaitable[Request | Response]:
        if 300 <= response.status < 400 and self._is_answer(request, response):
            return response
        followed = super().process_response(request, response)
        if isinstance(followed, Response):
            return followed
        if self._crawl.harvest is None:
            is_near = origin_of(followed.url) == origin_of(request.url)
            return followed if is_near else self._probe_elsewhere(request, followed)
        if origin_of(followed.url) in self._own_origins():
            followed.meta.pop(NEAR, None)
            return followed
        return self._sent_elsewhere(request, followed)

    def _own_origins(self) -> frozenset[str]:
        """Returns the sites of the map. Their robots.txt was read before all else."""
        harvest = self._crawl.harvest
        if harvest is None:
            return frozenset()
        folders = (part.layer.addresses.folder for part in harvest.layers.values())
        return frozenset(map(origin_of, (harvest.description.page, *folders)))

    async def _probe_elsewhere(self, request: Request, followed: Request) -> Request:
        """Returns the request to another site, for a look at a map without a harvest, as `tileharvest add`
        takes it.

        Raises IgnoreRequest if the site's address is of a network to which the host does not belong that was
        asked first.
        """
        first = request.meta.get("redirect_urls", (request.url,))[0]
        own = await addresses_of(urlsplit(first).hostname or "")
        origin = origin_of(followed.url)
        network = refused_network(await addresses_of(urlsplit(origin).hostname or ""), own)
        if network is not None:
            raise IgnoreRequest(f"the redirect to {origin} was not followed: its network is {network}")
        followed.meta[NEAR] = own
        return followed

    async def _sent_elsewhere(self, request: Request, followed: Request) -> Request:
        """Returns the request to another site once it is known that the site may be asked. Returns the
        redirected request if the crawl ends before that is known. Raises IgnoreRequest with the reason if the
        site may not be asked."""
        origin = origin_of(followed.url)
        try:
            # By RFC 9309, section 2.3.1.2, a robots.txt may lie on another host. That one needs none itself.
            look = self._refused_network(origin) if _is_robots(request) else self._refused(origin)
            refused = await look
        except asyncio.CancelledError:
            if not is_offered(request):
                raise
            return request.replace(dont_filter=True)
        except TileHarvestError as error:
            # The look has waited for its turn, and the crawl may have no further one.
            if not is_offered(request):
                raise
            self._crawl.end(error)
            return request.replace(dont_filter=True)
        if refused is not None:
            raise IgnoreRequest(f"the redirect to {origin} was not followed: {refused}")
        followed.meta[NEAR] = self._own
        return followed

    async def _refused(self, origin: str) -> str | None:
        """Returns why a site must not be asked, or None if it may. Its robots.txt is asked for once in a
        crawl, and again after some minutes if it could not be read. Raises IgnoreRequest if the map leads to
        too many sites."""
        if origin not in self._asked:
            if len(self._asked) >= _MOST_SITES:
                raise IgnoreRequest(f"a redirect to more than {_MOST_SITES} other sites was not followed")
            look = self._asked[origin] = asyncio.ensure_future(self._look_at(origin))
            look.add_done_callback(lambda done: self._forget_soon(origin, done))
        return await asyncio.shield(self._asked[origin])

    def _forget_soon(self, origin: str, look: asyncio.Future[str | None]) -> None:
        if look.cancelled() or isinstance(look.exception(), TileHarvestError) or not self._own:
            del self._asked[origin]
        elif look.exception() is not None:
            asyncio.get_running_loop().call_later(_PASSES, self._asked.pop, origin, None)

    async def _refused_network(self, origin: str) -> str | None:
        """Returns why nothing is sent into the site's network, or None. If the site's address is not known,
        this returns None, and the download handler decides when it is connected."""
        assert self._crawl.harvest is not None
        if not self._own:
            self._own = await addresses_of(self._crawl.harvest.description.host)
        found = await addresses_of(urlsplit(origin).hostname or "")
        network = refused_network(found, self._own)
        if network is None:
            return None
        if not self._own:
            raise IgnoreRequest(f"the redirect to {origin} was not followed: {_OWN_UNKNOWN}")
        return f"its address is of a network that is {network}, and the map's own host is not in it"

    async def _look_at(self, origin: str) -> str | None:
        """Returns why a site must not be asked, or None if it may. Adds its robots.txt to those of the crawl.
        Raises IgnoreRequest if it cannot be read now, and the errors of `Politeness.aside`."""
        crawl = self._crawl
        network = await self._refused_network(origin)
        if network is not None:
            return network
        if crawl.rules is not None and not crawl.rules.robots:
            return None
        refused = f"the redirect to {origin} was not followed: its robots.txt"
        url = f"{origin}{_ROBOTS}"
        try:
            aside = Request(url, meta={STATE: RequestState(is_aside=True), NEAR: self._own})
            answer = await self.crawler.engine.download_async(aside)
        except TileHarvestError:
            # There is no turn for it any more.
            raise
        except Exception as error:
            raise IgnoreRequest(f"{refused} cannot be read ({no_answer_in_words(error)})") from error
        if answer.status >= _FAILURES or answer.status == _TOO_MANY:
            raise IgnoreRequest(f"{refused} answers {answer.status}")
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


def _is_robots(request: Request) -> bool:
    """Returns whether a request, or the first one of its redirects, asks for a robots.txt."""
    first = request.meta.get("redirect_urls", (request.url,))[0]
    state: RequestState | None = request.meta.get(STATE)
    return state is not None and state.is_aside and urlsplit(first).path == _ROBOTS


async def addresses_of(host: str) -> list[str]:
    """Returns the IP addresses of a host, or none if its name cannot be resolved."""
    with suppress(OSError, UnicodeError):
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
        return list({str(address[0]) for *_, address in found})
    return []
