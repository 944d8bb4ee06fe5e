"""Change indexes: what a site says about its own changes, and the ground that may have changed according to
it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from tileharvest.errors import counted
from tileharvest.tiles.block import mask_of
from tileharvest.tiles.grid import Tile, ancestors, covered_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from tileharvest.tiles.block import Block
    from tileharvest.tiles.grid import Cell
    from tileharvest.tiles.pyramid import Pyramid


class ChangeIndex(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The index of a layer's changes that a site has published, as it was when it was read.

    It is compared with the index of an earlier harvest. The meaning of a stamp does not matter, as long as
    each change brings another stamp.
    """

    stamp: str
    """The stamp of the whole layer. If it differs, any tile may have changed."""
    tiles: tuple[tuple[int, int, str], ...] = ()
    """Tiles of the deepest zoom that have stamps of their own: x, y and the stamp, each tile once. A tile
    without a stamp was never drawn."""

    def changed_since(self, earlier: ChangeIndex) -> frozenset[Cell] | None:
        """Returns the deepest tiles that may have changed since the earlier index, or None if any tile may
        have."""
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
    """The index of a layer as the last complete harvest has read it, and how far it is trusted."""

    index: ChangeIndex
    day: date
    """The day of that harvest."""
    confirmed: int = 0
    """The number of harvests in a row in which the index had named all changes."""
    withdrawn: str | None = None
    """Why the index is not relied on any more; None if it is."""
    withdrawn_day: date | None = None

    @property
    def in_words(self) -> str:
        if self.withdrawn is not None:
            return f"its change index is not relied on: {self.withdrawn}"
        return f"its change index of {self.day}, right in {counted(self.confirmed, 'harvest')} in a row"


class ChangedGround:
    """The ground of a layer that may have changed: some tiles, with all tiles above and below them."""

    def __init__(self, cells: Iterable[Cell], pyramid: Pyramid) -> None:
        self.cells = frozenset(cells)
        self._above = self.cells | ancestors(self.cells, pyramid.first, pyramid.factor)
        self._is_below = covered_by(self.cells, pyramid.factor)

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._above or self._is_below(cell)

    def mask_of(self, block: Block) -> int:
        """Returns those tiles of a block that may have changed."""
        return mask_of(bit for bit, tile in block.tiles() if (tile.zoom, tile.x, tile.y) in self)

    def tiles(self) -> Iterator[Tile]:
        """Yields the tiles that may have changed and all tiles above them, in order."""
        return (Tile(*cell) for cell in sorted(self._above))

    def written(self) -> str:
        return msgspec.json.encode(sorted(self.cells)).decode()

    @classmethod
    def read(cls, text: str, pyramid: Pyramid) -> ChangedGround:
        return cls(msgspec.json.decode(text, type=list[tuple[int, int, int]]), pyramid)


def audited_share(share: float, confirmed: int) -> float:
    """Returns the share of the tiles spared by an index that is asked all the same.

    `share` is that of maps.toml. Each harvest in which the index was right halves it. A share of 1 stays 1,
    so that whoever wants all tiles asked gets all.
    """
    return share if share == 1 else share * 0.5**confirmed
