"""The entries of `maps.toml`: which map is harvested, and how.

A map's name is the name of its entry. It stays when the site moves or renames its map.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec
from msgspec import Meta

from tileharvest.errors import nearest
from tileharvest.maps.budgets import Budget, parse_size
from tileharvest.maps.rates import Delay, parse_rate
from tileharvest.maps.regions import Canvas
from tileharvest.maps.template import DEEPEST, Template, is_address, is_template
from tileharvest.maps.times import AUTO, Interval, QuietHours, parse_time
from tileharvest.tiles.grid import Zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import time

EXAMPLES: Final = {
    "url": 'url = "https://map.example.net/world/"',
    "renderer": 'renderer = "overviewer"',
    "git": 'git = "https://github.com/owner/map" or git = {url = "...", branch = "gh-pages", path = "docs"}',
    "layers": 'layers = ["world-lighting"]',
    "zooms": "zooms = [-3, 0]",
    "bounds": "bounds = [5.9, 45.8, 10.5, 47.8] or bounds = {zoom = 5, x = [0, 31], y = [0, 31]}",
    "site_zooms": "site_zooms = [4, 9]",
    "canvas": "canvas = {tiles = [2048, 2048], tile = 1000}",
    "blank": 'blank = ["356a192b7913b04c54574d18c28d46e6395428ab"]',
    "zones": "zones = [{center = [0, -8], width = 56, height = 29, zoom = -3}]",
    "timezone": 'timezone = "Europe/Berlin"',
    "every": 'every = "1d" or every = "auto"',
    "at": 'at = "04:00"',
    "every_min": 'every = "auto" and every_min = "1d"',
    "every_max": 'every = "auto" and every_max = "28d"',
    "concurrency": "concurrency = 4",
    "requests_per_second": "requests_per_second = 5",
    "delay": "delay = 0.5 or delay = [0.2, 0.8]",
    "autothrottle": "autothrottle = true",
    "quiet_hours": 'quiet_hours = "18:00-23:00"',
    "quiet_rate": 'quiet_rate = "10/min"',
    "budget": 'budget = {requests = 20000, bytes = "500 MB", seconds = 3600}',
    "daily_budget": 'daily_budget = {requests = 50000, bytes = "1 GB", seconds = 7200}',
    "max_tile_bytes": 'max_tile_bytes = "8 MB"',
    "min_free": 'min_free = "2 GB"',
    "robots": "robots = true",
    "contact": 'contact = "me@example.net"',
    "user_agents": 'user_agents = ["TileHarvest/0.1 (+https://example.net/why)"]',
    "notify": 'notify = ["mailto://${MAIL_USER}:${MAIL_PASSWORD}@example.net"]',
    "on": 'on = ["change", "failure"]',
    "areas": 'areas = ["my base"]',
    "viewer": 'viewer = "http://127.0.0.1:8000/"',
    "walk": 'walk = "auto"',
    "audit": "audit = 0.02",
    "full_every": "full_every = 7",
    "change_index": "change_index = true",
    "check": 'check = "head"',
    "first": 'first = "get"',
    "max_tiles": "max_tiles = 5000000",
    "enabled": "enabled = true",
    "note": 'note = "our survival server"',
}
"""Every key that an entry can have, each with an example."""


_Concurrency: TypeAlias = Annotated[int, Meta(ge=1)]


class GitEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The git repository through which a map is published. Raises ValueError for a wrong address."""

    url: str
    """An address that `git fetch` takes."""
    branch: str = ""
    """The branch. Empty means the one that a clone checks out."""
    path: str = ""
    """The map's folder in the repository. Empty means the repository's top."""

    def __post_init__(self) -> None:
        # git would take a word with a dash in front for an option.
        if not re.fullmatch(r"[^\s-]\S*://\S+|[^\s/@-][^\s/@]*@[^\s:]+:\S+", self.url):
            raise ValueError(
                f"'{self.url}' is not an address of a git repository, such as https://github.com/owner/map"
            )
        if self.branch.startswith("-") or ".." in self.path.split("/"):
            raise ValueError("its branch or its path cannot be")


class TileBounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rectangle of plain tiles in the site's own numbers. Raises ValueError if it has no tiles."""

    zoom: int
    """The site's own zoom. 0 is the coarsest."""
    x: tuple[int, int]
    """The first and the last column, both included."""
    y: tuple[int, int]
    """The first and the last row, counted down, both included."""

    def __post_init__(self) -> None:
        if not 0 <= self.zoom <= DEEPEST or self.x[0] > self.x[1] or self.y[0] > self.y[1]:
            raise ValueError(f"no tile of the zooms 0 to {DEEPEST} lies there")


class HostEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The limits of a host for all of its maps together. For None, the most generous map's limit counts."""

    concurrency: _Concurrency | None = None
    """The most requests that may be on the way at the same time."""
    requests_per_second: float | None = None
    delay: float | tuple[float, float] | None = None
    """The seconds between two requests. If two numbers are given, each gap is drawn between them."""

    def __post_init__(self) -> None:
        _check_read(self.requests_per_second, "requests_per_second", Delay.of_rate)
        _check_read(self, "delay", lambda entry: entry.gap)

    @property
    def gap(self) -> Delay | None:
        """The gap between two requests. None if the entry has none."""
        return _gap_of(self.delay, self.requests_per_second)


class MapDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A checked entry of `maps.toml`. Raises ValueError (through msgspec) for wrong values."""

    name: str
    url: str
    """The address of the map's page. For plain tiles it is their template, or the address of a TileJSON."""
    renderer: str = ""
    """The program that draws the map, such as `overviewer`. If empty, each probe of the site finds it out."""
    git: str | GitEntry | None = None
    """The git repository through which the map is published. None means that the site is asked."""
    layers: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    """Names of the layers to keep, as the site has them. Empty means every layer that is not an overlay."""
    zooms: tuple[int, int] | None = None
    """The coarsest and the deepest zoom to keep, both included; None means all."""
    bounds: tuple[float, float, float, float] | TileBounds | None = None
    """The extent of plain tiles: west, south, east and north, or tiles. None means that the site says it."""
    site_zooms: tuple[int, int] | None = None
    """The coarsest (0) and the deepest zoom of plain tiles. None means that the site says them."""
    canvas: Canvas | None = None
    """The size of a shared picture of one zoom, whose addresses do not name a zoom."""
    blank: tuple[Annotated[str, Meta(pattern="^[0-9a-f]{40}$")], ...] = ()
    """The sha1 of images that the site sends for missing tiles."""
    zones: tuple[Zone, ...] = ()
    """The rectangles to keep. Empty means the whole map."""
    timezone: str = "UTC"
    """The time zone in which a day begins and ends."""
    every: str | None = None
    """How often the map is harvested: `1d`, `6h`, or `auto`. Segments then have this length. None means that
    the setting SEGMENT decides. The history keeps one version of a tile a day, whatever the segments are."""
    at: str | None = None
    """When `tileharvest run` harvests the map, such as `04:00`. None: as follows from the map's name."""
    every_min: str | None = None
    """The shortest interval of `auto`, which is also the length of its segments. None means a day."""
    every_max: str | None = None
    """The longest interval of `auto`. None means four weeks."""
    concurrency: _Concurrency = 4
    """The most requests that all workers together may have on the way at the same time."""
    requests_per_second: float | None = None
    """The limit of all workers together. None means that only the concurrency limits them."""
    delay: float | tuple[float, float] | None = None
    """The seconds between two requests of all workers, or two numbers between which each gap is drawn."""
    autothrottle: bool | None = None
    """Whether Scrapy's AutoThrottle slows down for a host that answers slowly."""
    quiet_hours: str | tuple[str, ...] | None = None
    """Hours of the map's time zone in which nothing is asked, such as `18:00-23:00`."""
    quiet_rate: str | None = None
    """The rate at which the site is asked in the quiet hours all the same, such as `10/min`."""
    budget: Budget | None = None
    """The most that one run of a harvest may spend."""
    daily_budget: Budget | None = None
    """The most that all runs of a day may spend."""
    max_tile_bytes: str | int | None = None
    """The most bytes that an image may have, such as `8 MB`. None means 32 MB."""
    min_free: str | int | None = None
    """The room that must stay free on the disk of the data folder, such as `2 GB`."""
    robots: bool | None = None
    """Whether the site's robots.txt is obeyed."""
    contact: str = ""
    """A mail address or a page at which the site's owner finds who harvests, for the User-Agent."""
    user_agents: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    """The User-Agents in place of our own. Each block takes one of them at random."""
    notify: tuple[str, ...] | None = None
    """The addresses of messages, in Apprise's form."""
    on: tuple[Literal["change", "failure", "always"], ...] | None = None
    """The occasions of a message: `change`, `failure`, `always`."""
    areas: tuple[str, ...] = ()
    """The named areas whose changes are an occasion `change`. Empty means the whole map."""
    viewer: str = ""
    """The address of the viewer, for links in messages."""
    walk: Literal["auto", "full", "pruned"] = "auto"
    """Which tiles below an unchanged tile are asked: all (`full`) or none (`pruned`). `auto` asks none if the
    host was proved to give every parent the time of its newest child."""
    audit: Annotated[float, Meta(ge=0, le=1)] = 0.02
    """The share of the skipped tiles that is asked nevertheless, from 0 to 1."""
    full_every: Annotated[int, Meta(ge=1)] = 7
    """The days after which all tiles are asked again, at least 1."""
    change_index: bool = True
    """Whether `auto` also relies on the site's own change index."""
    check: Literal["head", "conditional"] = "head"
    """How a harvest asks whether a tile has changed: by HEAD and then GET, or by one conditional GET."""
    first: Literal["get", "head"] = "get"
    """How a map's first harvest asks for the tiles that it keeps: by GET at once, or by HEAD and then GET."""
    max_tiles: int | None = None
    """The most tiles of a layer. A walk that finds more is ended. None means what `walk.ends`
    derives from the last harvest. If a number is set, walks over equal images are not ended."""
    enabled: bool = True
    """Whether `tileharvest harvest --all` and `tileharvest run` harvest the map."""
    note: str = ""

    def __post_init__(self) -> None:
        for key, read in _READERS.items():
            _check_read(getattr(self, key), key, read)
        _check_read(self, "delay", lambda entry: entry.gap)
        _check_read(self, "git", lambda entry: entry.repository)
        _check(len(set(self.layers)) == len(self.layers), "layers", "one of them is there twice")
        for key, text in (("contact", self.contact), ("user_agents", "".join(self.user_agents))):
            _check(text.isprintable(), key, "it has a character that no header of a request may have")
        _check_reach(self)
        _check_times(self)
        try:
            _ = self.zone_info
        except (OSError, ValueError, ZoneInfoNotFoundError):
            # Only here, because `available_timezones` reads the names of some thousand files.
            hint = nearest(self.timezone, available_timezones(), f"write for example {EXAMPLES['timezone']}")
            wrong = f"key 'timezone': '{self.timezone}' is not a time zone; {hint}"
            raise ValueError(wrong) from None

    @property
    def most_tile_bytes(self) -> int:
        """The most bytes that an image may have."""
        # Every command reads maps.toml, and this module loads Pillow.
        from tileharvest.tiles.images import MOST_BYTES  # noqa: PLC0415

        return MOST_BYTES if self.max_tile_bytes is None else parse_size(self.max_tile_bytes)

    @property
    def repository(self) -> GitEntry | None:
        """The repository through which the map is published. None if the entry names none."""
        return GitEntry(url=self.git) if isinstance(self.git, str) else self.git

    @property
    def gap(self) -> Delay | None:
        """The gap between two requests. None if the entry has none."""
        return _gap_of(self.delay, self.requests_per_second)

    @property
    def quiet(self) -> tuple[QuietHours, ...] | None:
        """The quiet hours. None if the entry has none."""
        return None if self.quiet_hours is None else _hours(self.quiet_hours)

    @property
    def segment(self) -> str | None:
        """The segments that `every` asks for, in the form of the setting SEGMENT. None without `every`."""
        return None if self.interval is None else self.interval.segment

    @property
    def interval(self) -> Interval | None:
        """The length of the map's segments. None without `every`."""
        if self.every is None:
            return None
        return self.adaptive[0] if self.adaptive else Interval.parse(self.every)

    @property
    def adaptive(self) -> tuple[Interval, Interval] | None:
        """The shortest and the longest interval of `every = "auto"`. None for any other `every`."""
        if self.every != AUTO:
            return None
        return Interval.parse(self.every_min or "1d"), Interval.parse(self.every_max or "28d")

    @property
    def at_time(self) -> time | None:
        """The time of the day of the map's harvest. None if the entry has none."""
        return None if self.at is None else parse_time(self.at)

    @property
    def is_canvas(self) -> bool:
        """Whether the address is that of a picture of one zoom, which it does not name."""
        return is_template(self.url) and Template(self.url).is_flat

    @property
    def host(self) -> str:
        """The host of the map's page."""
        return urlsplit(self.page).hostname or ""

    @property
    def page(self) -> str:
        """The address from which the site's relative addresses start. It ends with a slash."""
        if is_template(self.url):
            return Template(self.url).page
        parts = urlsplit(self.url)
        folder, _, last = parts.path.rpartition("/")
        path = f"{folder}/" if _is_file_name(last) else parts.path.rstrip("/") + "/"
        return f"{parts.scheme}://{parts.netloc}{path}"

    @property
    def zone_info(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


def _is_file_name(name: str) -> bool:
    """Returns whether the last part of an address names a page, or a TileJSON, rather than a folder."""
    return re.search(r"\.([sx]?html?|php\d?|aspx?|jsp|cgi|json)$", name, re.IGNORECASE) is not None


NOTICES: Final = ("change", "failure", "always")
"""The occasions of messages. `change`: a tile has a new version. `failure`: an error or a budget has ended
the harvest, or tiles failed. `always`: the harvest has ended."""


def _gap_of(delay: float | tuple[float, float] | None, rate: float | None) -> Delay | None:
    """Returns the gap that keeps both delay and rate, or None without any. Raises ValueError."""
    said = [] if delay is None else [Delay.of(delay)]
    said += [] if rate is None else [Delay.of_rate(rate)]
    return None if not said else said[0].at_least(said[-1])


def _hours(said: str | tuple[str, ...]) -> tuple[QuietHours, ...]:
    return tuple(QuietHours.parse(one) for one in ((said,) if isinstance(said, str) else said))


def _read_page(address: str) -> str:
    """Returns the address of a page. Raises ValueError for any other text."""
    if not is_address(address):
        raise ValueError(f"'{address}' is not an address of a page, such as https://map.example.net/world/")
    return Template(address).text if is_template(address) else address


_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "url": _read_page,
    "requests_per_second": Delay.of_rate,
    "quiet_hours": _hours,
    "quiet_rate": parse_rate,
    "max_tile_bytes": parse_size,
    "min_free": parse_size,
    "viewer": lambda address: address and _read_page(address),
    "every": lambda text: text == AUTO or Interval.parse(text),
    "every_min": Interval.parse,
    "every_max": Interval.parse,
    "at": parse_time,
}
"""What reads the value of a key, and raises ValueError for one that cannot be."""


def _check_reach(description: MapDescription) -> None:
    """Raises ValueError that names the wrong key."""
    if description.zooms is not None:
        coarsest, deepest = description.zooms
        later = f"{coarsest} is deeper than {deepest}, and the coarsest comes first"
        _check(coarsest <= deepest, "zooms", later)
        _check(deepest <= 0, "zooms", f"{deepest} is deeper than 0, the deepest zoom")
    if isinstance(description.bounds, tuple):
        west, south, east, north = description.bounds
        _check(-180 <= west < east <= 180, "bounds", f"from {west:g} to {east:g} degrees east is nothing")
        _check(-90 <= south < north <= 90, "bounds", f"from {south:g} to {north:g} degrees north is nothing")
    if description.site_zooms is not None:
        coarsest, deepest = description.site_zooms
        between = f"the site's own zooms lie between 0 and {DEEPEST}, and the coarsest comes first"
        _check(0 <= coarsest <= deepest <= DEEPEST, "site_zooms", between)


def _check_times(description: MapDescription) -> None:
    """Raises ValueError that names the wrong key."""
    for key, said in (("every_min", description.every_min), ("every_max", description.every_max)):
        _check(said is None or description.every == AUTO, key, 'it is of use with every = "auto" only')
    if description.adaptive is not None:
        shortest, longest = description.adaptive
        shorter = f"{longest} is shorter than every_min, {shortest}"
        _check(shortest.length <= longest.length, "every_max", shorter)
    if description.at is not None and description.interval is not None:
        hint = 'leave it out, or take hours that a day is made of, such as every = "6h"'
        _check_read(description.interval, "at", lambda interval: interval.repeats, hint)


def _check_read(said: Any, key: str, read: Callable[[Any], object], hint: str = "") -> None:
    """Raises ValueError that names the key, for a value that `read` refuses. None is never refused."""
    try:
        if said is not None:
            read(said)
    except ValueError as error:
        raise ValueError(f"key '{key}': {error}{hint and f'; {hint}'}") from None


def _check(holds: bool, key: str, why: str) -> None:
    """Raises ValueError unless the condition holds. `why` says what is wrong with the value."""
    if not holds:
        raise ValueError(f"key '{key}': {why}; write for example {EXAMPLES[key]}")
