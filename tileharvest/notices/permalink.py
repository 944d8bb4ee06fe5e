"""Permalinks: addresses in the viewer, as its page has them (`viewer/page/permalink.js`). Pure."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

if TYPE_CHECKING:
    from datetime import date

_DEPRESSION: Final = 256 - 64
"""Blocks between two heights: the one from which Overviewer counts downwards, and the one at which it takes a
point of the picture to lie."""


def permalink(viewer: str, map_name: str, layer: str, day: date, x: int, z: int, zoom: int) -> str:
    """Returns the address that shows this place on this day. x and z are blocks, `zoom` is the screen's."""
    look = {"map": map_name, "layer": layer, "day": day.isoformat(), "x": x, "z": z, "zoom": zoom}
    return f"{viewer.split('#', 1)[0]}#{urlencode(look)}"


def block_at(x: float, y: float, tile_size: int, north_direction: int) -> tuple[int, int]:
    """Returns x and z of the block at a point of the grid, as the page's `blockAt` (`projection.js`) does.

    `tile_size` is in pixels, `north_direction` in quarter turns as the layer has them.
    """
    # In the page's order, so that rounding is the same on the edge of a block.
    east = floor(tile_size * (x + 1 + 2 * y) / 48 + _DEPRESSION)
    south = floor(tile_size * (x + 1 - 2 * y) / 48 - _DEPRESSION)
    match north_direction:
        case 1:
            return south, 15 - east
        case 2:
            return 15 - east, 15 - south
        case 3:
            return 15 - south, east
        case _:
            return east, south
