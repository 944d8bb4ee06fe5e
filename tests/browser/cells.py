"""How much two pictures of a tile differ, in cells of 8 x 8 pixels: computed with Pillow alone."""

from __future__ import annotations

import io
from typing import Final

from PIL import Image

from tests.browser.screen import as_shown

CELL: Final = 8
"""Pixels along an edge."""


def cell_differences(old: bytes, new: bytes) -> dict[tuple[int, int], float]:
    """By how much the average colour, or opacity, of each cell of 8 x 8 pixels differs."""
    averages = [cell_averages(body) for body in (old, new)]
    found = {}
    for cell, before in averages[0].items():
        steps = [abs(one - other) for one, other in zip(before, averages[1][cell], strict=True)]
        found[cell] = max(sum(steps[:3]) / 3, steps[3])
    return found


def cell_averages(body: bytes) -> dict[tuple[int, int], tuple[float, ...]]:
    """Red, green and blue as they are on black, and opacity, by column and row."""
    tile = Image.open(io.BytesIO(body)).convert("RGBA")
    shown = as_shown(body, (0, 0, 0))
    bands = [band.reduce(CELL) for band in (*shown.split(), tile.getchannel("A"))]
    cells = [(column, row) for row in range(bands[0].height) for column in range(bands[0].width)]
    return {cell: tuple(float(band.getpixel(cell)) for band in bands) for cell in cells}  # type: ignore[arg-type]
