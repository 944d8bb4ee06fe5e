"""The chart of a landscape: seen from straight above, each of its blocks a square of several pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PIL import Image

from tileharvest.demo.materials import MATERIALS
from tileharvest.demo.painter import Drawing

if TYPE_CHECKING:
    from collections.abc import Collection

    from tileharvest.demo.materials import Colour
    from tileharvest.demo.painter import Landscape
    from tileharvest.demo.terrain import Place

SCALE: Final = 8
"""Pixels along a block's edge. Renderers that look from above draw a block as a pixel. For them the island is
so many times as wide and as long, or it would be one tile."""
_STEP: Final = 0.08
"""By which part a block is brighter for each block that it is higher than the one behind it."""


def charted(landscape: Landscape, unit: int) -> Drawing:
    """Returns the chart, with its edges at multiples of `unit` pixels from the middle of the map."""
    tops = {place: (column.height, column.surface) for place, column in landscape.ground.items()}
    for (x, height, z), name in sorted(landscape.blocks.items(), key=lambda block: block[0][1]):
        tops[x, z] = height, name
    left, upper, right, lower = chart_box(landscape.ground)
    small = Image.new("RGBA", ((right - left) // SCALE, (lower - upper) // SCALE))
    for (x, z), (height, name) in tops.items():
        behind = tops.get((x, z - 1), (height, name))[0]
        colour = _shaded(MATERIALS[name].top, height - behind)
        small.putpixel((x - left // SCALE, z - upper // SCALE), (*colour, 255))
    from_left, from_upper = left // unit * unit, upper // unit * unit
    width, height = -(-right // unit) * unit - from_left, -(-lower // unit) * unit - from_upper
    image = Image.new("RGBA", (width, height))
    image.paste(
        small.resize((right - left, lower - upper), Image.Resampling.NEAREST),
        (left - from_left, upper - from_upper),
    )
    return Drawing(image, from_left, from_upper)


def chart_box(places: Collection[Place]) -> tuple[int, int, int, int]:
    """Returns the left, upper, right and lower edge of the chart of these places, in pixels."""
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
