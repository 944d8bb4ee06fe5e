"""The rules in a site's robots.txt for us, and how slowly the site wants to be asked. Pure.

The rules are those of RFC 9309. As in Scrapy, protego decides which of them apply, and what they match.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from protego import Protego

from tileharvest.maps.rates import LONGEST, Delay

NAME: Final = "TileHarvest"
"""The name by which a robots.txt means us."""

FORBIDDEN: Final = "robots.txt forbids it"
"""The reason of the failure of a tile that was not asked for."""
LONGEST_UNASKED: Final = 60.0
"""The most seconds between two requests that a site may ask for. For more a person must have agreed."""
_MOST: Final = 512 * 1024
"""The most bytes of a robots.txt that are read. Section 2.5 asks for 500 KiB at least."""

_FORBIDS: Final = re.compile(r"\s*di\w*[\s:]+[^\s:#]", re.IGNORECASE)
"""Matches a line that forbids something to somebody, with the misspellings that protego accepts."""


class UnreadableError(Exception):
    """Nobody knows at present what a site allows."""


class Robots:
    """What the robots.txt of any sites say to us. A site of which none was read allows everything."""

    def __init__(self) -> None:
        self.rules: dict[str, Protego] = {}
        """The rules by origin, only of sites that forbid something."""

    def read(self, origin: str, status: int, body: bytes) -> Delay:
        """Takes the answer of a site, such as `https://map.example.net:8443`, for its robots.txt. If it has
        none, or something else there, such as an HTML page, everything is allowed.

        Returns the gap between two requests that the site asks for, by Crawl-delay or Request-rate, whose
        time of day is ignored. Raises UnreadableError for a failure of the server, 429 included (RFC 9309,
        section 2.3.1).
        """
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            raise UnreadableError(f"answers {status}")
        content = body[:_MOST] if status == HTTPStatus.OK else b""
        text = content.decode("utf-8-sig", errors="ignore")
        rules = Protego.parse(text)
        if any(_FORBIDS.match(line) for line in text.splitlines()):
            self.rules[origin] = rules
        rate = rules.request_rate(NAME)
        try:
            of_rate = rate.seconds / rate.requests if rate else 0.0
        except OverflowError:
            of_rate = LONGEST
        # `max` passes over a NaN that does not stand first.
        return Delay.of(min(LONGEST, max(0.0, of_rate, rules.crawl_delay(NAME) or 0.0)))

    def allows(self, url: str) -> bool:
        """Returns whether we may ask for the address. This takes 10 us if its site forbids something."""
        rules = self.rules.get(origin_of(url))
        return rules is None or bool(rules.can_fetch(url, NAME))


def too_slow(gap: Delay, own: Delay) -> str | None:
    """Returns in words what a site asks for, if that is more than a minute between requests, and more than a
    person has set for the map. Returns None otherwise."""
    if gap.most <= max(LONGEST_UNASKED, own.most):
        return None
    more = " or more" if gap.most == LONGEST else ""
    return f"wants {gap.most:,.0f} seconds{more} between two requests"


def origin_of(url: str) -> str:
    """Returns the site of an address: scheme, host and port, for all of which one robots.txt holds."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
