"""The demo's map in the form of Mapcrafter's side view, seen from the south and from above.

Of each block the top and the southern side are seen, both equally high.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from tileharvest.demo.forms import MapcrafterForm
from tileharvest.demo.painter import FLOOR, blank
from tileharvest.demo.pyramid import Cut, View
from tileharvest.demo.sprites import MATERIALS, below

if TYPE_CHECKING:
    from collections.abc import Collection

    from tileharvest.demo.painter import Box, Drawing
    from tileharvest.demo.sprites import Colour
    from tileharvest.demo.world import Landscape, Place

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


class SideViewForm(MapcrafterForm):
    """Mapcrafter's side view: tiles are half as wide again as they are high. A block is 12 pixels wide, and 8
    pixels of its top and of its side are seen."""

    cut = Cut(size=(576, 384), view=View(seen_from_the_south, side_box))
    view = "side"
    tile_width = 3
    tile_size: ClassVar[int | list[int]] = [576, 384]
    tiles_down = 4
    """The sea would be drawn 8 * (254 - 64) pixels below the middle: that is two blocks less."""


SIDE_VIEW: Final = SideViewForm()
