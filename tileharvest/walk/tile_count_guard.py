"""The extent: how many tiles a layer may have. Some sites answer whatever they are asked, so that a walk over
them would never end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile

MOST_TILES: Final = 2_000_000
"""The most tiles of a layer, unless maps.toml or an earlier harvest says more."""
_GROWTH: Final = 20
"""How many times as many tiles as in the last complete harvest a layer may have."""
_REAL_GROWTH: Final = 2
"""The same factor for a layer for which `_GROWTH` would lead beyond `MOST_TILES`."""
_LEAST: Final = 100_000
"""Tiles to which any layer may grow."""
MOST_ALIKE: Final = 10_000
"""The most neighbouring tiles that may have the same bytes."""
_SQUARE: Final = 7
"""Levels up to the ancestor that neighbours share. Neighbours are 128 x 128 tiles."""
_REMEMBERED: Final = 256
"""The most images that are counted at the same time, so that memory does not grow with the map."""


def most_tiles(found: int, wish: int | None = None, *, is_same: bool = True, described: int = 0) -> int:
    """Returns how many tiles a layer may have.

    `found` is the number of tiles that its last complete harvest has found; 0 if there was none. A layer may
    always have twice as many, so that no real map is cut off. `wish` is `max_tiles` in maps.toml; it alone
    counts if it is given. `is_same` says whether that harvest was for the same zones and zooms. If it was
    not, it does not lower the limit. `described` is how many tiles the map's own description has, if it says
    where the layer ends: it may have all of them.
    """
    if wish is not None:
        return wish
    most = min(MOST_TILES, max(_LEAST, _GROWTH * found)) if found and is_same else MOST_TILES
    return max(most, _REAL_GROWTH * found, described)


class TileCountGuard:
    """Counts the tiles that one process of a harvest finds of one layer. A tile that is found twice counts
    twice."""

    def __init__(self, most: int, found: int = 0, *, is_alike_an_end: bool = True) -> None:
        """`most` is the most tiles of the layer. `found` is how many tiles the processes of this harvest have
        found before. `is_alike_an_end` says whether the same image at many places ends the layer. It is False
        for a layer that is known to have an end: such a layer may well have the same image everywhere."""
        self.most, self._found, self._is_alike_an_end = most, found, is_alike_an_end
        self._alike: Counter[tuple[str, int, tuple[int, int]]] = Counter()

    def add(self, tiles: int) -> str | None:
        """Counts tiles that are there. Returns why the layer seems to have no end, or None."""
        self._found += tiles
        return f"has more than {self.most:,} tiles" if self._found > self.most else None

    def add_image(self, tile: Tile, sha1: str) -> str | None:
        """Counts the image that was fetched for a tile. Returns why the layer seems to have no end, or None.

        An image that is rare among many others may be counted too low, but never too high (Misra and Gries,
        Finding repeated elements, 1982).
        """
        if not self._is_alike_an_end:
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
