"""Where Minecraft-Overviewer's own page draws a place of the world, and the other way round.

The arithmetic of `fromWorldToLatLng` and `fromLatLngToWorld` in its `util.js`, for layers that have north in
the upper left: a place is a fraction of the whole map, counted from the left and from the top edge.
"""

from __future__ import annotations

import math
from typing import Final

TILE_SIZE: Final = 384


def drawn_at(x: float, y: float, z: float, zoom_levels: int) -> tuple[float, float]:
    """From the left and from the top, where a place of the world is drawn."""
    per_pixel = 1.0 / (TILE_SIZE * 2**zoom_levels)
    left = 0.5 - 1.0 / 2 ** (zoom_levels + 1) + 12 * x * per_pixel + 12 * z * per_pixel + 12 * per_pixel
    top = 0.5 - 6 * x * per_pixel + 6 * z * per_pixel + 12 * (256 - y) * per_pixel
    return left, top


def block_at(left: float, top: float, zoom_levels: int) -> tuple[int, int]:
    """The x and z that Overviewer's page shows for a point, which it takes to lie at height 64."""
    per_pixel = 1.0 / (TILE_SIZE * 2**zoom_levels)
    left -= 0.5 - 1.0 / 2 ** (zoom_levels + 1)
    top -= 0.5
    x = math.floor((left - 2 * top) / (24 * per_pixel)) + 256 - 64
    z = math.floor((left + 2 * top) / (24 * per_pixel)) - (256 - 64)
    return x, z


def place_at(left: float, top: float, zoom_levels: int) -> tuple[float, float]:
    """The x and z, to fractions of a block, that `drawn_at` draws at a point for height 64."""
    origin_left, origin_top = drawn_at(0, 64, 0, zoom_levels)
    per_pixel = 1.0 / (TILE_SIZE * 2**zoom_levels)
    together, apart = (left - origin_left) / (12 * per_pixel), (origin_top - top) / (6 * per_pixel)
    return (together + apart) / 2, (together - apart) / 2
