"""The polite probe of a site: its robots.txt is asked for first, and obeyed."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.template import is_template
from tileharvest.politeness.robots import NAME, Robots, UnreadableError, origin_of, too_slow
from tileharvest.politeness.waits import HeldError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.rates import Delay
    from tileharvest.politeness.rules import Rules
    from tileharvest.renderers.site import Fetch, Fetched, ForbiddenError, Site

    Ask = Callable[[str], Awaitable[Any]]
    """Asks an address. Returns an answer with `status` and `body`."""
    Probe = Callable[[MapDescription, Fetch], Awaitable[Site]]


_FORBIDDING: Final = {
    r"(?:.+\.)?tile\.(?:openstreetmap|osm)\.org": (
        "the standard tiles of OpenStreetMap: its Tile Usage Policy prohibits bulk downloading, such as for"
        " an archive of tiles (https://operations.osmfoundation.org/policies/tiles/)"
    ),
    r"(?:maps|www|mts?\d*|khms?\d*)\.google(?:\.com?)?\.[a-z]+"
    r"|(?:maps|tile|mts?\d*|khms?\d*)\.googleapis\.com": (
        "tiles of Google Maps: the Google Maps Platform Terms of Service, 3.2.3 (a), No Scraping, forbid to"
        " download them in bulk (https://cloud.google.com/maps-platform/terms)"
    ),
    r"(?:.+\.)?(?:virtualearth\.net|bing\.com)": (
        "tiles of Bing Maps: the Bing Maps Platform APIs' Terms of Use, General Restrictions, forbid to store"
        " or archive them (https://www.microsoft.com/en-us/maps/bing-maps/product)"
    ),
}
"""Public services whose rules forbid to keep their tiles, whatever their robots.txt says: by the pattern of
their hosts, what they serve, and the rule."""
_PASSES: Final = 10.0
"""Seconds after which a site is asked again for a robots.txt that could not be read."""


class AskedRobots(Robots):
    """The robots.txt of the sites of a crawl, for which each of them is asked once."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: dict[str, asyncio.Future[Delay]] = {}
        """By origin: the gap that was read or will be."""

    async def look_at(self, origin: str, ask: Ask) -> Delay:
        """Asks a site for its robots.txt, unless that was done before. Returns the gap that `read` returns.
        Raises its error and those of `ask`, until the site is asked again after some seconds."""
        if origin not in self.looks:
            look = self.looks[origin] = asyncio.ensure_future(self._look_at(origin, ask))
            look.add_done_callback(lambda done: self._forget_failure(origin, done))
        return await self.looks[origin]

    async def _look_at(self, origin: str, ask: Ask) -> Delay:
        answer = await ask(f"{origin}/robots.txt")
        return self.read(origin, answer.status, answer.body)

    def _forget_failure(self, origin: str, look: asyncio.Future[Delay]) -> None:
        if look.cancelled() or isinstance(look.exception(), HeldError):
            del self.looks[origin]
        elif look.exception() is not None:
            asyncio.get_running_loop().call_later(_PASSES, self.looks.pop, origin, None)


async def probe_politely(
    probe: Probe,
    description: MapDescription,
    fetch: Fetch,
    robots: AskedRobots,
    *,
    rules: Rules,
    slow_down: Callable[[float], None],
) -> Site:
    """Returns the probed site, and adds the rules of all its hosts to `robots`. The robots.txt of a host is
    asked for once, and before anything else, unless by the map's own rules none is obeyed.

    `fetch` keeps the pace of the map and its host. `slow_down` makes it keep at least these seconds between
    two requests, as robots.txt asks for.

    Raises ConfigurationError for a public service whose rules forbid to keep its tiles, without a request if
    the map's address shows it. Raises ForbiddenError if the map's page, its configuration or a whole layer is
    forbidden, before asking for it. Raises SiteError as the probe does, and if it cannot be found out what is
    allowed.
    """
    check_rules(description.host)
    obeys = rules.robots

    async def allows(url: str) -> bool:
        origin = origin_of(url)
        try:
            gap = await robots.look_at(origin, partial(fetch, "GET"))
        except UnreadableError as error:
            raise SiteError(
                f"{origin}/robots.txt {error}, so that nobody knows what the site allows: nothing else was"
                " asked for; try again later"
            ) from None
        if (slow := too_slow(gap, rules.gap)) is not None:
            raise SiteError(
                f"{origin}/robots.txt {slow}, and nothing else was asked for: write delay ="
                f" {gap.most:.0f} for map '{description.name}' in maps.toml to harvest it so slowly, or ask"
                " its owner for less"
            )
        slow_down(gap.most)
        return robots.allows(url)

    async def fetch_allowed(method: str, url: str) -> Fetched:
        if not await allows(url):
            raise _forbidden(url, url, description.name)
        return await fetch(method, url)

    # A template has no page. The probe makes no request for it.
    if obeys and not is_template(description.url) and not await allows(description.page):
        raise _forbidden(description.page, "the map's page", description.name)
    site = await probe(description, fetch_allowed if obeys else fetch)
    for layer in site.layers:
        check_rules(layer.host)
    folders = {layer.name: f"{layer.addresses.folder}/" for layer in site.layers if obeys}
    forbidden = [name for name, folder in folders.items() if not await allows(folder)]
    if forbidden:
        more = f" and {len(forbidden) - 1} more" if forbidden[1:] else ""
        raise _forbidden(folders[forbidden[0]], f"layer '{forbidden[0]}'{more}", description.name, site)
    return site


def check_rules(host: str) -> None:
    """Raises ConfigurationError for a host whose rules forbid to keep its tiles."""
    for hosts, rule in _FORBIDDING.items():
        if re.fullmatch(hosts, host):
            raise ConfigurationError(
                f"{host} has {rule}; no tile was asked for: take a map whose owner lets you keep it"
            )


def _forbidden(url: str, what: str, name: str, site: Site | None = None) -> ForbiddenError:
    # Who has installed the scheduler alone has no renderers: they need the extra `maps`.
    from tileharvest.renderers.site import ForbiddenError  # noqa: PLC0415

    return ForbiddenError(
        f"{origin_of(url)}/robots.txt forbids {what}, and no tile was asked for: ask the owner to allow"
        f" {urlsplit(url).path} to {NAME} there; with the permission alone write robots = false for map"
        f" '{name}' in maps.toml",
        site,
    )
