"""Named areas: rectangles of a map that somebody has given a name, and the file in which they are kept.

`areas.toml` lies beside the history in the data folder:

    [[my-server]]
    name = "my base"
    layer = "world-lighting"
    corners = [[80, -400], [240, -200]]
"""

from __future__ import annotations

import json
import re
import tomllib
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tileharvest.errors import ConfigurationError, program
from tileharvest.maps.maps_file import check_map_name, replace_file, with_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LONGEST_NAME: Final = 60
"""The most characters of an area's name."""
_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[^\x00-\x1f\x7f/\\\ud800-\udfff]+")
_HEAD: Final = "# Named areas of maps: `tileharvest areas NAME` lists them, adds one, and removes one.\n"
"""The first line of a new file."""
FARTHEST: Final = 30_000_000
"""The edge of a world of Minecraft in blocks. Degrees and tiles have far smaller numbers."""


class NamedArea(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A named rectangle of a map. Raises ValueError (through msgspec) for a wrong name or corner."""

    name: str
    """The name that the owner has chosen. It is part of the address of the area's page."""
    layer: str
    """The layer whose tiles show changes in the area."""
    corners: tuple[tuple[float, float], tuple[float, float]]
    """Two opposite corners, both included. They are x and z of blocks, or latitude and longitude of plain
    tiles, or x and -y of the grid if nothing is known of the world."""

    def __post_init__(self) -> None:
        if (
            len(self.name) > LONGEST_NAME
            or _NAME.fullmatch(self.name) is None
            or self.name != self.name.strip()
        ):
            raise ValueError(
                f"'{self.name[: LONGEST_NAME + 1]}' is not a name of an area: write 1 to {LONGEST_NAME}"
                " characters, no slash, and no space at its ends"
            )
        if not all(isfinite(one) and abs(one) <= FARTHEST for corner in self.corners for one in corner):
            raise ValueError(f"a corner of '{self.name}' is farther out than any map")


def load_areas(file: Path) -> dict[str, list[NamedArea]]:
    """Returns the areas of each map, in the file's order, and none without a file. Raises
    ConfigurationError, which names the mistake."""
    return _parsed(file, _text(file))


def add_area(file: Path, map_name: str, area: NamedArea) -> None:
    """Adds an area to the file. The rest of the file stays as it is, comments included. Raises
    ConfigurationError if the map already has an area of that name."""
    text = _text(file)
    areas = _parsed(file, text)
    of_map = areas.setdefault(map_name, [])
    if any(other.name == area.name for other in of_map):
        raise ConfigurationError(
            f"map '{map_name}' has an area '{area.name}' already; nothing was changed: remove it first"
        )
    text = with_entry(text or _HEAD, _written(map_name, area))
    try:
        _parsed(file, text)
    except ConfigurationError:
        raise _refused(file) from None
    replace_file(file, text)


def remove_area(file: Path, map_name: str, name: str) -> None:
    """Removes an area from the file, which is written anew. Raises ConfigurationError if the map has no area
    of that name, and if a person has changed the file, who may have written comments."""
    text = _text(file)
    areas = _parsed(file, text)
    of_map = areas.get(map_name, [])
    kept = [area for area in of_map if area.name != name]
    if len(kept) == len(of_map):
        raise ConfigurationError(no_such_area(map_name, name, of_map))
    if sorted(_whole(areas).splitlines()) != sorted(text.splitlines()):
        raise _refused(file)
    replace_file(file, _whole({**areas, map_name: kept}))


def no_such_area(map_name: str, name: str, areas: Sequence[NamedArea]) -> str:
    """Returns the message that a map has no area of that name, and which areas it has."""
    there = ", ".join(f"'{area.name}'" for area in areas)
    if not there:
        there = f"none yet: `{program()} areas {map_name} add AREA X,Z X,Z` adds one"
    return f"map '{map_name}' has no area '{name}'; it has {there}"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read ({error})") from None


def _parsed(file: Path, text: str) -> dict[str, list[NamedArea]]:
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from None
    return {name: _areas_of(file, name, listed) for name, listed in entries.items()}


def _areas_of(file: Path, map_name: str, listed: Any) -> list[NamedArea]:
    place = f"{file}: map '{map_name}'"
    try:
        check_map_name(map_name)
        areas = msgspec.convert(listed, list[NamedArea])
    except (ConfigurationError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{place}: {error}") from None
    names = [area.name for area in areas]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{place}: the area '{twice}' is there twice")
    return areas


def _whole(areas: Mapping[str, Sequence[NamedArea]]) -> str:
    """Returns the file as this module writes it."""
    text = _HEAD
    for map_name, of_map in areas.items():
        for area in of_map:
            text = with_entry(text, _written(map_name, area))
    return text


def _written(map_name: str, area: NamedArea) -> list[str]:
    """Returns the lines of an area in the file."""
    corners = [[int(one) if one == int(one) else one for one in corner] for corner in area.corners]
    values = {"name": area.name, "layer": area.layer, "corners": corners}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    # A JSON string is a TOML basic string, and a JSON list of numbers is an array. JSON does not escape
    # U+007F, which TOML does not allow.
    return [f"[[{json.dumps(map_name)}]]", *(line.replace("\x7f", "\\u007f") for line in lines)]


def _refused(file: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{file} is not written as `{program()} areas` does, and nothing was changed: edit it yourself"
    )
