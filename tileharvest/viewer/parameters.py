"""The checked parameters of a request, and the rectangle that they name. Pure.

A number that passes is small enough for the database, and for arithmetic that costs nothing. A tile of zoom
-30, the coarsest zoom with coordinates below 2^31, covers 400 million blocks.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Final, TypeAlias

from tileharvest.renderers.xyz import is_on_earth, latitude_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground
from tileharvest.viewer.replies import echoed, quoted, unknown, wrong

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tileharvest.tiles.layers import Layer

Query: TypeAlias = "Sequence[tuple[str, str]]"
"""The names and values of a request's parameters, in the order in which the client wrote them."""

AREA: Final = ("zoom", "x_from", "x_to", "y_from", "y_to")
"""The parameters of a rectangle of tiles: its zoom, and the centres of the outermost tiles in it."""

_COARSEST: Final = -30
_FARTHEST: Final = 2**31 - 1
_DECIMAL: Final = re.compile(r"-?\d{1,10}(\.\d{1,9})?", re.ASCII)
_NUMBER: Final = re.compile(r"0|-?[1-9]\d{0,9}", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TILE: Final = re.compile(r"(0|-[1-9]\d?)_(-?[1-9]\d{0,9})_(-?[1-9]\d{0,9})", re.ASCII)


class Parameters:
    """The parameters of a request, in which each name is known, has a value, and stands once."""

    def __init__(
        self, query: Iterable[tuple[str, str]], needed: Sequence[str], optional: Sequence[str] = ()
    ) -> None:
        """Raises RefusedError, naming the first parameter that is wrong."""
        self._values: dict[str, str] = {}
        for name, value in query:
            if name not in needed and name not in optional:
                allowed = ", ".join((*needed, *optional)) or "none"
                raise wrong(f"parameter {quoted(name)} is not known here; known are: {allowed}")
            if name in self._values:
                raise wrong(f"parameter '{name}' is given twice")
            if not value:
                raise wrong(f"parameter '{name}' is empty")
            self._values[name] = value
        for name in needed:
            if name not in self._values:
                raise wrong(f"parameter '{name}' is missing; needed are: {', '.join(needed)}")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        return self._values[name]

    def number(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """Returns a whole number within these bounds, both included. An optional parameter has a default."""
        if default is not None and name not in self._values:
            return default
        text = self._values[name]
        if _NUMBER.fullmatch(text) is None or not least <= (value := int(text)) <= most:
            raise wrong(f"{name}={echoed(text)} cannot be: write a whole number from {least} to {most}")
        return value

    def day(self, name: str) -> date:
        found = parse_day(self._values[name])
        if found is None:
            raise wrong(f"{name}={echoed(self._values[name])} is not a day: write it as 2021-02-13")
        return found

    def language(self, known: Sequence[str]) -> str:
        """Returns the parameter `language`, or the first of the known languages without one."""
        language = self._values.get("language", known[0])
        if language not in known:
            raise wrong(f"language={echoed(language)} is not known; known are: {', '.join(known)}")
        return language

    def period(self, first: str = "after", last: str = "until") -> tuple[date, date]:
        """Returns the days of two parameters. The second day is not before the first."""
        begin, end = self.day(first), self.day(last)
        if end < begin:
            raise wrong(f"{last}={end} is before {first}={begin}")
        return begin, end

    def area(self, most: int) -> TileRange:
        """Returns the rectangle of the parameters `AREA`. Raises RefusedError if it has more tiles than
        `most`."""
        zoom = self.number("zoom", _COARSEST, 0)
        unit = 1 << -zoom
        edges = {name: self.number(name, -_FARTHEST, _FARTHEST) for name in AREA[1:]}
        for name, edge in edges.items():
            if edge % (2 * unit) != unit:
                centre = f"a tile's centre at zoom {zoom}: write an odd multiple of {unit}"
                raise wrong(f"{name}={edge} is not {centre}")
        for axis in "xy":
            first, last = edges[f"{axis}_from"], edges[f"{axis}_to"]
            if first > last:
                raise wrong(f"{axis}_from={first} is greater than {axis}_to={last}")
        area = TileRange(zoom, **edges)
        if len(area) > most:
            there = f"this one has {len(area):,}: ask for parts"
            raise wrong(f"an area can have {most:,} tiles here, and {there}")
        return area


def parse_day(text: str) -> date | None:
    """Returns a day written as `2021-02-13`, or None for any other text, such as ISO's other forms."""
    if _DAY.fullmatch(text) is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def picture_days(names: Sequence[str], suffix: str) -> tuple[date, ...]:
    """Returns the days of a picture's address, whose last part has the suffix. Raises RefusedError."""
    texts = [*names[:-1], names[-1].removesuffix(suffix)]
    days = tuple(day for day in map(parse_day, texts) if day is not None)
    if len(days) < len(texts) or not names[-1].endswith(suffix):
        named = quoted("/".join(names))
        raise unknown(f"{named} is not a picture's name: write its day, as in 2021-02-13{suffix}")
    return days


def parse_tile(name: str) -> Tile:
    """Returns the tile of a name such as `-3_-440_216`. Raises RefusedError if no tile can have that name."""
    match = _TILE.fullmatch(name)
    if match is None:
        raise unknown(f"{quoted(name)} is not a tile's name: write zoom_x_y, such as 0_1_1 or -3_-440_216")
    zoom, x, y = map(int, match.groups())
    if zoom < _COARSEST or max(abs(x), abs(y)) > _FARTHEST:
        raise unknown(f"tile {name} is farther out than any map")
    try:
        return Tile(zoom, x, y)
    except ValueError as error:
        raise unknown(str(error)) from None


def ground_in(parameters: Parameters) -> Ground:
    """Returns the rectangle `ground=west,south,east,north`, in grid units. Raises RefusedError."""
    text = parameters.text("ground")
    edges = text.split(",")
    if len(edges) != 4 or not all(map(_DECIMAL.fullmatch, edges)):
        form = "west,south,east,north in grid units"
        raise wrong(f"ground={echoed(text)} cannot be: write four numbers, {form}")
    try:
        return Ground(*map(float, edges))
    except ValueError as error:
        raise wrong(f"ground={echoed(text)} cannot be: {error}") from None


def bounds_in_world(ground: Ground, layer: Layer, renderer: str | None) -> dict[str, object]:
    """Returns where a rectangle of the picture lies, in `blocks` or in `degrees`. Both are None if the
    layer's projection is not known."""
    blocks: list[int] | None = None
    on_earth: list[float] | None = None
    if layer.projection is not None and is_on_earth(layer, renderer):
        west, north, east, south = ground.places(layer.projection)
        on_earth = [round(value, 6) for value in (latitude_of(south), west, latitude_of(north), east)]
    elif layer.projection is not None:
        blocks = ground.blocks(layer.projection)
    return {"blocks": blocks, "degrees": on_earth}
