"""The results of a harvest, as the blocks of its map have them: counts, and the tiles that it has not asked.

Reads all blocks of a map, or those of an area. A map has a 64th as many as tiles, so a million tiles take 50
ms. Harvests and layers are named by their ids.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select

from tileharvest.history.areas import IN_SLICES, LARGEST
from tileharvest.history.schema import MASKS, blocks, harvest_layers
from tileharvest.tiles.block import SIDE, bits_of, mask_within
from tileharvest.tiles.grid import TileRange
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from tileharvest.tiles.grid import Cell


class BlockResults:
    """A row of `blocks`, as one harvest sees it."""

    def __init__(self, row: Any, harvest: int) -> None:
        self.zoom: int = row.zoom
        self.column: int = row.column
        self.row: int = row.row
        self.present: int = row.present
        """The tiles whose latest version is not gone."""
        self.failing: int = row.failing
        """The tiles whose last result is a failure."""
        self.harvest: int | None = row.harvest
        """The last harvest that has asked in the block."""
        self._row = row
        self._is_its = row.harvest == harvest

    def of(self, outcome: Outcome) -> int:
        """Returns the tiles with this outcome in the harvest."""
        mask: int = getattr(self._row, MASKS[outcome])
        return mask if self._is_its else 0

    @property
    def asked(self) -> int:
        """The tiles with a result in the harvest."""
        return self._results if self._is_its else 0

    @property
    def changed(self) -> int:
        """The tiles with other bytes than before."""
        return self.of(Outcome.UPDATED) | self.of(Outcome.ADDED) | self.of(Outcome.REPLACED)

    @property
    def unasked(self) -> int:
        """The present tiles without a result in the harvest."""
        return self.present & ~self.asked

    @property
    def reached(self) -> int:
        """The tiles with a result of this harvest, or of another one since the last that walked in full."""
        reached: int = self._row.reached
        return reached | self._results

    @property
    def _results(self) -> int:
        mask = 0
        for name in MASKS.values():
            mask |= getattr(self._row, name)
        return mask

    @property
    def cover(self) -> Cell:
        """The tile three levels coarser that covers the block, if four tiles nest in one."""
        reach = 1 << 3 - self.zoom
        return self.zoom - 3, (2 * self.column + 1) * reach, -(2 * self.row + 1) * reach

    def cells(self, mask: int) -> Iterator[Cell]:
        """Yields the tiles of the mask."""
        return cells_of(self.zoom, self.column, self.row, mask)


def cells_of(zoom: int, column: int, row: int, mask: int) -> Iterator[Cell]:
    """Yields the tiles of a block's mask."""
    for bit in bits_of(mask):
        x, y = column * SIDE + bit % SIDE, row * SIDE + bit // SIDE
        yield zoom, 2 * x + 1 << -zoom, -(2 * y + 1) << -zoom


def layers_of(connection: Connection, harvest: int) -> Sequence[int]:
    """Returns the ids of the harvest's layers."""
    query = select(harvest_layers.c.layer).where(harvest_layers.c.harvest == harvest)
    return connection.execute(query).scalars().all()


def found_by(
    connection: Connection, harvest: int, layer: int, outcomes: Collection[Outcome]
) -> Iterator[BlockResults]:
    """Yields the blocks of a layer in which the harvest has tiles with one of these outcomes."""
    its = select(blocks).where(blocks.c.layer == layer, blocks.c.harvest == harvest)
    its = its.where(or_(*(blocks.c[MASKS[one]] != 0 for one in outcomes)))
    for row in connection.execute(its, execution_options=IN_SLICES):
        yield BlockResults(row, harvest)


def found_in(
    connection: Connection, harvest: int, layer: int, areas: Iterable[TileRange]
) -> Iterator[tuple[BlockResults, int]]:
    """Yields the blocks that have any tile of these areas, coarse zooms first, each with the mask of the
    areas' places there. Areas may overlap."""
    for zoom, several in groupby(sorted(set(areas), key=attrgetter("zoom")), key=attrgetter("zoom")):
        ranges = list(several)
        first, last = TileRange.covering(corner for one in ranges for corner in one.corners).corners
        query = select(blocks).where(
            blocks.c.layer == layer,
            blocks.c.zoom == zoom,
            blocks.c.column.between(_first(first.column), _first(last.column)),
            blocks.c.row.between(_first(first.row), _first(last.row)),
        )
        # A caller that has enough stops here. The other rows are then released.
        with connection.execute(query, execution_options=IN_SLICES) as rows:
            for row in rows:
                if mask := mask_within(ranges, row.column, row.row):
                    yield BlockResults(row, harvest), mask


def _first(number: int) -> int:
    """Returns the column of the block of a tile's column, or as far out as a database's integers reach."""
    return max(-LARGEST, min(number >> 3, LARGEST))
