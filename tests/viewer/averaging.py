"""Pictures put together in plain Python, pixel by pixel: what composed ones are compared with."""

import io
from collections.abc import Mapping
from typing import TypeAlias

from PIL import Image as Pillow

from tileharvest.tiles.grid import Tile

Pixels: TypeAlias = "list[list[tuple[float, float, float, float]]]"
"""Rows of red, green and blue, each times the opacity, and the opacity; all from 0 to 255."""


def pixels_of(body: bytes) -> Pixels:
    image = Pillow.open(io.BytesIO(body)).convert("RGBA")
    rows = [[image.getpixel((x, y)) for x in range(image.width)] for y in range(image.height)]
    return [[(r * a / 255, g * a / 255, b * a / 255, a) for r, g, b, a in row] for row in rows]


def averaged(tile: Tile, images: Mapping[Tile, bytes], size: int) -> Pixels:
    """The tile from the images of a deeper level; each of its pixels is the mean of all that lie in it."""
    if tile in images:
        return pixels_of(images[tile])
    clear = [[(0.0, 0.0, 0.0, 0.0)] * size] * size
    if tile.zoom == 0:
        return clear
    upper_left, upper_right, lower_left, lower_right = (
        averaged(child, images, size) for child in tile.children()
    )
    rows = [left + right for left, right in zip(upper_left, upper_right, strict=True)]
    rows += [left + right for left, right in zip(lower_left, lower_right, strict=True)]
    return [[_mean(rows, 2 * x, 2 * y) for x in range(size)] for y in range(size)]


def farthest_apart(one: Pixels, other: Pixels) -> float:
    """The largest difference of any channel of any pixel. Raises ValueError for different sizes."""
    return max(
        abs(a - b)
        for row, other_row in zip(one, other, strict=True)
        for pixel, other_pixel in zip(row, other_row, strict=True)
        for a, b in zip(pixel, other_pixel, strict=True)
    )


def _mean(rows: Pixels, x: int, y: int) -> tuple[float, float, float, float]:
    four = (rows[y][x], rows[y][x + 1], rows[y + 1][x], rows[y + 1][x + 1])
    red, green, blue, opacity = (sum(channel) / 4 for channel in zip(*four, strict=True))
    return red, green, blue, opacity
