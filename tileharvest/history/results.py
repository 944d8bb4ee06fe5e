"""The results of a harvest, as the blocks of its map have them: counts, and the tiles that it has not asked.

Reads all blocks of a map, or those of an area. A map has a 64th as many as tiles, so a million tiles take 50
ms. Harvests and layers are named by their ids.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, func, select

from tileharvest.history.areas import IN_SLICES, LARGEST
from tileharvest.history.schema import MASKS, blocks, changes, harvest_layers, harvests
from tileharvest.tiles.block import SIDE, WHOLE, bits_of, edges_of, mask_within
from tileharvest.tiles.outcomes import THERE, Outcome
from tileharvest.walk.flat import EarlierBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

    from tileharvest.tiles.grid import Cell, TileRange

ITS_LAYERS: Final = select(harvest_layers.c.layer).where(harvest_layers.c.harvest == bindparam("in_harvest"))
"""The ids of the layers of the harvest `in_harvest`."""

_ROWS: Final = select(blocks).where(blocks.c.layer == bindparam("in_layer"))
_IN_ZOOM: Final = _ROWS.where(
    blocks.c.zoom == bindparam("in_zoom"),
    blocks.c.column.between(bindparam("first_column"), bindparam("last_column")),
    blocks.c.row.between(bindparam("first_row"), bindparam("last_row")),
)
_OF_HARVEST: Final = _ROWS.where(blocks.c.harvest == bindparam("in_harvest"))
_DAYS: Final = select(harvests.c.id, harvests.c.day).where(harvests.c.id != bindparam("in_harvest"))
_DAYS_OF_CHANGE: Final = (
    select(changes.c.x, changes.c.y, func.count())
    .where(changes.c.layer == bindparam("in_layer"), changes.c.zoom == bindparam("in_zoom"))
    .group_by(changes.c.x, changes.c.y)
)


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
    def skips(self) -> int:
        """The unchanged tiles below which the harvest asked nothing."""
        mask: int = self._row.skips
        return mask if self._is_its else 0

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


def found_by(connection: Connection, harvest: int, layer: int) -> Iterator[BlockResults]:
    """Yields the blocks of a layer in which the harvest has results."""
    its = {"in_layer": layer, "in_harvest": harvest}
    for row in connection.execute(_OF_HARVEST, its, execution_options=IN_SLICES):
        yield BlockResults(row, harvest)


def found_in(
    connection: Connection, harvest: int, layer: int, areas: Iterable[TileRange]
) -> Iterator[tuple[BlockResults, int]]:
    """Yields the blocks that have any tile of these areas, coarse zooms first, each with the mask of the
    areas' places there. Areas may overlap."""
    for zoom, ranges in groupby(sorted(set(areas), key=attrgetter("zoom")), key=attrgetter("zoom")):
        edges = [edges_of(one) for one in ranges]
        place = {
            "in_layer": layer,
            "in_zoom": zoom,
            "first_column": _first(min(left for left, _, _, _ in edges)),
            "last_column": _first(max(right for _, right, _, _ in edges)),
            "first_row": _first(min(top for _, _, top, _ in edges)),
            "last_row": _first(max(bottom for _, _, _, bottom in edges)),
        }
        # A caller that has enough stops here. The other rows are then released.
        with connection.execute(_IN_ZOOM, place, execution_options=IN_SLICES) as rows:
            for row in rows:
                mask = 0
                for one in edges:
                    mask |= mask_within(one, row.column, row.row)
                    if mask == WHOLE:
                        break
                if mask:
                    yield BlockResults(row, harvest), mask


def earlier_blocks(
    connection: Connection, harvest: int, layer: int, areas: Iterable[TileRange]
) -> dict[tuple[int, int], EarlierBlock]:
    """Returns by column and row what harvests have found in the blocks of areas of one zoom. The areas are
    those of a layer that has no other zoom."""
    its = {"in_layer": layer, "in_zoom": 0, "in_harvest": harvest}
    days = {row.id: row.day for row in connection.execute(_DAYS, its)}
    changed = {(x, y): count for x, y, count in connection.execute(_DAYS_OF_CHANGE, its)}
    return {
        (one.column, one.row): EarlierBlock(
            days.get(one.harvest), one.reached & ~one.failing, one.present, changed.get(one.cover[1:], 0)
        )
        for one, _ in found_in(connection, harvest, layer, areas)
    }


def _first(number: int) -> int:
    """Returns the column of the block of a tile's column, or as far out as a database's integers reach."""
    return max(-LARGEST, min(number >> 3, LARGEST))


def count_outcomes(connection: Connection, harvest: int) -> dict[tuple[int, Outcome], int]:
    """Returns the number of tiles by layer and outcome, for outcomes that occurred, without skipped ones."""
    counted: Counter[tuple[int, Outcome]] = Counter()
    for layer in connection.execute(ITS_LAYERS, {"in_harvest": harvest}).scalars().all():
        for one in found_by(connection, harvest, layer):
            for outcome in MASKS:
                if mask := one.of(outcome):
                    counted[layer, outcome] += mask.bit_count()
    return dict(counted)


def count_found(connection: Connection, harvest: int) -> dict[int, int]:
    """Returns by layer how many tiles the harvest has found, without missing and failed ones."""
    found: Counter[int] = Counter()
    for (layer, outcome), count in count_outcomes(connection, harvest).items():
        found[layer] += count if outcome in THERE else 0
    return dict(found)


def changed_by(connection: Connection, harvest: int, layer: int) -> Iterator[Cell]:
    """Yields the tiles of which the harvest has found other bytes, or that they are gone."""
    for one in found_by(connection, harvest, layer):
        yield from one.cells(one.changed | one.of(Outcome.GONE))
