"""The pyramid of the demo's map on each day: a drawing cut into tiles, and the coarser levels made of them.

Tiles have their grid names, so a tile has the same name on every day, however deep the map has become.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL import Image

from tileharvest.demo.chart import chart_box, charted
from tileharvest.demo.painter import Painter, box_of
from tileharvest.tiles.grid import Tile, first_level

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tileharvest.demo.painter import Box, Drawing, Landscape
    from tileharvest.demo.terrain import Place
    from tileharvest.demo.world import World
    from tileharvest.tiles.layers import Size

TILE_SIDE: Final = 384
"""Pixels along an edge, as Overviewer's tiles have."""


class View(NamedTuple):
    """The direction from which a landscape is drawn."""

    drawing: Callable[[Landscape], Drawing]
    box: Callable[[Collection[Place]], Box]


ASLANT: Final = View(lambda landscape: Painter(landscape).draw(), box_of)
FROM_ABOVE: Final = View(charted, chart_box)


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
    view: View = ASLANT
    blanks: bool = False
    """Whether all deepest tiles below a parent are published, even those that show nothing."""
    right: int = 0
    down: int = 0
    """`right` and `down` are the pixels from the origin of columns and rows to the middle of the map:
    multiples of the size."""

    @property
    def is_square(self) -> bool:
        return self.zooms is None

    def depth(self, world: World, day: int) -> int:
        """Returns how many zooms there are. Raises ValueError for a day that the world does not have."""
        grown = world.depth(day)
        return self.zooms or grown


SQUARE: Final = Cut()
"""The cut of the renderers whose maps are squares around their middle."""

_COMPRESSION: Final = 4
"""zlib's level. The best level takes four times as long and makes the file a tenth smaller."""


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
def tiles_on(world: World, day: int, cut: Cut = SQUARE) -> Tiles:
    """Returns all tiles that are published on a day.

    This costs about 1.5 s of CPU for day 1, and half of that for each later day.
    """
    before = tiles_on(world, day - 1, cut) if day > 1 else {}
    tiles = _deepest(world, day, before, cut)
    level: Tiles = tiles
    for _ in range(1, cut.depth(world, day)):
        level = _coarser(level, before, cut)
        tiles |= level
    return tiles


def whole_map(world: World, day: int, cut: Cut) -> DrawnTile:
    """Returns the image above the first level, `base.png`. The grid has no name for it."""
    tiles = tiles_on(world, day, cut)
    children = tuple(tiles.get(tile) for tile in first_level(world.depth(day)))
    image = _composed(children, cut)
    return DrawnTile(_encoded(image), _newest(children), image)


def _deepest(world: World, day: int, before: Tiles, cut: Cut) -> dict[Tile, DrawnTile]:
    width, height = cut.size
    drawing = _drawing(world, day, cut.view)
    drawn_again = _showing(world.saved_again(day), cut)
    tiles = {}
    # What is cut out beyond the edges of the drawing is transparent.
    for left in range(-(drawing.left % width), drawing.image.width, width):
        for upper in range(-(drawing.upper % height), drawing.image.height, height):
            image = drawing.image.crop((left, upper, left + width, upper + height))
            if image.getbbox() is not None:
                tile = _tile_at(left + drawing.left, upper + drawing.upper, cut)
                tiles[tile] = _drawn(image, day, before.get(tile), tile in drawn_again)
    if cut.blanks:
        blank = Image.new("RGBA", cut.size)
        for parent in {tile.parent(cut.factor) for tile in tiles}:
            for tile in parent.children(cut.factor):
                tiles.setdefault(tile, _drawn(blank, day, before.get(tile), again=False))
    return tiles


@lru_cache(maxsize=3)
def _drawing(world: World, day: int, view: View) -> Drawing:
    """Returns the picture of a day, which several renderers cut into tiles of several sizes."""
    return view.drawing(world.landscape(day))


def _tile_at(left: int, upper: int, cut: Cut) -> Tile:
    """Returns the tile with this upper left corner, in pixels from the middle of the map; y grows down."""
    return Tile.at(0, (left + cut.right) // cut.size[0], (upper + cut.down) // cut.size[1])


def _showing(places: frozenset[Place], cut: Cut) -> frozenset[Tile]:
    """Returns the tiles that show one of these places."""
    if not places:
        return frozenset()
    width, height = cut.size
    left, upper, right, lower = cut.view.box(places)
    return frozenset(
        _tile_at(x * width, y * height, cut)
        for x in range(left // width, -(-right // width))
        for y in range(upper // height, -(-lower // height))
    )


def _drawn(image: Image.Image, day: int, before: DrawnTile | None, again: bool) -> DrawnTile:
    if before is None or _pixels(image) != _pixels(before.image):
        return DrawnTile(_encoded(image), day, image)
    return DrawnTile(before.png, day, before.image) if again else before


def _coarser(level: Tiles, before: Tiles, cut: Cut) -> dict[Tile, DrawnTile]:
    """Returns the next level up. It has a tile wherever at least one of the tile's children is there."""
    tiles = {}
    for parent in sorted({tile.parent(cut.factor) for tile in level}):
        below = parent.children(cut.factor)
        children = tuple(level.get(child) for child in below)
        earlier = tuple(before.get(child) for child in below)
        tiles[parent] = _parent(children, earlier, before.get(parent), cut)
    return tiles


def _parent(
    children: tuple[DrawnTile | None, ...],
    before: tuple[DrawnTile | None, ...],
    known: DrawnTile | None,
    cut: Cut,
) -> DrawnTile:
    """Returns the tile above its children.

    It is made anew only where a child's bytes differ. Its day is always that of the newest child.
    """
    newest = _newest(children)
    if known is not None and [_bytes(child) for child in children] == [_bytes(child) for child in before]:
        return DrawnTile(known.png, newest, known.image)
    image = _composed(children, cut)
    return DrawnTile(_encoded(image), newest, image)


def _composed(children: tuple[DrawnTile | None, ...], cut: Cut) -> Image.Image:
    """Returns one image of all children, row by row from the upper left, each shrunk to its part.

    The place of a missing child stays transparent.
    """
    factor, (width, height) = cut.factor, cut.size
    image = Image.new("RGBA", cut.size)
    for number, child in enumerate(children):
        if child is not None:
            corner = number % factor * width // factor, number // factor * height // factor
            image.paste(child.image.reduce(factor), corner)
    return image


def _newest(children: tuple[DrawnTile | None, ...]) -> int:
    return max(child.drawn for child in children if child is not None)


def _bytes(tile: DrawnTile | None) -> bytes | None:
    return None if tile is None else tile.png


def _pixels(image: Image.Image) -> bytes:
    return hashlib.blake2b(image.tobytes()).digest()


def _encoded(image: Image.Image) -> bytes:
    """Returns a PNG. The same pixels give the same bytes with the same builds of Pillow and zlib."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=_COMPRESSION)
    return file.getvalue()
