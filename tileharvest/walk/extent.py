"""How far a layer may reach. Some sites have whatever they are asked for, and a walk over one never ends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile

MOST_TILES: Final = 2_000_000
"""Of a layer, where nobody says more."""
_GROWTH: Final = 20
"""How many times as many tiles as before a layer may have at a harvest."""
_LEAST: Final = 100_000
"""Tiles to which any layer may grow."""
MOST_ALIKE: Final = 10_000
"""Neighbouring tiles that may have the same bytes."""
_SQUARE: Final = 7
"""Levels up to the tile below which others are neighbours: 128 x 128 of them."""
_REMEMBERED: Final = 256
"""Images that are counted at the same time, so that memory does not grow with the map."""


def most_tiles(known: int, wish: int | None = None) -> int:
    """Returns how many tiles a layer may have. `known` are those of the map that the history has, and `wish`
    is what a person has said."""
    if wish is not None:
        return wish
    return min(MOST_TILES, max(_LEAST, _GROWTH * known)) if known else MOST_TILES


class Extent:
    """Counts what is found of one layer in a harvest. What is found twice counts twice."""

    def __init__(self, most: int, found: int = 0) -> None:
        """`found` are the tiles that other processes of the harvest have found before."""
        self._most, self._found = most, found
        self._alike: Counter[tuple[str, int, tuple[int, int]]] = Counter()

    def add(self, tile: Tile, sha1: str | None) -> str | None:
        """Counts a tile that is there, with the image that was fetched, if any.

        Returns why the layer seems to have no end, or None. An image that is rare among many others may be
        counted too low (Misra and Gries, Finding repeated elements, 1982), never too high.
        """
        self._found += 1
        if self._found > self._most:
            return f"has more than {self._most:,} tiles"
        if sha1 is None:
            return None
        key = sha1, tile.zoom, tile.block(_SQUARE)
        if key in self._alike or len(self._alike) < _REMEMBERED:
            self._alike[key] += 1
        else:
            self._alike.subtract(list(self._alike))
            self._alike = +self._alike
        if self._alike[key] > MOST_ALIKE:
            return f"has the same image {sha1} at more than {MOST_ALIKE:,} neighbouring places"
        return None
