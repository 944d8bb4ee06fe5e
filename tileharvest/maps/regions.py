"""Regions of plain tiles as people say them: in pixels, in degrees, or by a share link. Pure."""

from __future__ import annotations

from math import asinh, ceil, floor, log2, nan, pi, radians, tan
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from tileharvest.maps.template import DEEPEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NORTHMOST: Final = 85.05112877980659
"""The latitude, in degrees north, at which the square world of web maps ends."""
_ROUNDING: Final = 1e-6
"""The part of a tile by which bounds that end at its edge may miss the edge, because they were rounded."""


class Canvas(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A shared picture of one zoom. Raises ValueError for one without tiles."""

    tiles: tuple[int, int]
    """Columns and rows. Both are counted from 0, at the upper left."""
    tile: int | None = None
    """The pixels along a tile's edge. None means that the first image shows it."""
    earth: bool = False
    """Whether the canvas is the square world of web maps, so that places have latitude and longitude."""

    def __post_init__(self) -> None:
        if min(self.tiles) < 1 or max(self.tiles) > 1 << DEEPEST or not (self.tile is None or self.tile > 0):
            raise ValueError("a canvas has 1 to 16,777,216 tiles each way, of at least one pixel")
        if self.earth and self.tiles != (1 << self.zoom, 1 << self.zoom):
            raise ValueError("the world of web maps has as many columns as rows: 1, 2, 4, 8 and so on")

    @property
    def zoom(self) -> int:
        """The zoom of web maps that has as many tiles, or more."""
        return ceil(log2(max(self.tiles)))


_FORMS: Final = (
    "a region is {pixels = [x, y, width, height]}, {bounds = [west, south, east, north]} in degrees, or"
    ' {link = "https://...?lat=...&lng=...", size = [columns, rows]}'
)
KNOWN: Final = {"backend.wplace.live": Canvas(tiles=(2048, 2048), tile=1000, earth=True)}
"""Canvases by the host of their tiles."""


def canvas_of(entry: Mapping[str, Any]) -> Canvas | None:
    """Returns the canvas of an entry of maps.toml, or None. Raises `msgspec.ValidationError`."""
    if "canvas" in entry:
        return msgspec.convert(entry["canvas"], Canvas)
    return KNOWN.get(urlsplit(str(entry.get("url"))).hostname or "")


def with_tiles(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry of maps.toml in which every zone is a rectangle of tiles.

    Raises ValueError, and `msgspec.ValidationError`, for a region that cannot be.
    """
    zones = entry.get("zones")
    if not isinstance(zones, list) or not any(_is_region(one) for one in zones):
        return dict(entry)
    canvas = canvas_of(entry)
    return {**entry, "zones": [_zone(one, entry, canvas) if _is_region(one) else one for one in zones]}


def _is_region(zone: Any) -> bool:
    return isinstance(zone, dict) and not zone.keys().isdisjoint(("pixels", "bounds", "link"))


def _zone(region: Mapping[str, Any], entry: Mapping[str, Any], canvas: Canvas | None) -> dict[str, Any]:
    match dict(region):
        case {"pixels": [int(x), int(y), int(width), int(height)], **rest} if not rest and width > 0 < height:
            if canvas is None or canvas.tile is None:
                raise ValueError("pixels are of use with canvas = {tiles = [...], tile = ...} only")
            edges = (x, x + width - 1, y, y + height - 1)
            left, right, top, bottom = (edge // canvas.tile for edge in edges)
        case {"bounds": [_, _, _, _] as bounds, **rest} if not rest and _are_degrees(bounds):
            if bounds[1] >= NORTHMOST or bounds[3] <= -NORTHMOST:
                raise ValueError(
                    "a region lies outside of the map, which ends at 85.05 degrees north and south"
                )
            left, right, top, bottom = bounds_at(bounds, _zoom(entry, canvas))
        case {"link": str(link), "size": [int(wide), int(high)], **rest} if not rest and wide > 0 < high:
            left, _, top, _ = bounds_at(_point(link), _zoom(entry, canvas))
            left, top = left - wide // 2, top - high // 2
            right, bottom = left + wide - 1, top + high - 1
        case _:
            raise ValueError(_FORMS)
    if canvas is not None and not (right >= 0 <= bottom and left < canvas.tiles[0] and top < canvas.tiles[1]):
        across, down = canvas.tiles
        raise ValueError(f"a region lies outside of the canvas, which has {across:,} x {down:,} tiles")
    center = [left + right + 1, -(top + bottom + 1)]
    return {"center": center, "width": right - left + 1, "height": bottom - top + 1, "zoom": 0}


def _zoom(entry: Mapping[str, Any], canvas: Canvas | None) -> int:
    """Returns the site's deepest zoom, of which degrees are counted in tiles. Raises ValueError."""
    zooms = entry.get("site_zooms")
    if canvas is not None and canvas.earth:
        return canvas.zoom
    match zooms:
        case [_, int(deepest)] if canvas is None and 0 <= deepest <= DEEPEST:
            return deepest
    raise ValueError("degrees need site_zooms, or a canvas with earth = true")


def _point(link: str) -> tuple[float, float, float, float]:
    """Returns the place of a share link as bounds. Raises ValueError for a link without a place."""
    parts = urlsplit(link)
    said = parse_qs(parts.query) | parse_qs(parts.fragment.partition("?")[2])
    try:
        north, east = (float(said[name][0]) for name in ("lat", "lng"))
    except (KeyError, ValueError):
        north = east = nan
    if not (-NORTHMOST <= north <= NORTHMOST and -180 <= east <= 180):
        raise ValueError(f"'{link}' has no lat= and lng= of a place on the map, as share links have")
    return east, north, east, north


def _are_degrees(bounds: list[Any]) -> bool:
    """Returns whether these are west, south, east and north of a rectangle."""
    if not all(isinstance(one, (int, float)) for one in bounds):
        return False
    west, south, east, north = bounds
    return bool(-180 <= west < east <= 180 and -90 <= south < north <= 90)


def bounds_at(bounds: Sequence[float], zoom: int) -> tuple[int, int, int, int]:
    """Returns the first and the last column, and the first and the last row, of bounds in degrees.

    `bounds` are west, south, east and north, and `zoom` is the site's own number. A tile of which only the
    edge lies within the bounds is left out.
    """
    west, south, east, north = bounds
    side = 1 << zoom
    left, right = ((degrees + 180) / 360 * side for degrees in (west, east))
    top, bottom = (
        (1 - asinh(tan(radians(max(-NORTHMOST, min(NORTHMOST, degrees))))) / pi) / 2 * side
        for degrees in (north, south)
    )
    (x_from, x_to), (y_from, y_to) = (_between(left, right, side), _between(top, bottom, side))
    return x_from, x_to, y_from, y_to


def _between(first: float, last: float, side: int) -> tuple[int, int]:
    """Returns the numbers of the first and the last tile between two points of a row of `side` tiles. There
    is always at least one tile."""
    begin = min(side - 1, max(0, floor(first + _ROUNDING)))
    return begin, min(side - 1, max(begin, ceil(last - _ROUNDING) - 1))
