"""`maps.toml`: which maps are harvested, and how.

A map's name is its entry's name in the file. It is stable though the site renames its map or moves.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from tileharvest.errors import ConfigurationError
from tileharvest.maps.zones import Zone

if TYPE_CHECKING:
    from pathlib import Path

_MAP_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)

_EXAMPLES: Final = {
    "url": 'url = "https://map.example.net/world/"',
    "layers": 'layers = ["world-lighting"]',
    "zooms": "zooms = [-3, 0]",
    "zones": "zones = [{center = [0, -8], width = 56, height = 29, zoom = -3}]",
    "timezone": 'timezone = "Europe/Berlin"',
    "concurrency": "concurrency = 4",
    "requests_per_second": "requests_per_second = 5",
    "max_depth": "max_depth = 6",
    "enabled": "enabled = true",
    "note": 'note = "our survival server"',
}


class MapDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of `maps.toml`, checked. Raises ValueError (through msgspec) for values that cannot be."""

    name: str
    url: str
    """The address of the map's page."""
    layers: tuple[str, ...] = ()
    """Names of the layers to keep, each a tileset's `path`; none: every tileset that is no overlay."""
    zooms: tuple[int, int] | None = None
    """Coarsest and deepest zoom to keep, both included; None: all."""
    zones: tuple[Zone, ...] = ()
    """None: the whole map."""
    timezone: str = "UTC"
    """In which a day begins and ends."""
    concurrency: int = 4
    """Requests on the way at the same time, of all workers together."""
    requests_per_second: float | None = None
    """Of all workers together; None: as many as the concurrency brings."""
    max_depth: int | None = None
    """Levels below the first tiles asked that the walk may go; None: all."""
    enabled: bool = True
    """Whether `scrapy harvest --all` harvests it."""
    note: str = ""

    def __post_init__(self) -> None:
        _check(urlsplit(self.url).scheme in ("http", "https") and bool(urlsplit(self.url).hostname), "url")
        _check(all(self.layers) and len(set(self.layers)) == len(self.layers), "layers")
        _check(self.zooms is None or self.zooms[0] <= self.zooms[1] <= 0, "zooms")
        _check(self.concurrency >= 1, "concurrency")
        per_second = self.requests_per_second
        _check(per_second is None or 0 < per_second < inf, "requests_per_second")
        _check(self.max_depth is None or self.max_depth >= 0, "max_depth")
        if self.timezone not in available_timezones():
            meant = difflib.get_close_matches(self.timezone, available_timezones(), n=1)
            hint = f"did you mean '{meant[0]}'?" if meant else f"write for example {_EXAMPLES['timezone']}"
            raise ValueError(f"key 'timezone': '{self.timezone}' is no time zone; {hint}")

    @property
    def page(self) -> str:
        """The address that the site's own relative addresses start from, ending in a slash."""
        parts = urlsplit(self.url)
        folder, _, last = parts.path.rpartition("/")
        path = f"{folder}/" if last.endswith((".html", ".htm")) else parts.path.rstrip("/") + "/"
        return f"{parts.scheme}://{parts.netloc}{path}"

    @property
    def zone_info(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


def load_maps(file: Path) -> dict[str, MapDescription]:
    """All maps of the file, by name, in its order.

    Raises ConfigurationError, one line that names file, map and key and says what would be right.
    """
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(
            f"there is no {file}: `scrapy add NAME URL` writes one, or set TILEHARVEST_MAPS to yours"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from None
    return {name: _described(file, name, entry) for name, entry in entries.items()}


def find_map(file: Path, name: str) -> MapDescription:
    """The map of that name. Raises ConfigurationError as `load_maps` does, or naming those that exist."""
    maps = load_maps(file)
    if name not in maps:
        meant = difflib.get_close_matches(name, maps, n=1)
        hint = f"did you mean '{meant[0]}'?" if meant else f"it has: {', '.join(maps) or 'none yet'}"
        raise ConfigurationError(f"{file} has no map '{name}'; {hint}")
    return maps[name]


def check_map_name(name: str) -> None:
    """Raises ConfigurationError unless the name can be one: it names files and stands in commands."""
    if _MAP_NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"'{name}' cannot be a map's name: use letters, digits, '-', '_' and '.', such as my-server"
        )


def checked_entry(file: Path, name: str, entry: dict[str, Any]) -> MapDescription:
    """The description that an entry not yet in the file would make. Raises ConfigurationError, also when
    the file has a map of that name already."""
    check_map_name(name)
    if file.exists() and name in load_maps(file):
        raise ConfigurationError(f"{file} has a map '{name}' already; nothing was changed: take another name")
    return _described(file, name, entry)


def add_map(file: Path, name: str, entry: dict[str, Any]) -> None:
    """Append an entry, whose values are texts and lists of texts, to the file, or begin the file.

    What the file holds stays as it is, comments included; it is replaced as a whole, so that a kill
    leaves the old one or the new one. Raises ConfigurationError as `checked_entry` does, or when the file
    cannot be written.
    """
    checked_entry(file, name, entry)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = [f"[{json.dumps(name)}]" if "." in name else f"[{name}]"]
    # A JSON string is a TOML basic string, and a list of them is a TOML array.
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    separator = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    part = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text + separator + "\n".join(lines) + "\n", encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written ({error}); nothing was changed") from None


def _described(file: Path, name: str, entry: Any) -> MapDescription:
    place = f"{file}: map '{name}'"
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{file}: '{name}' stands outside of a map; write [my-map] above it")
    try:
        check_map_name(name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None
    for key in entry:
        if key not in _EXAMPLES:
            meant = difflib.get_close_matches(key, _EXAMPLES, n=1)
            hint = f"did you mean '{meant[0]}'?" if meant else f"it can have: {', '.join(_EXAMPLES)}"
            raise ConfigurationError(f"{place}: key '{key}' is not known; {hint}")
    if "url" not in entry:
        raise ConfigurationError(f"{place}: key 'url' is missing; write for example {_EXAMPLES['url']}")
    try:
        return msgspec.convert({**entry, "name": name}, MapDescription)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{place}: {_in_words(str(error))}") from None


def _in_words(message: str) -> str:
    """msgspec's `Expected ..., got ... - at `$.key...`` with the key first and an example last."""
    problem, _, where = message.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    key = re.split(r"[.\[]", path, maxsplit=1)[0]
    if key not in _EXAMPLES:
        return problem
    return f"key '{path}': {problem[:1].lower()}{problem[1:]}; write for example {_EXAMPLES[key]}"


def _check(holds: bool, key: str) -> None:
    if not holds:
        raise ValueError(f"key '{key}': this cannot be; write for example {_EXAMPLES[key]}")
