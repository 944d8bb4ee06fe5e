"""The pyramid of the demo's map on each day: the drawing cut into tiles, and the coarser levels made of them.

Tiles have their grid names, so a tile has the same name on every day, however deep the map has become.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from PIL import Image

from tileharvest.demo.painter import Painter, box_of
from tileharvest.tiles.grid import Tile, first_level

if TYPE_CHECKING:
    from tileharvest.demo.world import World

TILE_SIDE: Final = 384
"""Pixels along an edge, as Overviewer's tiles have."""
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
def tiles_on(world: World, day: int) -> Tiles:
    """Returns all tiles that are published on a day.

    This costs about 1.5 s of CPU for day 1, and half of that for each later day.
    """
    before = tiles_on(world, day - 1) if day > 1 else {}
    tiles = _deepest(world, day, before)
    level: Tiles = tiles
    for _ in range(1, world.depth(day)):
        level = _coarser(level, before)
        tiles |= level
    return tiles


def whole_map(world: World, day: int) -> DrawnTile:
    """Returns the image above the first level, `base.png`. The grid has no name for it."""
    tiles = tiles_on(world, day)
    children = tuple(tiles.get(tile) for tile in first_level(world.depth(day)))
    image = _composed(children)
    return DrawnTile(_encoded(image), _newest(children), image)


def _deepest(world: World, day: int, before: Tiles) -> dict[Tile, DrawnTile]:
    drawing = Painter(world.landscape(day), TILE_SIDE).draw()
    drawn_again = _showing(world, day)
    tiles = {}
    for left in range(0, drawing.image.width, TILE_SIDE):
        for upper in range(0, drawing.image.height, TILE_SIDE):
            image = drawing.image.crop((left, upper, left + TILE_SIDE, upper + TILE_SIDE))
            if image.getbbox() is not None:
                tile = _tile_at(left + drawing.left, upper + drawing.upper)
                tiles[tile] = _drawn(image, day, before.get(tile), tile in drawn_again)
    return tiles


def _tile_at(left: int, upper: int) -> Tile:
    """Returns the tile with this upper left corner, in pixels from the middle of the map; y grows down."""
    return Tile(0, 2 * (left // TILE_SIDE) + 1, -2 * (upper // TILE_SIDE) - 1)


def _showing(world: World, day: int) -> frozenset[Tile]:
    """Returns the tiles that show a place that is drawn anew."""
    places = world.saved_again(day)
    if not places:
        return frozenset()
    left, upper, right, lower = box_of(places)
    return frozenset(
        _tile_at(x * TILE_SIDE, y * TILE_SIDE)
        for x in range(left // TILE_SIDE, -(-right // TILE_SIDE))
        for y in range(upper // TILE_SIDE, -(-lower // TILE_SIDE))
    )


def _drawn(image: Image.Image, day: int, before: DrawnTile | None, again: bool) -> DrawnTile:
    if before is None or _pixels(image) != _pixels(before.image):
        return DrawnTile(_encoded(image), day, image)
    return DrawnTile(before.png, day, before.image) if again else before


def _coarser(level: Tiles, before: Tiles) -> dict[Tile, DrawnTile]:
    """Returns the next level up. It has a tile wherever at least one of the tile's children is there."""
    tiles = {}
    for parent in sorted({tile.parent() for tile in level}):
        children = tuple(level.get(child) for child in parent.children())
        earlier = tuple(before.get(child) for child in parent.children())
        tiles[parent] = _parent(children, earlier, before.get(parent))
    return tiles


def _parent(
    children: tuple[DrawnTile | None, ...], before: tuple[DrawnTile | None, ...], known: DrawnTile | None
) -> DrawnTile:
    """Returns the tile above four children.

    It is made anew only where a child's bytes differ. Its day is always that of the newest child.
    """
    newest = _newest(children)
    if known is not None and [_bytes(child) for child in children] == [_bytes(child) for child in before]:
        return DrawnTile(known.png, newest, known.image)
    image = _composed(children)
    return DrawnTile(_encoded(image), newest, image)


def _composed(children: tuple[DrawnTile | None, ...]) -> Image.Image:
    """Returns one image of four tiles, in the order of the digits, each shrunk to half its size.

    The place of a missing child stays transparent.
    """
    half = TILE_SIDE // 2
    image = Image.new("RGBA", (TILE_SIDE, TILE_SIDE))
    for digit, child in enumerate(children):
        if child is not None:
            image.paste(child.image.reduce(2), (digit % 2 * half, digit // 2 * half))
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
