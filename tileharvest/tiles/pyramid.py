"""The form of a layer: its zooms, which tiles it can have, and how those of two zooms nest. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Self

from tileharvest.tiles.block import SIDE, bits_of
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.tiles.block import Block

MOST_DEPTH: Final = 32
"""Levels of a layer. A square of this depth is 2^32 tiles wide, so that all numbers of tiles stay far below
64 bits."""
MOST_FACTOR: Final = 8
"""The most tiles of the next deeper zoom along a tile's edge: those of a block. BlueMap writes 5."""
MOST_LISTED: Final = 500_000
"""The most tiles that a site may list one by one. They take some 120 MB of memory."""
MOST_SEEDS: Final = 1000
"""The most tiles from which an endless layer is searched. Each costs a request."""
EVERYWHERE: Final = TileRange.whole(24, 0)
"""The area of a layer if nobody says how far it reaches: 2^24 grid units each way. With tiles of 128 pixels
and 16 pixels a block that is 67 million blocks, and a Minecraft world ends after 30 million. Names of tiles
within it fit into the 32 bits that a database on a server has for them."""


@dataclass(init=False)
class ListedTiles:
    """The tiles of a layer that exist, as its site lists them."""

    _places: dict[int, set[tuple[int, int]]]
    """Column and row of the listed tiles, by zoom."""
    _deepest: int
    _deeper: int

    def __init__(self, tiles: Iterable[Tile] = (), deeper: int = 0) -> None:
        """All tiles up to `deeper` levels below a tile of the deepest listed zoom exist, too. Raises
        ValueError for more than `MOST_LISTED` tiles."""
        self._places = {}
        for number, tile in enumerate(tiles):
            if number == MOST_LISTED:
                raise ValueError(f"it lists more than {MOST_LISTED:,} tiles, which is more than can be read")
            self._places.setdefault(tile.zoom, set()).add((tile.column, tile.row))
        self._deepest = max(self._places, default=0)
        self._deeper = deeper

    def mask_of(self, block: Block) -> int:
        """Returns the tiles of a block that exist."""
        below, places = self._listed_above(block.zoom)
        left, top, mask = block.column * SIDE, block.row * SIDE, 0
        for bit in bits_of(block.mask):
            if (left + bit % SIDE >> below, top + bit // SIDE >> below) in places:
                mask |= 1 << bit
        return mask

    def at(self, zoom: int) -> list[Tile]:
        """Returns all existing tiles of a zoom, in the same order each time."""
        below, places = self._listed_above(zoom)
        across = range(1 << below)
        corners = ((column << below, row << below) for column, row in sorted(places))
        return [Tile.at(zoom, left + i, top + j) for left, top in corners for j in across for i in across]

    def _listed_above(self, zoom: int) -> tuple[int, set[tuple[int, int]]]:
        """Returns how many levels a zoom lies below the listed one that decides, and that one's tiles."""
        below = max(0, zoom - self._deepest)
        return below, self._places.get(zoom - below, set()) if below <= self._deeper else set()


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The tiles that a layer can have. Raises ValueError for values that no layer can have.

    With nothing but a depth, a pyramid is a square around the origin, and each level divides every tile into
    four. Overviewer's and Mapcrafter's maps have this form.
    """

    depth: int
    """The number of zooms, at least 1. The deepest one is zoom 0."""
    factor: int = 2
    """How many tiles of the next deeper zoom lie along a tile's edge; at least 2."""
    area: TileRange | None = None
    """The tiles that the layer can have, given at any one of its zooms. None stands for the square of its
    depth."""
    seeds: tuple[Tile, ...] = ()
    """The tiles of the coarsest zoom from which an endless layer is searched, one of which nobody says how
    far it reaches. Around each tile that is there its neighbours are asked, and so on. Empty for a layer
    whose reach is known."""
    stride: int = 1
    """How far from a tile of an endless layer others are looked for, in tiles. 1 reaches the eight
    neighbours; 2 also bridges one empty place. At least 1."""
    there: ListedTiles | None = None
    """The tiles that exist, of all zooms. The walk asks for no others. None if the site does not say."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"a layer of depth {self.depth} has no tiles")
        if self.depth > MOST_DEPTH:
            raise ValueError(f"a layer has a depth of {self.depth}, and {MOST_DEPTH} is the most")
        if not 2 <= self.factor <= MOST_FACTOR:
            raise ValueError(f"tiles cannot nest by a factor of {self.factor}")
        if self.area is None and self.factor != 2:
            raise ValueError(f"a square that is divided by {self.factor} has no names that stay")
        if self.stride < 1:
            raise ValueError(f"nothing is found within {self.stride} tiles")
        for seed in self.seeds:
            if seed.zoom != self.first:
                raise ValueError(f"tile {seed} is not of the coarsest zoom, {self.first}")
            if seed not in self.range_at(self.first):
                raise ValueError(f"tile {seed} lies beyond all that a layer can have")

    @classmethod
    def kept(cls, depth: int, factor: int) -> Self:
        """Returns the form of a layer as a history keeps it. No walk can start from it, because seeds and
        lists are not kept."""
        return cls(depth) if factor == 2 else cls(depth, factor, EVERYWHERE)

    @classmethod
    def endless(cls, depth: int, seeds: tuple[Tile, ...], factor: int = 2, stride: int = 1) -> Self:
        """Returns the form of an endless layer: nobody says how far it reaches."""
        return cls(depth, factor, EVERYWHERE, seeds, stride)

    @classmethod
    def listed(cls, depth: int, there: ListedTiles) -> Self:
        """Returns the form of a layer whose site says which tiles exist.

        The list is its only edge. So a known tile that the site no longer names is still asked, wherever it
        lies.
        """
        return cls(depth, area=EVERYWHERE, there=there)

    def seeded(self, tiles: Iterable[Tile]) -> Pyramid:
        """Returns the form of an endless layer with further seeds: the tiles of the coarsest zoom that cover
        these tiles, as far as the layer can have them and up to `MOST_SEEDS` in all."""
        above = (tile.ancestor(tile.zoom - self.first, self.factor) for tile in tiles)
        within = self.range_at(self.first)
        seeds = dict.fromkeys((*self.seeds, *(tile for tile in above if tile in within)))
        return replace(self, seeds=tuple(islice(seeds, max(MOST_SEEDS, len(self.seeds)))))

    @property
    def first(self) -> int:
        """The coarsest zoom."""
        return 1 - self.depth

    @property
    def is_endless(self) -> bool:
        return bool(self.seeds)

    @property
    def has_area(self) -> bool:
        """Whether the site says in which area the layer's tiles lie, and no more."""
        return self.area is not None and self.there is None and not self.seeds

    def range_at(self, zoom: int) -> TileRange:
        """Returns the tiles of a zoom that the layer can have."""
        if self.area is None:
            return TileRange.whole(self.depth, zoom)
        return self.area.at_zoom(zoom, self.factor)

    def beside(self, tile: Tile) -> tuple[Tile, ...]:
        """Returns the tiles of an endless layer around one of its tiles, corners included, as far as the
        stride."""
        around = TileRange.of(tile).wider(self.stride).intersection(self.range_at(tile.zoom))
        return () if around is None else tuple(one for one in around if one != tile)
