"""Change indexes: what a site says about its own changes, and the ground that may have changed by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from tileharvest.errors import counted
from tileharvest.tiles.grid import Squares, Tile, ancestors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from tileharvest.tiles.grid import Cell
    from tileharvest.tiles.pyramid import Pyramid

LEAST_AUDITED_OF_INDEX: Final = 3
"""Tiles that an audit of an index asks at least, in each layer. An index that did not tell of a
render shows in as many of them as the render has changed. One that forgets a tile now and then is found late.
"""
_MOST_HALVINGS: Final = 30


class ChangeIndex(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a site has published about the changes of a layer, as it was when it was read.

    It is compared with what was read at an earlier harvest. So it need not say what a stamp means, only that
    another one comes with each change.
    """

    stamp: str
    """Of the whole layer: with another one anything may have changed."""
    tiles: tuple[tuple[int, int, str], ...] = ()
    """x and y of tiles of the deepest zoom, each once, with a stamp of its own. What has none was never
    drawn."""

    def changed_since(self, earlier: ChangeIndex) -> frozenset[Cell] | None:
        """Returns the deepest tiles that may have changed since, or None where any tile may have."""
        if self.stamp != earlier.stamp:
            return None
        differing = set(self.tiles) ^ set(earlier.tiles)
        return frozenset((0, x, y) for x, y, _ in differing)

    def written(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> ChangeIndex:
        return msgspec.json.decode(text, type=cls)


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """What the last complete harvest has read of a layer's index, and how far the index is trusted."""

    index: ChangeIndex
    day: date
    """The day of that harvest."""
    confirmed: int = 0
    """In how many harvests in a row nothing had changed of which it did not tell."""
    withdrawn: str | None = None
    """Why it is not relied on any more."""
    withdrawn_day: date | None = None

    @property
    def in_words(self) -> str:
        if self.withdrawn is not None:
            return f"its change index is not relied on: {self.withdrawn}"
        return f"its change index of {self.day}, right in {counted(self.confirmed, 'harvest')} in a row"


class ChangedGround:
    """The ground of a layer that may have changed: some tiles, with all that lies above and below them."""

    def __init__(self, cells: Iterable[Cell], pyramid: Pyramid) -> None:
        self.cells = frozenset(cells)
        self._above = self.cells | ancestors(self.cells, pyramid.first, pyramid.factor)
        self._below = Squares(self.cells, pyramid.factor)

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._above or self._below.cover(cell)

    def has(self, tile: Tile) -> bool:
        return (tile.zoom, tile.x, tile.y) in self

    def tiles(self) -> Iterator[Tile]:
        """Yields its tiles, and all above them, in order."""
        return (Tile(*cell) for cell in sorted(self._above))

    def written(self) -> str:
        return msgspec.json.encode(sorted(self.cells)).decode()

    @classmethod
    def read(cls, text: str, pyramid: Pyramid) -> ChangedGround:
        return cls(msgspec.json.decode(text, type=list[tuple[int, int, int]]), pyramid)


def audited_share(share: float, confirmed: int) -> float:
    """Returns the share of what an index has spared that is asked all the same.

    It is half as much after each harvest in which the index was right. Who wants all asked gets all.
    """
    return share if share == 1 else share / 2 ** min(confirmed, _MOST_HALVINGS)
