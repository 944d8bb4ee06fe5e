"""The painter of a landscape, seen from above and aside as in Overviewer: one image of the deepest level."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from PIL import Image

from tileharvest.demo.materials import MATERIALS, below
from tileharvest.demo.noise import chance
from tileharvest.demo.sprites import SHADES, SIDE, VARIANTS, sprite

if TYPE_CHECKING:
    from tileharvest.demo.terrain import Column, Place

Blocks = Mapping[tuple[int, int, int], str]
"""The name of each block's material, by x, height and z."""
Box: TypeAlias = tuple[int, int, int, int]
"""The left, upper, right and lower edge of a picture, in pixels from the middle of the map; y grows down."""

_ACROSS: Final = 12
_DOWN: Final = 6
_UP: Final = 12
"""Pixels by which the picture of a block moves for each step in x + z, in z - x and in height."""
_SUN_REACH: Final = 8
"""The blocks within which a thing can throw a shadow on a place. The sun stands at 45 degrees."""
FLOOR: Final = -5
_CRUMBS: Final = 3
"""The height at which the world is cut off at its edges, and how many blocks deeper it may crumble."""


@dataclass(frozen=True, slots=True)
class Landscape:
    """The ground and the blocks to draw. Every block must stand over a place that has ground.

    Raises ValueError for a block outside of the world.
    """

    ground: Mapping[Place, Column]
    blocks: Blocks

    def __post_init__(self) -> None:
        if lost := [place for place in self.blocks if (place[0], place[2]) not in self.ground]:
            raise ValueError(f"block {lost[0]} stands outside of the world")


@dataclass(frozen=True, slots=True)
class Drawing:
    """An image with its position on the map."""

    image: Image.Image
    left: int
    upper: int
    """Where the image's upper left corner lies, in pixels from the middle of the map. y grows down here."""


class Painter:
    """Draws one landscape, from the back to the front."""

    def __init__(self, landscape: Landscape) -> None:
        self._ground = landscape.ground
        self._name_of = landscape.blocks
        self._stacks = _stacks(landscape)
        self._skyline = {
            place: self._stacks[place][-1][0] if place in self._stacks else column.height
            for place, column in landscape.ground.items()
        }
        self._solid = {where for where, name in landscape.blocks.items() if MATERIALS[name].solid}
        self._drawing = blank(box_of(self._ground, max(self._skyline.values())))

    def draw(self) -> Drawing:
        for place in sorted(self._ground, key=lambda each: (each[1] - each[0], each[0])):
            self._paint_ground(place)
            for height, name in self._stacks.get(place, ()):
                if not self._hidden(place[0], height, place[1]):
                    self._paint(place, height, name, self._shade(place, height))
        return self._drawing

    def _paint_ground(self, place: Place) -> None:
        x, z = place
        column = self._ground[place]
        seen_down_to = min(self._ground_beside(place, (x - 1, z)), self._ground_beside(place, (x, z + 1)))
        for height in range(seen_down_to + 1, column.height):
            shade = min(SHADES - 1, max(0, -1 - height))
            self._paint(place, height, below(column.surface, column.height - height), shade)
        self._paint(place, column.height, column.surface, self._shade(place, column.height))

    def _ground_beside(self, place: Place, neighbour: Place) -> int:
        """Returns the height down to which one sees between a place and its neighbour in front."""
        column = self._ground.get(neighbour)
        return FLOOR - int(chance(1, *place) * _CRUMBS) if column is None else column.height

    def _hidden(self, x: int, height: int, z: int) -> bool:
        return {(x - 1, height, z), (x, height + 1, z), (x, height, z + 1)} <= self._solid

    def _shade(self, place: Place, height: int) -> int:
        """Returns the shade of a place: the shadow of taller things, and the dusk in corners."""
        x, z = place
        if (x, height + 1, z) in self._solid and height > self._ground[place].height:
            return self._wall_shade(place, height)
        top = self._skyline.get
        overhead = max(top((x - step, z - step), -9) - height - step for step in range(1, _SUN_REACH))
        shadow = 3 if overhead > 0 else 1 if overhead == 0 else 0
        walls = sum(
            top(beside, -9) > height
            for beside in ((x - 1, z), (x + 1, z), (x, z - 1), (x, z + 1), (x + 1, z - 1), (x + 1, z + 1))
        )
        covered = 2 if top(place, -9) > height + 1 else 0
        return min(SHADES - 1, shadow + (walls + 1) // 2 + covered)

    def _wall_shade(self, place: Place, height: int) -> int:
        """Returns the shade of a block with another one above it.

        Walls stand in the sun down to their foot; the crowns of trees are darker inside.
        """
        if self._name_of.get((place[0], height, place[1]), "").startswith("leaves"):
            return min(3, (self._skyline[place] - height + 1) // 2)
        return 1 if height == self._ground[place].height + 1 else 0

    def _paint(self, place: Place, height: int, name: str, shade: int) -> None:
        x, z = place
        picture = sprite(name, int(chance(height, x, z) * VARIANTS), shade)
        left = (x + z) * _ACROSS - self._drawing.left
        upper = (z - x) * _DOWN - height * _UP - self._drawing.upper
        self._drawing.image.paste(picture, (left, upper), picture)


def blank(box: Box) -> Drawing:
    """Returns an empty drawing with these edges."""
    left, upper, right, lower = box
    return Drawing(Image.new("RGBA", (right - left, lower - upper)), left, upper)


def box_of(places: Collection[Place], top: int = 0) -> Box:
    """Returns the edges of the picture of these places, up to the height `top`."""
    across, down = [x + z for x, z in places], [z - x for x, z in places]
    lowest = FLOOR - _CRUMBS
    return (
        min(across) * _ACROSS,
        min(down) * _DOWN - top * _UP,
        max(across) * _ACROSS + SIDE,
        max(down) * _DOWN + SIDE - lowest * _UP,
    )


def _stacks(landscape: Landscape) -> dict[Place, list[tuple[int, str]]]:
    """Returns the height and the material of the blocks over each place, from the lowest up."""
    stacks: dict[Place, list[tuple[int, str]]] = {}
    for (x, height, z), name in sorted(landscape.blocks.items()):
        stacks.setdefault((x, z), []).append((height, name))
    return stacks
