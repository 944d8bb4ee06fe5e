"""Redirects: where a site may send us, and how far it is followed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from scrapy.exceptions import IgnoreRequest

from tileharvest.maps.rates import NO_DELAY
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.politeness.robots import FORBIDDEN, origin_of, too_slow
from tileharvest.politeness.waits import HeldError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tileharvest.scheduler.crawl import CrawlContext
    from tileharvest.spiders.transfer import Reply, Terms

    Send = Callable[[str, str, Terms], Awaitable[Reply | Exception]]
    """Asks an address by a method, within the limits of its host."""

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ROBOTS: Final = "/robots.txt"
_PASSES: Final = 10.0
"""Seconds after which another site is asked again for a robots.txt that could not be read."""
_MOST_SITES: Final = 100
"""The most other sites to which a map's redirects are followed. Otherwise a map that sends each tile to a new
name would cost a robots.txt for each tile, and memory without an end."""


class AskLater(IgnoreRequest):
    """A site to which a redirect leads may not be asked before its robots.txt can be read."""


class Redirects:
    """Follows the redirects of one crawl.

    A site outside of the map is asked for its robots.txt first.
    """

    def __init__(self, crawl: CrawlContext, most: int) -> None:
        """`most` is how many redirects are followed in a row."""
        self._crawl, self._most = crawl, most
        self._looks: dict[str, asyncio.Future[str | None]] = {}
        """By site that is not part of the map: why it must not be asked, or None if it may."""

    async def follow(
        self, send: Send, method: str, url: str, reply: Reply, terms: Terms
    ) -> tuple[str, Reply]:
        """Returns the address at the end of the redirects of an answer, and what is there. Raises
        IgnoreRequest with the reason if a redirect is not followed, and the errors of `send`."""
        first = url
        for _ in range(self._most):
            location = reply.location
            if reply.status not in REDIRECTS or location is None:
                return url, reply
            url = urljoin(url, location)
            if urlsplit(url).scheme not in ("http", "https"):
                raise IgnoreRequest(f"the redirect to {url} was not followed: it is not a web address")
            if reply.status == HTTPStatus.SEE_OTHER and method != "HEAD":
                method = "GET"
            await self._expect_allowed(send, url, first, terms)
            found = await send(method, url, terms)
            if isinstance(found, Exception):
                raise found
            reply = found
        # The words name no address, so that they are one reason for many tiles.
        raise IgnoreRequest(f"more than {self._most} redirects")

    async def _expect_allowed(self, send: Send, url: str, first: str, terms: Terms) -> None:
        """Raises IgnoreRequest if an address must not be asked to which a site has sent us from `first`."""
        # By RFC 9309, section 2.3.1.2, a robots.txt may lie on another host. That one needs none itself.
        if urlsplit(first).path == _ROBOTS:
            return
        origin, refused, harvest = origin_of(url), None, self._crawl.harvest
        if harvest is not None:
            # The robots.txt of the map's own sites was read before all else.
            folders = (part.layer.addresses.folder for part in harvest.layers.values())
            if origin not in map(origin_of, (harvest.description.page, *folders)):
                refused = await self._refused(send, origin, terms)
        if refused is None and not self._crawl.robots.allows(url):
            refused = FORBIDDEN
        if refused is not None:
            raise IgnoreRequest(f"the redirect to {origin} was not followed: {refused}")

    async def _refused(self, send: Send, origin: str, terms: Terms) -> str | None:
        """Returns why a site must not be asked, or None if it may. Its robots.txt is asked for once in a
        crawl, and again after some seconds if it could not be read. Raises IgnoreRequest if the map leads to
        too many sites."""
        if origin not in self._looks:
            if len(self._looks) >= _MOST_SITES:
                raise IgnoreRequest(f"a redirect to more than {_MOST_SITES} other sites was not followed")
            look = self._looks[origin] = asyncio.ensure_future(self._look_at(send, origin, terms))
            look.add_done_callback(lambda done: self._forget_soon(origin, done))
        return await asyncio.shield(self._looks[origin])

    def _forget_soon(self, origin: str, look: asyncio.Future[str | None]) -> None:
        if look.cancelled() or isinstance(look.exception(), HeldError):
            del self._looks[origin]
        elif look.exception() is not None:
            asyncio.get_running_loop().call_later(_PASSES, self._looks.pop, origin, None)

    async def _look_at(self, send: Send, origin: str, terms: Terms) -> str | None:
        """Returns why a site must not be asked, or None if it may. Adds its robots.txt to those of the crawl.
        Raises AskLater if it cannot be read now."""
        crawl = self._crawl
        if crawl.rules is not None and not crawl.rules.robots:
            return None
        refused = f"the redirect to {origin} was not followed: its robots.txt"
        found = await send("GET", f"{origin}{_ROBOTS}", terms)
        if isinstance(found, IgnoreRequest):
            raise found
        if isinstance(found, Exception):
            raise AskLater(f"{refused} cannot be read ({no_answer_in_words(found)})") from found
        gap = crawl.robots.read(origin, found.status, found.body)
        if gap is None:
            raise AskLater(f"{refused} answers {found.status}")
        assert crawl.harvest is not None
        slow = too_slow(gap, crawl.harvest.description.gap or NO_DELAY)
        if slow is not None:
            return f"its robots.txt {slow}"
        if crawl.throttle is not None:
            crawl.throttle.slow_down(gap.most)
        return None


async def addresses_of(host: str) -> list[str]:
    """Returns the IP addresses of a host, or none if its name cannot be resolved."""
    with suppress(OSError, UnicodeError):
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
        return list({str(address[0]) for *_, address in found})
    return []
