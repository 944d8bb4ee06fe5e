"""The block: 8 x 8 neighbouring tiles of one zoom of a layer. The unit of work, from the walk to the history.
Pure."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import msgspec

from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SIDE: Final = 8
"""Tiles along an edge of a block."""
WHOLE: Final = (1 << SIDE * SIDE) - 1
"""The mask of all tiles of a block."""
_SHIFT: Final = 3
"""A tile's column, shifted to the right by so many bits, is the column of its block; rows likewise."""
_LOW: Final = SIDE - 1
"""The bits of a tile's column that are its column within the block; rows likewise."""
_LEFT: Final = 0x01_01_01_01_01_01_01_01
"""The mask of a block's left column."""


class Block(msgspec.Struct, frozen=True, order=True, gc=False):
    """Some tiles of one block of a layer. Raises ValueError for a zoom or a mask that no block has.

    The tile of column c and row r lies in the block of column c >> 3 and row r >> 3, and its bit of the mask
    is (r & 7) * 8 + (c & 7). Columns are counted to the right and rows down, as `Tile.column` and `Tile.row`
    have them.
    """

    layer: str
    zoom: int
    column: int
    row: int
    mask: int = WHOLE
    """The bits of the tiles that are meant. There may be none."""

    def __post_init__(self) -> None:
        if self.zoom > 0:
            raise ValueError(f"zoom {self.zoom} is deeper than 0, the deepest level")
        if not 0 <= self.mask <= WHOLE:
            raise ValueError(f"mask {self.mask} names no tiles of a block")

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __str__(self) -> str:
        return f"{self.layer}:{self.zoom} block {self.column},{self.row} ({len(self)} of 64)"

    @property
    def place(self) -> tuple[str, int, int, int]:
        """The block's name without its mask: layer, zoom, column and row."""
        return self.layer, self.zoom, self.column, self.row

    def tile(self, bit: int) -> Tile:
        """Returns the tile of a bit, whether or not the mask has it."""
        return Tile.at(
            self.zoom, (self.column << _SHIFT) + (bit & _LOW), (self.row << _SHIFT) + (bit >> _SHIFT)
        )

    def tiles(self) -> Iterator[tuple[int, Tile]]:
        """Yields the bit and the tile of each bit of the mask, row by row from the upper left."""
        return ((bit, self.tile(bit)) for bit in bits_of(self.mask))

    def only(self, mask: int) -> Block | None:
        """Returns the block with those tiles that the given mask has too, or None if there are none."""
        mask &= self.mask
        if mask == self.mask:
            return self if mask else None
        return msgspec.structs.replace(self, mask=mask) if mask else None

    def below(self, factor: int = 2) -> list[Block]:
        """Returns the blocks right below, with all tiles below those of the mask. `factor` is that of the
        layer's pyramid. Raises ValueError at the deepest zoom."""
        if self.zoom == 0:
            raise ValueError(f"{self} is at the deepest level: nothing lies below")
        # Below a block lie factor x factor blocks.
        masks, run, row_bits = [0] * factor**2, (1 << factor) - 1, (1 << SIDE) - 1
        for row in range(SIDE):
            # The row as it is one level deeper, as wide as the blocks below.
            wide = 0
            for bit in bits_of(self.mask >> row * SIDE & row_bits):
                wide |= run << bit * factor
            for deeper in range(row * factor, (row + 1) * factor) if wide else ():
                down, shift = deeper // SIDE, deeper % SIDE * SIDE
                for right in range(factor):
                    masks[right * factor + down] |= (wide >> right * SIDE & row_bits) << shift
        return [
            Block(self.layer, self.zoom + 1, self.column * factor + right, self.row * factor + down, mask)
            for (right, down), mask in zip(product(range(factor), repeat=2), masks, strict=True)
            if mask
        ]


def bit_of(tile: Tile) -> int:
    """Returns the tile's bit in the mask of its block."""
    return (tile.row & _LOW) << _SHIFT | tile.column & _LOW


def place_of(layer: str, tile: Tile) -> tuple[str, int, int, int]:
    """Returns the name of the tile's block, as `Block.place` does."""
    return layer, tile.zoom, tile.column >> _SHIFT, tile.row >> _SHIFT


def bits_of(mask: int) -> Iterator[int]:
    """Yields the numbers of the bits that are set, the lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def blocks_of(layer: str, tiles: Iterable[Tile]) -> list[Block]:
    """Returns the blocks that have these tiles and no others, in the order of their first tiles."""
    masks: dict[tuple[str, int, int, int], int] = {}
    for tile in tiles:
        place = place_of(layer, tile)
        masks[place] = masks.get(place, 0) | 1 << bit_of(tile)
    return [Block(*place, mask) for place, mask in masks.items()]


def joined(blocks: Iterable[Block]) -> list[Block]:
    """Returns the blocks that have the tiles of these blocks, each once, although some may overlap."""
    masks: dict[tuple[str, int, int, int], int] = {}
    for block in blocks:
        masks[block.place] = masks.get(block.place, 0) | block.mask
    return [Block(*place, mask) for place, mask in masks.items()]


def blocks_in(layer: str, areas: Sequence[TileRange]) -> Iterator[Block]:
    """Yields the blocks that have the tiles of these areas and no others, each block once: area by area, and
    row by row from the upper left. The areas are of one zoom, and may overlap."""
    for number, area in enumerate(areas):
        first, last = area.corners
        for row in range(first.row >> _SHIFT, (last.row >> _SHIFT) + 1):
            for column in range(first.column >> _SHIFT, (last.column >> _SHIFT) + 1):
                if not mask_within(areas[:number], column, row):
                    yield Block(layer, area.zoom, column, row, mask_within(areas[number:], column, row))


def mask_within(areas: Iterable[TileRange], column: int, row: int) -> int:
    """Returns the mask of those places of the block of this column and row that lie in these areas. All are
    of one zoom."""
    mask, left, top = 0, column * SIDE, row * SIDE
    for area in areas:
        bits = 1 - area.zoom
        x_from, x_to = max(0, (area.x_from >> bits) - left), min(SIDE, (area.x_to >> bits) + 1 - left)
        y_from, y_to = max(0, ~(area.y_to >> bits) - top), min(SIDE, -(area.y_from >> bits) - top)
        if x_from < x_to and y_from < y_to:
            run, rows = (1 << x_to) - (1 << x_from), (1 << y_to * SIDE) - (1 << y_from * SIDE)
            mask |= run * _LEFT & rows
    return mask


def mask_of(bits: Iterable[int] | Mapping[int, object]) -> int:
    """Returns the mask in which these bits are set."""
    mask = 0
    for bit in bits:
        mask |= 1 << bit
    return mask
