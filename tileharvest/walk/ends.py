"""What ends a harvest: most known tiles are missing, no tile is there at all, or a layer has no end, because
its site answers whatever it is asked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tileharvest.errors import counted

if TYPE_CHECKING:
    from tileharvest.tiles.grid import Tile

SAMPLE: Final = 100
"""The tiles that are asked before a map counts as moved, if most of its known tiles were not reached by the
walk. Most of a map that was redrawn with fewer zooms is still there, although no walk leads to it."""

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


class Missing(NamedTuple):
    """How many of the tiles that a map had before a harvest are missing so far."""

    known: int
    """The tiles that existed before the harvest."""
    gone: int
    """The known tiles that were asked and are no longer there."""
    unasked: int = 0
    """The known tiles that were neither asked nor skipped. Tiles below a missing one are not asked."""

    @property
    def is_suspect(self) -> bool:
        """Whether more than half of the known tiles are missing or were not reached."""
        return self.gone + self.unasked > self.known / 2

    @property
    def has_moved(self) -> bool:
        """Whether the map has moved rather than lost tiles. It rests only on tiles that were asked: on more
        than half of all, or on a sample of them if the walk did not reach most."""
        asked = self.known - self.unasked
        is_sampled = self.is_suspect and self.gone >= SAMPLE and self.gone > asked / 2
        return is_sampled or self.gone > self.known / 2

    def in_words(self, map_name: str, found: int) -> str:
        """Returns what has happened and what to do. `found` is the number of tiles that are there."""
        missing = f"more than half of the {self.known:,} tiles known of map '{map_name}' are missing"
        if not found:
            return (
                f"{missing}: the map has moved rather than vanished. None was recorded as gone;"
                " put the new url into maps.toml and run again"
            )
        return (
            f"{missing}, and {counted(found, 'tile')} are there: the map was begun anew at its address, or"
            " most of it was removed. None was recorded as gone; harvest it under another name, with scrapy"
            " add, and the history of this one stays as it is"
        )


def most_tiles(found: int, wish: int | None = None, described: int = 0) -> int:
    """Returns how many tiles a layer may have.

    `found` is the number of tiles that its last complete harvest has found; 0 if there was none. `wish` is
    `max_tiles` in maps.toml; it alone counts if it is given. `described` is how many tiles the map's own
    description has, if it says where the layer ends.
    """
    return max(MOST_TILES, _GROWTH * found, described) if wish is None else wish


class TileCountGuard:
    """Counts the tiles that one process of a harvest finds of one layer. A tile that is found twice counts
    twice. If the layer seems to have no end, the methods return why, and what a person may write."""

    def __init__(self, most: int, found: int = 0, alike: Alike | None = None) -> None:
        """`most` is the most tiles of the layer. `found` is how many tiles the processes of this harvest have
        found before. `alike` is None for a layer that may have the same image everywhere."""
        self.most, self._found, self._limit = most, found, alike
        self._alike: Counter[tuple[str, Tile]] = Counter()

    def add(self, tiles: int) -> tuple[str, str] | None:
        """Counts tiles that are there."""
        self._found += tiles
        if self._found <= self.most:
            return None
        hint = f"max_tiles = {2 * self.most} into maps.toml where it is that large"
        return f"has more than {self.most:,} tiles", hint

    def add_image(self, tile: Tile, sha1: str) -> tuple[str, str] | None:
        """Counts the image that was fetched for a tile.

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
        if self._alike[key] <= most:
            return None
        hint = (
            f'into maps.toml blank = ["{sha1}"] where that stands for a missing tile, or'
            f" max_tiles = {self.most} where the map is like that"
        )
        return f"has the same image {sha1} at more than {most:,} places", hint
