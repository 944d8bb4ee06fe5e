"""What sites' robots.txt allow us, and how slowly they want to be asked. Pure.

The rules are those of RFC 9309; which of them apply, and what they match, is decided by protego, as in
Scrapy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from protego import Protego

from tileharvest.maps.rates import LONGEST, NO_GAP, Gap

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "TileHarvest"
"""By which a robots.txt means us."""

LONGEST_UNASKED: Final = 60.0
"""Seconds between two requests that a site may ask for without that a person has agreed."""
_MOST: Final = 512 * 1024
"""Bytes of a robots.txt that are read: section 2.5 asks for 500 KiB at least."""

_FORBIDS: Final = re.compile(r"\s*di\w*[\s:]+[^\s:#]", re.IGNORECASE)
"""A line that forbids something to somebody; also as protego understands misspelt ones."""


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules for us of any number of sites; a site of which nothing is known allows everything."""

    gap: Gap = NO_GAP
    """Between two requests: the longest that any of the sites asks for by Crawl-delay or Request-rate."""
    rules: Mapping[str, Protego] = field(default_factory=dict)
    """By origin, of those sites only that forbid something. Without any no address need be asked about."""

    @classmethod
    def of(cls, origin: str, content: bytes) -> Robots:
        """Reads the robots.txt that a site, such as `https://map.example.net:8443`, answers. What is no
        robots.txt, such as an HTML page, allows everything."""
        text = content[:_MOST].decode("utf-8-sig", errors="ignore")
        rules = Protego.parse(text)
        forbids = any(_FORBIDS.match(line) for line in text.splitlines())
        return cls(_gap(rules), {origin: rules} if forbids else {})

    def beside(self, other: Robots) -> Robots:
        """Returns the rules of both, which know different sites."""
        return Robots(self.gap.at_least(other.gap), {**self.rules, **other.rules})

    def allows(self, url: str) -> bool:
        """Returns whether we may ask for the address. This costs 10 us where its site has rules for us."""
        rules = self.rules.get(origin_of(url))
        return rules is None or bool(rules.can_fetch(url, NAME))


def too_slow(gap: Gap, own: Gap) -> str | None:
    """Returns in words what a site asks for where that is slower than a minute a request, and than a person
    has set for the map; else None."""
    if gap.most <= max(LONGEST_UNASKED, own.most):
        return None
    return f"wants {gap.most:,.0f} seconds between two requests"


def origin_of(url: str) -> str:
    """Returns the site of an address: scheme, host and port, for all of which one robots.txt holds."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _gap(rules: Protego) -> Gap:
    """Returns the longer gap of those that both directives ask for, or the longest that a Gap can be. The
    time of day in a Request-rate is not looked at."""
    rate = rules.request_rate(NAME)
    try:
        of_rate = rate.seconds / rate.requests if rate else 0.0
    except OverflowError:
        of_rate = LONGEST
    # The first number is the result where one of them is none.
    return Gap.of(min(LONGEST, max(0.0, of_rate, rules.crawl_delay(NAME) or 0.0)))
