"""A site in a dict: what is asked of it, and what is not."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.description import MapDescription
from tileharvest.maps.rates import NO_DELAY
from tileharvest.politeness.probe import AskedRobots, check_rules, probe_politely
from tileharvest.politeness.rules import Rules
from tileharvest.renderers.registry import probe
from tileharvest.renderers.site import Fetched, ForbiddenError, Site

SITE, TILES = "http://map.example.net", "http://tiles.example.net"
MAP = MapDescription(name="mine", url=f"{SITE}/world/")
ROBOTS, CONFIG = f"{SITE}/robots.txt", f"{SITE}/world/overviewerConfig.js"


def configuration(base: str = "", *paths: str) -> Fetched:
    tilesets = ", ".join(
        f'{{path: "{path}", zoomLevels: 2, imgextension: "png", base: "{base}"}}'
        for path in paths or ("day",)
    )
    return Fetched(200, f"var overviewerConfig = {{tilesets: [{tilesets}]}};".encode())


def forbidding(path: str, *more: str) -> Fetched:
    return Fetched(200, "\n".join(["User-agent: *", f"Disallow: {path}", *more]).encode())


@dataclass
class Server:
    """Answers what it has; of everything else that it is not there."""

    answers: dict[str, Fetched]
    asked: list[str] = field(default_factory=list)
    robots: AskedRobots = field(default_factory=AskedRobots)

    async def fetch(self, method: str, url: str) -> Fetched:
        self.asked.append(url)
        return self.answers.get(url, Fetched(404))

    def slow_down(self, spacing: float) -> None:
        if spacing and (said := f"at most every {spacing:g} s") not in self.asked:
            self.asked.append(said)

    def probed(self, description: MapDescription = MAP, *, obeys: bool = True) -> Site:
        rules = Rules("map.example.net", 1, description.gap or NO_DELAY, robots=obeys)
        manners: Any = {"rules": rules, "slow_down": self.slow_down}
        return asyncio.run(probe_politely(probe, description, self.fetch, self.robots, **manners))


def test_the_robots_txt_of_each_host_is_asked_for_once_and_first() -> None:
    server = Server({CONFIG: configuration(f"{TILES}/")})
    site = server.probed()
    assert server.asked == [ROBOTS, CONFIG, f"{TILES}/robots.txt"]
    assert [layer.name for layer in site.layers] == ["day"]
    assert not server.robots.rules
    for status in (410, 403, 401):
        server = Server({CONFIG: configuration(), ROBOTS: Fetched(status, b"User-agent: *\nDisallow: /")})
        server.probed()
        assert not server.robots.rules


def test_a_probe_that_goes_on_asks_nothing_of_a_site_whose_robots_txt_could_not_be_read() -> None:
    server = Server({f"{TILES}/robots.txt": Fetched(503)})

    async def careless(_: MapDescription, fetch: Any) -> Any:
        with suppress(SiteError):
            await fetch("GET", f"{TILES}/a.json")
        await fetch("GET", f"{TILES}/b.json")

    manners: Any = {"rules": Rules("map.example.net", 1), "slow_down": server.slow_down}
    with pytest.raises(SiteError, match="nobody knows"):
        asyncio.run(probe_politely(careless, MAP, server.fetch, AskedRobots(), **manners))
    assert server.asked == [ROBOTS, f"{TILES}/robots.txt"]


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_host_that_cannot_say_what_it_allows_is_asked_for_nothing(status: int) -> None:
    server = Server({CONFIG: configuration(), ROBOTS: Fetched(status)})
    with pytest.raises(SiteError, match=f"robots.txt answers {status}.*try again later") as raised:
        server.probed()
    assert server.asked == [ROBOTS]
    assert "forbids" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "named"),
    [("/", "the map's page"), ("/world/$", "the map's page"), ("/*.js", "overviewerConfig.js")],
)
def test_a_forbidden_map_is_not_asked_for(path: str, named: str) -> None:
    server = Server({CONFIG: configuration(), ROBOTS: forbidding(path)})
    with pytest.raises(SiteError, match=rf"forbids .*{named}.*ask the owner.*robots = false") as raised:
        server.probed()
    assert server.asked == [ROBOTS]
    assert int(raised.value.exit_status) == 5
    # Whoever has the permission asks for no robots.txt.
    server.asked.clear()
    server.probed(obeys=False)
    assert server.asked == [CONFIG]


def test_forbidden_layers_are_named() -> None:
    server = Server(
        {CONFIG: configuration(f"{TILES}/a/", "day", "night"), f"{TILES}/robots.txt": forbidding("/a/")}
    )
    with pytest.raises(ForbiddenError, match=r"layer 'day' and 1 more, .* allow /a/day/ to") as raised:
        server.probed()
    assert raised.value.site is not None
    assert [layer.name for layer in raised.value.site.layers] == ["day", "night"]


def test_the_gap_that_robots_txt_asks_for_is_kept_from_the_next_request_on() -> None:
    server = Server({CONFIG: configuration(f"{TILES}/"), ROBOTS: forbidding("/x", "Crawl-delay: 7")})
    server.probed()
    assert server.asked == [ROBOTS, "at most every 7 s", CONFIG, f"{TILES}/robots.txt"]


@pytest.mark.parametrize(
    ("line", "gap"),
    [
        ("Crawl-delay: 61", "61 seconds"),
        ("Crawl-delay: 1000000000", "86,400 seconds or more"),
        ("Request-rate: 1/1h", "3,600 seconds"),
    ],
)
def test_a_site_that_wants_to_be_asked_less_than_once_a_minute_is_refused(line: str, gap: str) -> None:
    server = Server({CONFIG: configuration(), ROBOTS: forbidding("/x", line)})
    with pytest.raises(SiteError, match=rf"wants {gap} between two requests, .* write delay = \d+ for"):
        server.probed()
    assert server.asked == [ROBOTS]
    # Where a person has agreed it is harvested so slowly.
    agreed = MapDescription(name="mine", url=MAP.url, delay=24 * 3600)
    assert [layer.name for layer in server.probed(agreed).layers] == ["day"]


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://tile.openstreetmap.org/{z}/{x}/{y}.png", "Tile Usage Policy prohibits bulk downloading"),
        ("https://mt{0-3}.google.com/vt?lyrs=s&x={x}&y={y}&z={z}", "No Scraping"),
        ("https://ecn.t{0-7}.tiles.virtualearth.net/{z}/{x}/{y}.jpeg?g=1", "Bing Maps Platform APIs' Terms"),
    ],
)
@pytest.mark.parametrize("obeys", [True, False])
def test_a_service_whose_rules_forbid_to_keep_tiles_is_refused(url: str, rule: str, obeys: bool) -> None:
    """`robots = false` is the owner's permission, which such a service does not give."""
    zooms = {"bounds": (7, 46, 8, 47), "site_zooms": (1, 3)}
    server = Server({})
    own = MapDescription(name="m", url=url, **zooms)
    with pytest.raises(ConfigurationError, match=rule):
        server.probed(own, obeys=obeys)
    assert server.asked == []
    tile_json = f'{{"tilejson": "3.0.0", "tiles": ["{url}"], "maxzoom": 3, "bounds": [7, 46, 8, 47]}}'
    server = Server({f"{SITE}/tiles.json": Fetched(200, tile_json.encode())})
    named = MapDescription(name="m", url=f"{SITE}/tiles.json", **zooms)
    with pytest.raises(ConfigurationError, match=rule):
        server.probed(named, obeys=obeys)
    assert all(asked.startswith(SITE) for asked in server.asked)


def test_such_services_are_known_by_their_hosts() -> None:
    for host in ("a.tile.osm.org", "tile.openstreetmap.org", "khms0.googleapis.com"):
        with pytest.raises(ConfigurationError, match=host):
            check_rules(host)
    others = ("tile.openstreetmap.example.net", "storage.googleapis.com", "sites.google.com", "mybing.com")
    for host in others:
        check_rules(host)
