"""The painter of a landscape, seen from above and aside as in Overviewer, or from straight above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from PIL import Image

from tileharvest.demo.sprites import MATERIALS, SHADES, SIDE, VARIANTS, below, chance, sprite

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tileharvest.demo.world import Landscape, Place

Box: TypeAlias = tuple[int, int, int, int]
"""The left, upper, right and lower edge of a picture, in pixels from the middle of the map; y grows down."""

FLOOR: Final = -5
"""The height at which the world is cut off at its edges."""
SCALE: Final = 8
"""Pixels along a block's edge, seen from straight above. Renderers that look from there draw a block as one
pixel, so for them this island has blocks of 8 x 8 pixels; otherwise it would be a single tile."""

_ACROSS: Final = 12
_DOWN: Final = 6
_UP: Final = 12
"""Pixels by which the picture of a block moves for each step in x + z, in z - x and in height."""
_CRUMBS: Final = 3
"""How many blocks deeper than `FLOOR` the world's edges may crumble."""
_SUN_REACH: Final = 8
"""The blocks within which a thing can throw a shadow on a place. The sun stands at 45 degrees."""
_STEP: Final = 0.08
"""The share by which a block is brighter, from above, for each block that it is higher than the next one."""


Drawing: TypeAlias = "tuple[Image.Image, int, int]"
"""An image, and its left and upper edge on the map, in pixels from the middle. y grows down here."""


def painted_aslant(landscape: Landscape) -> Drawing:
    """Draws a landscape as Overviewer does, from the back to the front."""
    ground, blocks = landscape
    stacks: dict[Place, list[tuple[int, str]]] = {}
    for (x, height, z), name in sorted(blocks.items()):
        stacks.setdefault((x, z), []).append((height, name))
    skyline = {place: stacks[place][-1][0] if place in stacks else ground[place].height for place in ground}
    left, upper, right, lower = aslant_box(ground, max(skyline.values()))
    image = Image.new("RGBA", (right - left, lower - upper))

    def paint(place: Place, height: int, name: str, shade: int) -> None:
        x, z = place
        picture = sprite(name, int(chance(height, x, z) * VARIANTS), min(SHADES - 1, max(0, shade)))
        corner = (x + z) * _ACROSS - left, (z - x) * _DOWN - height * _UP - upper
        image.paste(picture, corner, picture)

    for place in sorted(ground, key=lambda each: (each[1] - each[0], each[0])):
        x, z = place
        column = ground[place]
        edge = FLOOR - int(chance(1, x, z) * _CRUMBS)
        in_front = [ground.get(beside) for beside in ((x - 1, z), (x, z + 1))]
        for height in range(min(one.height if one else edge for one in in_front) + 1, column.height):
            paint(place, height, below(column.surface, column.height - height), -1 - height)
        paint(place, column.height, column.surface, _shade(skyline, place, column.height))
        for height, name in stacks.get(place, ()):
            if not {(x - 1, height, z), (x, height + 1, z), (x, height, z + 1)} <= blocks.keys():
                is_under = (x, height + 1, z) in blocks
                inside = (skyline[place] - height + 1) // 2 if name.startswith("leaves") else 0
                paint(place, height, name, min(3, inside) if is_under else _shade(skyline, place, height))
    return image, left, upper


def _shade(skyline: Mapping[Place, int], place: Place, height: int) -> int:
    """Returns the shade of a place: the shadow of taller things, and the dusk in corners."""
    (x, z), top = place, skyline.get
    overhead = max(top((x - step, z - step), -9) - height - step for step in range(1, _SUN_REACH))
    beside = ((x - 1, z), (x + 1, z), (x, z - 1), (x, z + 1), (x + 1, z - 1), (x + 1, z + 1))
    walls = sum(top(one, -9) > height for one in beside)
    covered = 2 if top(place, -9) > height + 1 else 0
    return (3 if overhead > 0 else 1 if overhead == 0 else 0) + (walls + 1) // 2 + covered


def aslant_box(places: Collection[Place], top: int = 0) -> Box:
    """Returns the edges of the picture of these places, up to the height `top`."""
    across, down = [x + z for x, z in places], [z - x for x, z in places]
    left, upper = min(across) * _ACROSS, min(down) * _DOWN - top * _UP
    return left, upper, max(across) * _ACROSS + SIDE, max(down) * _DOWN + SIDE - (FLOOR - _CRUMBS) * _UP


def painted_from_above(landscape: Landscape) -> Drawing:
    """Draws a landscape seen from straight above, each of its blocks a square of several pixels."""
    ground, blocks = landscape
    tops = {place: (column.height, column.surface) for place, column in ground.items()}
    for (x, height, z), name in sorted(blocks.items(), key=lambda block: block[0][1]):
        tops[x, z] = height, name
    left, upper, right, lower = box_from_above(ground)
    small = Image.new("RGBA", ((right - left) // SCALE, (lower - upper) // SCALE))
    for (x, z), (height, name) in tops.items():
        rise = height - tops.get((x, z - 1), (height, name))[0]
        light = 1 + _STEP * max(-3, min(3, rise))
        red, green, blue = (min(255, round(part * light)) for part in MATERIALS[name].top)
        small.putpixel((x - left // SCALE, z - upper // SCALE), (red, green, blue, 255))
    return small.resize((right - left, lower - upper), Image.Resampling.NEAREST), left, upper


def box_from_above(places: Collection[Place]) -> Box:
    """Returns the edges of the picture of these places, seen from straight above."""
    across, down = [x for x, _ in places], [z for _, z in places]
    return min(across) * SCALE, min(down) * SCALE, (max(across) + 1) * SCALE, (max(down) + 1) * SCALE
