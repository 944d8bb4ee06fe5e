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
_REAL_GROWTH: Final = 2
"""How many times as many even a layer of more than `MOST_TILES` may have."""
_LEAST: Final = 100_000
"""Tiles to which any layer may grow."""
MOST_ALIKE: Final = 10_000
"""Neighbouring tiles that may have the same bytes."""
_SQUARE: Final = 7
"""Levels up to the tile below which others are neighbours: 128 x 128 of them."""
_REMEMBERED: Final = 256
"""Images that are counted at the same time, so that memory does not grow with the map."""


def most_tiles(found: int, wish: int | None = None, *, is_same: bool = True) -> int:
    """Returns how many tiles a layer may have.

    `found` are those that its last complete harvest has found: what is real is never cut, nor what it grows
    by. 0 stands for none. `wish` is what a person has said. `is_same` says whether that harvest was for the
    same zones and zooms. Else it tells nothing of how large the layer is now.
    """
    if wish is not None:
        return wish
    most = min(MOST_TILES, max(_LEAST, _GROWTH * found)) if found and is_same else MOST_TILES
    return max(most, _REAL_GROWTH * found)


class Extent:
    """Counts what is found of one layer in a harvest. What is found twice counts twice."""

    def __init__(self, most: int, found: int = 0, *, is_alike_an_end: bool = True) -> None:
        """`found` are the tiles that other processes of the harvest have found before. `is_alike_an_end` is
        False for a layer that may well have the same image everywhere, as it is known to have an end."""
        self.most, self._found, self._is_alike_an_end = most, found, is_alike_an_end
        self._compared_at = self._next_comparison()
        self._alike: Counter[tuple[str, int, tuple[int, int]]] = Counter()

    @property
    def is_to_be_compared(self) -> bool:
        """Whether so many were found since the last time that it is worth a look what all processes have."""
        return self._found >= self._compared_at

    def learn(self, found: int) -> None:
        """All processes of the harvest together have found at least so many."""
        self._found = max(self._found, found)
        self._compared_at = self._next_comparison()

    def _next_comparison(self) -> int:
        """Seldom at first, and never more often than 200 times: each reads all tiles of the map."""
        return self._found + max(1, self.most // 200, (self.most - self._found) // 8)

    def add(self, tile: Tile, sha1: str | None) -> str | None:
        """Counts a tile that is there, with the image that was fetched, if any.

        Returns why the layer seems to have no end, or None. An image that is rare among many others may be
        counted too low (Misra and Gries, Finding repeated elements, 1982), never too high.
        """
        self._found += 1
        if self._found > self.most:
            return f"has more than {self.most:,} tiles"
        if sha1 is None or not self._is_alike_an_end:
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
