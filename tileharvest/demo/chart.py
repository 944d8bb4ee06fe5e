"""The chart of a landscape: seen from straight above, each of its blocks a square of several pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PIL import Image

from tileharvest.demo.materials import MATERIALS
from tileharvest.demo.painter import blank

if TYPE_CHECKING:
    from collections.abc import Collection

    from tileharvest.demo.materials import Colour
    from tileharvest.demo.painter import Box, Drawing, Landscape
    from tileharvest.demo.terrain import Place

SCALE: Final = 8
"""Pixels along a block's edge. Renderers that look from above draw a block as one pixel, so for them this
island has blocks of 8 x 8 pixels; otherwise it would be a single tile."""
_STEP: Final = 0.08
"""The share by which a block is brighter for each block that it is higher than the block behind it."""


def charted(landscape: Landscape) -> Drawing:
    """Returns the chart of a landscape."""
    tops = {place: (column.height, column.surface) for place, column in landscape.ground.items()}
    for (x, height, z), name in sorted(landscape.blocks.items(), key=lambda block: block[0][1]):
        tops[x, z] = height, name
    left, upper, right, lower = box = chart_box(landscape.ground)
    small = Image.new("RGBA", ((right - left) // SCALE, (lower - upper) // SCALE))
    for (x, z), (height, name) in tops.items():
        behind = tops.get((x, z - 1), (height, name))[0]
        colour = _shaded(MATERIALS[name].top, height - behind)
        small.putpixel((x - left // SCALE, z - upper // SCALE), (*colour, 255))
    drawing = blank(box)
    drawing.image.paste(small.resize(drawing.image.size, Image.Resampling.NEAREST))
    return drawing


def chart_box(places: Collection[Place]) -> Box:
    """Returns the edges of the chart of these places."""
    across, down = [x for x, _ in places], [z for _, z in places]
    return (
        min(across) * SCALE,
        min(down) * SCALE,
        (max(across) + 1) * SCALE,
        (max(down) + 1) * SCALE,
    )


def _shaded(colour: Colour, rise: int) -> Colour:
    light = 1 + _STEP * max(-3, min(3, rise))
    red, green, blue = (min(255, round(part * light)) for part in colour)
    return red, green, blue
