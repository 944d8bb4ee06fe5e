"""The guard of a layer's size. Some sites answer whatever they are asked, so that a walk over them would
never end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile

MOST_TILES: Final = 2_000_000
"""The most tiles of a layer, unless maps.toml or an earlier harvest says more."""
_GROWTH: Final = 2
"""How many times as many tiles as in the last complete harvest any layer may have."""
_REMEMBERED: Final = 256
"""The most images that are counted at the same time, so that memory does not grow with the map."""


Alike: TypeAlias = tuple[int, int]
"""How many tiles of a layer may have the same bytes, and how many levels up the ancestor is that tiles share
which count together."""
NEIGHBOURS: Final[Alike] = 10_000, 7
"""For a layer of which nobody says where it ends: 128 x 128 tiles count together."""
CANVAS: Final[Alike] = 1_000, 32
"""For a canvas, whose server may send one blank image for all that is empty. All tiles count together."""


def most_tiles(found: int, wish: int | None = None, described: int = 0) -> int:
    """Returns how many tiles a layer may have.

    `found` is the number of tiles that its last complete harvest has found; 0 if there was none. `wish` is
    `max_tiles` in maps.toml; it alone counts if it is given. `described` is how many tiles the map's own
    description has, if it says where the layer ends.
    """
    return max(MOST_TILES, _GROWTH * found, described) if wish is None else wish


class TileCountGuard:
    """Counts the tiles that one process of a harvest finds of one layer. A tile that is found twice counts
    twice."""

    def __init__(self, most: int, found: int = 0, alike: Alike | None = None) -> None:
        """`most` is the most tiles of the layer. `found` is how many tiles the processes of this harvest have
        found before. `alike` is None for a layer that may have the same image everywhere."""
        self.most, self._found, self._limit = most, found, alike
        self._alike: Counter[tuple[str, Tile]] = Counter()

    def add(self, tiles: int) -> str | None:
        """Counts tiles that are there. Returns why the layer seems to have no end, or None."""
        self._found += tiles
        return f"has more than {self.most:,} tiles" if self._found > self.most else None

    def add_image(self, tile: Tile, sha1: str) -> str | None:
        """Counts the image that was fetched for a tile. Returns why the layer seems to have no end, or None.

        An image that is rare among many others may be counted too low, but never too high (Misra and Gries,
        Finding repeated elements, 1982).
        """
        if self._limit is None:
            return None
        most, levels = self._limit
        key = sha1, tile.ancestor(levels)
        if key in self._alike or len(self._alike) < _REMEMBERED:
            self._alike[key] += 1
        else:
            self._alike.subtract(list(self._alike))
            self._alike = +self._alike
        if self._alike[key] > most:
            return f"has the same image {sha1} at more than {most:,} places"
        return None
