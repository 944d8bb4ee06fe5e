"""The pyramid of the demo's map on each day: a drawing cut into tiles, and the coarser levels made of them.

Tiles have their grid names, so a tile has the same name on every day, however deep the map has become.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from PIL import Image

from tileharvest.demo.painter import aslant_box, box_from_above, painted_aslant, painted_from_above
from tileharvest.demo.world import DEPTHS, SAVED_AGAIN, landscape
from tileharvest.tiles.grid import Tile, first_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileharvest.demo.painter import Box, Drawing
    from tileharvest.tiles.layers import Size

TILE_SIDE: Final = 384
"""Pixels along an edge, as Overviewer's tiles have."""
_COMPRESSION: Final = 4
"""zlib's level. The best level takes four times as long and makes the file a tenth smaller."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a drawing is cut into tiles."""

    size: Size = (TILE_SIDE, TILE_SIDE)
    """The size of a tile in pixels."""
    factor: int = 2
    """How many tiles of the next deeper zoom lie along a tile's edge."""
    zooms: int | None = None
    """The number of zooms. None: the map is a square around its middle, which becomes deeper as the world
    grows."""
    is_from_above: bool = False
    """Whether the landscape is drawn from straight above, or from above and aside."""
    right: int = 0
    down: int = 0
    """`right` and `down` are the pixels from the origin of columns and rows to the middle of the map:
    multiples of the size."""

    def depth(self, day: int) -> int:
        """Returns how many zooms there are on a day."""
        return self.zooms or DEPTHS[day]

    def around(self, box: Box) -> list[tuple[Tile, tuple[int, int]]]:
        """Returns the tiles that show part of a box, each with its left and its upper edge."""
        (left, upper, right, lower), (width, height) = box, self.size
        return [
            (Tile.at(0, (x + self.right) // width, (y + self.down) // height), (x, y))
            for x in range(left // width * width, right, width)
            for y in range(upper // height * height, lower, height)
        ]


@dataclass(frozen=True, slots=True)
class DrawnTile:
    """A tile as it is published."""

    png: bytes = field(repr=False)
    drawn: int
    """The day on which the tile was last drawn. A tile made of its children has their newest day."""
    image: Image.Image = field(repr=False, compare=False)
    """The picture that the bytes hold. Nobody may change it."""


Tiles = Mapping[Tile, DrawnTile]


@lru_cache(maxsize=6)
def tiles_on(day: int, cut: Cut) -> Tiles:
    """Returns all tiles that are published on a day.

    Raises ValueError for a day that the world does not have. It costs about 1.5 s of CPU for day 1, and half
    of that for each later day.
    """
    before = tiles_on(day - 1, cut) if day > 1 else {}
    tiles = _deepest(day, before, cut)
    level: Tiles = tiles
    for _ in range(1, cut.depth(day)):
        level = _coarser(level, before, cut)
        tiles |= level
    return tiles


def changes(day: int, cut: Cut) -> dict[str, int]:
    """Returns how many tiles a harvest finds new, changed, gone and the same, after one of the day before."""
    before, now = tiles_on(day - 1, cut) if day > 1 else {}, tiles_on(day, cut)
    both = [now[tile].png == before[tile].png for tile in now.keys() & before.keys()]
    return {
        "new": len(now.keys() - before.keys()),
        "changed": both.count(False),
        "gone": len(before.keys() - now.keys()),
        "same": both.count(True),
    }


def whole_map(day: int, cut: Cut) -> DrawnTile:
    """Returns the image above the first level, `base.png`. The grid has no name for it."""
    tiles = tiles_on(day, cut)
    return _composed([tiles.get(tile) for tile in first_level(DEPTHS[day])], cut)


@lru_cache(maxsize=3)
def _drawing(day: int, *, is_from_above: bool) -> Drawing:
    """Returns the picture of a day, which several renderers cut into tiles of several sizes."""
    return painted_from_above(landscape(day)) if is_from_above else painted_aslant(landscape(day))


def _deepest(day: int, before: Tiles, cut: Cut) -> dict[Tile, DrawnTile]:
    image, left, upper = _drawing(day, is_from_above=cut.is_from_above)
    saved_again = SAVED_AGAIN.get(day)
    box_of = box_from_above if cut.is_from_above else aslant_box
    drawn_again = {tile for tile, _ in cut.around(box_of(saved_again))} if saved_again else set()
    tiles = {}
    for tile, (x, y) in cut.around((left, upper, left + image.width, upper + image.height)):
        # What is cut out beyond the edges of the drawing is transparent.
        part = image.crop((x - left, y - upper, x - left + cut.size[0], y - upper + cut.size[1]))
        if part.getbbox() is not None:
            tiles[tile] = _drawn(part, day, before.get(tile), again=tile in drawn_again)
    return tiles


def _drawn(image: Image.Image, day: int, before: DrawnTile | None, *, again: bool) -> DrawnTile:
    if before is None or image.tobytes() != before.image.tobytes():
        return DrawnTile(_encoded(image), day, image)
    return DrawnTile(before.png, day, before.image) if again else before


def _coarser(level: Tiles, before: Tiles, cut: Cut) -> dict[Tile, DrawnTile]:
    """Returns the next level up. It has a tile wherever at least one of the tile's children is there."""
    tiles = {}
    for parent in {tile.parent(cut.factor) for tile in level}:
        composed = _composed([level.get(child) for child in parent.children(cut.factor)], cut)
        known = before.get(parent)
        # The same pixels keep their bytes.
        same = known is not None and known.image.tobytes() == composed.image.tobytes()
        tiles[parent] = DrawnTile(known.png, composed.drawn, known.image) if known and same else composed
    return tiles


def _composed(children: Sequence[DrawnTile | None], cut: Cut) -> DrawnTile:
    """Returns the tile above its children, which come row by row from the upper left.

    The place of a missing child stays transparent.
    """
    factor, (width, height) = cut.factor, cut.size
    image = Image.new("RGBA", cut.size)
    for number, child in enumerate(children):
        if child is not None:
            corner = number % factor * width // factor, number // factor * height // factor
            image.paste(child.image.reduce(factor), corner)
    return DrawnTile(_encoded(image), max(child.drawn for child in children if child), image)


def _encoded(image: Image.Image) -> bytes:
    """Returns a PNG. The same pixels give the same bytes with the same builds of Pillow and zlib."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=_COMPRESSION)
    return file.getvalue()
