"""Redirects: where a site may send us, and how far it is followed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from scrapy.exceptions import IgnoreRequest

from tileharvest.politeness.outages import answer_in_words
from tileharvest.politeness.robots import FORBIDDEN, UnreadableError, origin_of, too_slow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tileharvest.scheduler.crawl import CrawlContext
    from tileharvest.spiders.transfer import Reply, Terms

    Send = Callable[[str, str, Terms], Awaitable[Reply | Exception]]
    """Asks an address by a method, within the limits of its host."""

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ROBOTS: Final = "/robots.txt"
_MOST_SITES: Final = 100
"""The most sites of a map, with those to which it redirects. Otherwise a map that sends each tile to a new
name would cost a robots.txt for each tile, and memory without an end."""


async def follow(
    crawl: CrawlContext, send: Send, method: str, url: str, reply: Reply, terms: Terms
) -> tuple[str, Reply]:
    """Returns the address at the end of the redirects of an answer, and what is there. A site outside of the
    map is asked for its robots.txt first.

    Raises IgnoreRequest with the reason if a redirect is not followed, UnreadableError if it may be another
    time, and the errors of `send`.
    """
    first, most = url, crawl.crawler.settings.getint("REDIRECT_MAX_TIMES")
    for _ in range(most):
        location = reply.location
        if reply.status not in REDIRECTS or location is None:
            return url, reply
        url = urljoin(url, location)
        if urlsplit(url).scheme not in ("http", "https"):
            raise IgnoreRequest(f"the redirect to {url} was not followed: it is not a web address")
        if reply.status == HTTPStatus.SEE_OTHER and method != "HEAD":
            method = "GET"
        await _expect_allowed(crawl, send, url, first, terms)
        found = await send(method, url, terms)
        if isinstance(found, Exception):
            raise found
        reply = found
    # The words name no address, so that they are one reason for many tiles.
    raise IgnoreRequest(f"more than {most} redirects")


async def _expect_allowed(crawl: CrawlContext, send: Send, url: str, first: str, terms: Terms) -> None:
    """Raises IgnoreRequest if an address must not be asked to which a site has sent us from `first`, and
    UnreadableError if nobody knows that now."""
    rules, robots = crawl.rules, crawl.robots
    # By RFC 9309, section 2.3.1.2, a robots.txt may lie on another host. That one needs none itself.
    if rules is None or not rules.robots or urlsplit(first).path == _ROBOTS:
        return
    origin = origin_of(url)
    if origin not in robots.looks and len(robots.looks) >= _MOST_SITES:
        raise IgnoreRequest(f"a redirect to more than {_MOST_SITES} sites was not followed")

    async def ask(url: str) -> Reply:
        found = await send("GET", url, terms)
        if isinstance(found, IgnoreRequest):
            raise found
        if isinstance(found, Exception):
            raise UnreadableError(f"cannot be read ({answer_in_words(found)})") from found
        return found

    refused = f"the redirect to {origin} was not followed"
    try:
        gap = await robots.look_at(origin, ask)
    except UnreadableError as error:
        raise UnreadableError(f"{refused}: its robots.txt {error}") from error
    if (slow := too_slow(gap, rules.gap)) is not None:
        raise IgnoreRequest(f"{refused}: its robots.txt {slow}")
    if crawl.throttle is not None:
        crawl.throttle.slow_down(gap.most)
    if not robots.allows(url):
        raise IgnoreRequest(f"{refused}: {FORBIDDEN}")


async def addresses_of(host: str) -> list[str]:
    """Returns the IP addresses of a host, or none if its name cannot be resolved."""
    with suppress(OSError, UnicodeError):
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
        return list({str(address[0]) for *_, address in found})
    return []
