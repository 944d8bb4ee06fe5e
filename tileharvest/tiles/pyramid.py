"""The form of a layer: its zooms, which tiles it can have, and how those of two zooms nest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self

from tileharvest.tiles.grid import Tile, TileRange, first_level

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_DEPTH: Final = 32
"""With it a square is 2^32 tiles wide: all numbers of tiles stay far below 64 bits."""
EVERYWHERE: Final = TileRange.whole(24, 0)
"""Where nobody says how far a layer reaches, it is 2^24 grid units each way. With tiles of 128 pixels and 16
pixels a block, that is 67 million blocks, and a Minecraft world ends after 30 million. Names fit into the 32
bits that a database on a server has for them."""


class Existing(Protocol):
    """The tiles of a layer that exist, as its site says. A value: equal where they are."""

    def __contains__(self, tile: Tile) -> bool: ...

    def at(self, zoom: int) -> Iterable[Tile]:
        """Returns all of a zoom, in the same order each time."""
        ...


class ListedTiles(frozenset[Tile]):
    """The tiles that exist, one by one. Renderers of other packages name them so."""

    def at(self, zoom: int) -> list[Tile]:
        return sorted(tile for tile in self if tile.zoom == zoom)


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The tiles that a layer can have. Raises ValueError for values that no layer can have.

    Of one that is given nothing but its depth they are a square around the origin that each level divides
    into four, as Overviewer's and Mapcrafter's are.
    """

    depth: int
    """How many zooms it has; at least 1. They end with 0, the deepest."""
    factor: int = 2
    """How many tiles of the next deeper zoom lie along a tile's edge; at least 2."""
    area: TileRange | None = None
    """The tiles that it can have, at any one of its zooms. None: the square of its depth."""
    seeds: tuple[Tile, ...] = ()
    """Where nobody says how far it reaches: tiles of the coarsest zoom from which that is searched. Around
    those that are there others are asked, too, and so on. Empty: what it can have is known."""
    stride: int = 1
    """How far from a tile of an endless layer others are looked for: 1 are the eight around it, 2 leads over
    a place where nothing is; at least 1."""
    there: Existing | None = None
    """The tiles that exist, of all zooms. The walk asks for nothing else. None: the site does not say."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"a layer of depth {self.depth} has no tiles")
        if self.depth > MOST_DEPTH:
            raise ValueError(f"a layer has a depth of {self.depth}, and {MOST_DEPTH} is the most")
        if self.factor < 2:
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
        """Returns what a history keeps of the form of a layer. No walk over it can start."""
        return cls(depth) if factor == 2 else cls(depth, factor, EVERYWHERE)

    @classmethod
    def endless(cls, depth: int, seeds: tuple[Tile, ...], factor: int = 2, stride: int = 1) -> Self:
        """Returns the form of a layer of which nobody says how far it reaches."""
        return cls(depth, factor, EVERYWHERE, seeds, stride)

    @classmethod
    def listed(cls, depth: int, there: Existing) -> Self:
        """Returns the form of a layer whose site says which tiles exist.

        It has no other edge, so that a known tile that the site names no more is asked, wherever it lies.
        """
        return cls(depth, area=EVERYWHERE, there=there)

    @property
    def first(self) -> int:
        """The coarsest zoom."""
        return 1 - self.depth

    @property
    def is_endless(self) -> bool:
        return bool(self.seeds)

    @property
    def has_edge(self) -> bool:
        """Whether the site says how far the layer reaches: by an area, or by a list of its tiles."""
        return self.there is not None or (self.area is not None and not self.seeds)

    def start(self) -> tuple[Tile, ...]:
        """Returns the tiles of the coarsest zoom to ask for first; of an endless layer the seeds."""
        if self.area is None:
            return first_level(self.depth)
        within = self.range_at(self.first)
        if self.there is not None:
            return tuple(tile for tile in self.there.at(self.first) if tile in within)
        return self.seeds or tuple(within)

    def range_at(self, zoom: int) -> TileRange:
        """Returns the tiles of a zoom that it can have."""
        if self.area is None:
            return TileRange.whole(self.depth, zoom)
        return self.area.at_zoom(zoom, self.factor)

    def children(self, tile: Tile) -> tuple[Tile, ...]:
        """Returns what it can have right below a tile. Raises ValueError at the deepest zoom."""
        children = tile.children(self.factor)
        if self.area is None:
            return children
        within = self.range_at(tile.zoom + 1)
        return tuple(self.present(child for child in children if child in within))

    def parent(self, tile: Tile) -> Tile:
        """Returns the tile one level up that covers this one, even where the layer has none so coarse."""
        return tile.parent(self.factor)

    def beside(self, tile: Tile) -> tuple[Tile, ...]:
        """Returns the tiles around one of an endless layer, as far as its stride, corners included."""
        around = TileRange.of(tile).wider(self.stride).intersection(self.range_at(tile.zoom))
        return () if around is None else tuple(one for one in around if one != tile)

    def present(self, tiles: Iterable[Tile]) -> Iterable[Tile]:
        """Returns those of the tiles that exist, as far as the site says."""
        return tiles if self.there is None else (tile for tile in tiles if tile in self.there)
