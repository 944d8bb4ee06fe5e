"""A landscape seen from the south and from above, as in Mapcrafter's side view.

Of each block the top and the southern side are seen, both equally high.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileharvest.demo.materials import MATERIALS, below
from tileharvest.demo.painter import FLOOR, blank

if TYPE_CHECKING:
    from collections.abc import Collection

    from tileharvest.demo.materials import Colour
    from tileharvest.demo.painter import Box, Drawing, Landscape
    from tileharvest.demo.terrain import Place

ACROSS: Final = 12
"""Pixels of a block's width."""
DOWN: Final = 8
"""Pixels of its top, and of its side."""
_RAISED: Final = 2
"""Blocks by which the sea is drawn above the middle of the map at z = 0. Mapcrafter counts downwards from 254
blocks above the world's floor, and moves its maps by whole tiles only."""


def seen_from_the_south(landscape: Landscape) -> Drawing:
    things = {(x, column.height, z): column.surface for (x, z), column in landscape.ground.items()}
    things |= landscape.blocks
    drawing = blank(side_box(landscape.ground, max(height for _, height, _ in things)))

    def fill(x: int, z: int, height: int, colour: Colour) -> None:
        left, upper = x * ACROSS - drawing.left, (z - height - _RAISED) * DOWN - drawing.upper
        drawing.image.paste((*colour, 255), (left, upper, left + ACROSS, upper + DOWN))

    # What stands farther south hides what is behind it, and what stands higher what is below.
    for (x, height, z), name in sorted(things.items(), key=lambda thing: (thing[0][2], thing[0][1])):
        fill(x, z, height, MATERIALS[name].top)
        fill(x, z + 1, height, MATERIALS[name].side)
        if landscape.ground[x, z].height == height:
            for depth in range(1, height - FLOOR):
                fill(x, z + 1, height - depth, MATERIALS[below(name, depth)].side)
    return drawing


def side_box(places: Collection[Place], top: int = 0) -> Box:
    """Returns the edges of the picture of these places, up to the height `top`."""
    across, down = [x for x, _ in places], [z for _, z in places]
    return (
        min(across) * ACROSS,
        (min(down) - top - _RAISED) * DOWN,
        (max(across) + 1) * ACROSS,
        (max(down) + 1 - FLOOR - _RAISED) * DOWN,
    )
