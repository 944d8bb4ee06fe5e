"""The polite probe of a site: its robots.txt is asked for first, and obeyed."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.rates import NO_DELAY
from tileharvest.maps.template import is_template
from tileharvest.politeness.robots import NAME, Robots, origin_of, too_slow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched, Site

    Probe = Callable[[MapDescription, Fetch], Awaitable[Site]]


class ForbiddenError(SiteError):
    """robots.txt forbids something of a map, which was not asked for."""

    def __init__(self, message: str, site: Site | None = None) -> None:
        super().__init__(message)
        self.site = site
        """The site as the probe has read it. None unless only tiles are forbidden."""


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


async def probe_politely(
    probe: Probe,
    description: MapDescription,
    fetch: Fetch,
    *,
    slow_down: Callable[[float], None],
    obeys: bool = True,
) -> tuple[Site, Robots]:
    """Returns the probed site, and the rules of all its hosts. The robots.txt of a host is asked for once,
    and before anything else. Unless the probe `obeys`, no robots.txt is asked for.

    `fetch` keeps the pace of the map and its host. `slow_down` makes it keep at least these seconds between
    two requests, as robots.txt asks for.

    Raises ConfigurationError for a public service whose rules forbid to keep its tiles, without a request if
    the map's address shows it. Raises ForbiddenError if the map's page, its configuration or a whole layer is
    forbidden, before asking for it. Raises SiteError as the probe does, and if it cannot be found out what is
    allowed.
    """
    _check_rules(description.host)
    guest = _Guest(fetch, description, slow_down)
    if obeys and not is_template(description.url):
        # A template has no page. The probe makes no request for it.
        await guest.check(description.page, "the map's page")
    site = await probe(description, guest.fetch if obeys else fetch)
    for layer in site.layers:
        _check_rules(layer.host)
    if obeys:
        await guest.check_layers(site)
    return site, guest.robots


def rule_against(host: str) -> str | None:
    """Returns in words the rule that forbids to keep the tiles of a host, or None if no rule is known."""
    return next(
        (f"{host} has {rule}" for hosts, rule in _FORBIDDING.items() if re.fullmatch(hosts, host)), None
    )


def _check_rules(host: str) -> None:
    if (rule := rule_against(host)) is not None:
        raise ConfigurationError(f"{rule}; no tile was asked for: take a map whose owner lets you keep it")


class _Guest:
    """Asks only for what is allowed, and as slowly as robots.txt wants."""

    def __init__(self, fetch: Fetch, description: MapDescription, slow_down: Callable[[float], None]) -> None:
        self.robots = Robots()
        self._fetch, self._slow_down = fetch, slow_down
        self._name, self._own = description.name, description.gap or NO_DELAY
        self._known: set[str] = set()

    async def fetch(self, method: str, url: str) -> Fetched:
        await self.check(url, url)
        return await self._fetch(method, url)

    async def check(self, url: str, what: str) -> None:
        """Raises ForbiddenError, which names `what`, if the address is forbidden."""
        if not await self._allows(url):
            raise self._forbidden(url, what)

    async def check_layers(self, site: Site) -> None:
        """Raises ForbiddenError if a layer is forbidden."""
        forbidden = [layer for layer in site.layers if not await self._allows(f"{layer.addresses.folder}/")]
        if forbidden:
            more = f" and {len(forbidden) - 1} more" if forbidden[1:] else ""
            what = f"layer '{forbidden[0].name}'{more}"
            raise self._forbidden(f"{forbidden[0].addresses.folder}/", what, site)

    async def _allows(self, url: str) -> bool:
        origin = origin_of(url)
        if origin not in self._known:
            self._known.add(origin)
            rules = await self._rules_of(origin)
            slow = too_slow(rules.gap, self._own)
            if slow is not None:
                raise SiteError(
                    f"{origin}/robots.txt {slow}, and nothing else was asked for: write"
                    f" delay = {rules.gap.most:.0f} for map '{self._name}' in maps.toml to harvest it so"
                    " slowly, or ask its owner for less"
                )
            self.robots = self.robots.beside(rules)
            self._slow_down(rules.gap.most)
        return self.robots.allows(url)

    def _forbidden(self, url: str, what: str, site: Site | None = None) -> ForbiddenError:
        return ForbiddenError(
            f"{origin_of(url)}/robots.txt forbids {what}, and no tile was asked for: ask the owner to allow"
            f" {urlsplit(url).path} to {NAME} there; with the permission alone write robots = false for map"
            f" '{self._name}' in maps.toml",
            site,
        )

    async def _rules_of(self, origin: str) -> Robots:
        """Returns the rules of a site. If the site answers that it has no robots.txt, everything is allowed.

        Raises SiteError for a failure of the server, or no answer: then everything is forbidden for now (RFC
        9309, section 2.3.1). 429 counts as a failure, too."""
        url = f"{origin}/robots.txt"
        answer = await self._fetch("GET", url)
        if answer.status >= 500 or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise SiteError(
                f"{url} answers {answer.status}, so that nobody knows what the site allows: nothing else was"
                " asked for; try again later"
            )
        return Robots.of(origin, answer.body if answer.status == 200 else b"")
