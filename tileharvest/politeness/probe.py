"""A site is probed as its robots.txt allows: that is asked for before anything else."""

from __future__ import annotations

import asyncio
import re
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.rates import NO_GAP, Gap
from tileharvest.politeness.robots import NAME, Robots, origin_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from re import Pattern

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched, Site

    Probe = Callable[[MapDescription, Fetch], Awaitable[Site]]

_TOO_MANY: Final = 429


class _Service(NamedTuple):
    """A public service whose rules forbid to keep its tiles, whatever its robots.txt says."""

    hosts: Pattern[str]
    title: str
    rule: str


_FORBIDDING: Final = (
    _Service(
        re.compile(r"(?:.+\.)?tile\.(?:openstreetmap|osm)\.org"),
        "the standard tiles of OpenStreetMap",
        "its Tile Usage Policy prohibits bulk downloading, such as for an archive of tiles"
        " (https://operations.osmfoundation.org/policies/tiles/)",
    ),
    _Service(
        re.compile(
            r"(?:maps|www|mts?\d*|khms?\d*)\.google(?:\.com?)?\.[a-z]+"
            r"|(?:maps|tile|mts?\d*|khms?\d*)\.googleapis\.com"
        ),
        "tiles of Google Maps",
        "the Google Maps Platform Terms of Service, 3.2.3 (a), No Scraping, forbid to download them in bulk"
        " (https://cloud.google.com/maps-platform/terms)",
    ),
    _Service(
        re.compile(r"(?:.+\.)?(?:virtualearth\.net|bing\.com)"),
        "tiles of Bing Maps",
        "the Bing Maps Platform APIs' Terms of Use, General Restrictions, forbid to store or archive them"
        " (https://www.microsoft.com/en-us/maps/bing-maps/product)",
    ),
)


async def probe_politely(
    probe: Probe, description: MapDescription, fetch: Fetch, *, obeys: bool = True, gap: Gap = NO_GAP
) -> tuple[Site, Robots]:
    """The probed site, and the rules of all its hosts, each of whose robots.txt is asked for once and first.

    Raises ConfigurationError for a public service whose rules forbid to keep its tiles, without a request if
    the map's address shows it.

    From one request to the next as long passes as `gap` and robots.txt want; of a random gap always the
    longest. Unless it `obeys`, no robots.txt is asked for. Raises SiteError before anything that is
    forbidden is asked for: the map's page, its configuration or a whole layer; and SiteError as the probe
    does, or when it cannot be found out what is allowed.
    """
    _check_rules(description.host)
    if not obeys:
        site = await probe(description, fetch)
        for layer in site.layers:
            _check_rules(layer.host)
        return site, Robots()
    guest = _Guest(fetch, description.name, gap)
    await guest.check(description.page, "the map's page")
    site = await probe(description, guest.fetch)
    for layer in site.layers:
        _check_rules(layer.host)
        await guest.check(f"{layer.addresses.folder}/", f"layer '{layer.name}'")
    return site, guest.robots


def rule_against(host: str) -> str | None:
    """Returns what forbids to keep the tiles of a host, in words, or None where no rule is known."""
    for service in _FORBIDDING:
        if service.hosts.fullmatch(host):
            return f"{host} has {service.title}: {service.rule}"
    return None


def _check_rules(host: str) -> None:
    rule = rule_against(host)
    if rule is not None:
        raise ConfigurationError(f"{rule}; no tile was asked for: take a map whose owner lets you keep it")


class _Guest:
    """Asks only for what is allowed, and slowly where that is wished."""

    def __init__(self, fetch: Fetch, name: str, gap: Gap) -> None:
        self.robots = Robots()
        self._fetch = fetch
        self._name = name
        self._gap = gap
        self._known: set[str] = set()
        self._started = -inf
        """When the last request did, on the event loop's clock."""

    async def fetch(self, method: str, url: str) -> Fetched:
        await self.check(url, url)
        return await self._ask(method, url)

    async def check(self, url: str, what: str) -> None:
        """Raises SiteError, naming what is forbidden."""
        origin = origin_of(url)
        if origin not in self._known:
            self._known.add(origin)
            self.robots = self.robots.beside(await self._rules_of(origin))
        if not self.robots.allows(url):
            raise SiteError(
                f"{origin}/robots.txt forbids {what}, and no tile was asked for: ask the owner to allow"
                f" {urlsplit(url).path} to {NAME} there; with the permission alone write robots = false for"
                f" map '{self._name}' in maps.toml"
            )

    async def _wait(self) -> None:
        gap = self._gap.at_least(self.robots.gap)
        left = self._started + gap.most - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)

    async def _rules_of(self, origin: str) -> Robots:
        """An answer that there is none allows everything; no answer, or a server's failure, forbids
        everything for now (RFC 9309, section 2.3.1). So does 429, although it is no such failure."""
        url = f"{origin}/robots.txt"
        answer = await self._ask("GET", url)
        if answer.status >= 500 or answer.status == _TOO_MANY:
            raise SiteError(
                f"{url} answers {answer.status}, so that nobody knows what the site allows: nothing else was"
                " asked for; try again later"
            )
        return Robots.of(origin, answer.body if answer.status == 200 else b"")

    async def _ask(self, method: str, url: str) -> Fetched:
        await self._wait()
        self._started = asyncio.get_running_loop().time()
        return await self._fetch(method, url)
