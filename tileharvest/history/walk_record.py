"""What the history knows of a harvest's walk: how it walks, what it remembers, and what it skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import case, or_, select, update

from tileharvest.history.areas import marks_of
from tileharvest.history.costs import NO_COST
from tileharvest.history.schema import harvests, layers, proofs
from tileharvest.history.trust import distrust, skipped_tiles, tops_of
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.history.harvest_row import HarvestRow
    from tileharvest.tiles.grid import TileRange
    from tileharvest.walk.trust import Mark

_SEVERAL: Final = "several"
"""What a harvest has kept whose zones or zooms were changed before it was continued."""


class WalkRecord:
    """The walk of one harvest. What `HarvestRecord` says holds for all methods here too."""

    def __init__(self, history: History, row: HarvestRow, layer_ids: Mapping[str, int]) -> None:
        """`layer_ids` raises ValueError for a layer that the harvest does not have."""
        self._history = history
        self._row = row
        self._layer_ids = layer_ids

    def note(self, way: str, reason: str, kept: str | None = None) -> None:
        """Notes that the harvest walks `full` or `pruned`, and why, in place of what was noted before.

        What was begun pruned is never noted as full, as some of it was skipped. Once trust was withdrawn it
        is `repaired`. `kept` tells which zones and zooms the harvest is for, in a form that is equal where
        they are. None leaves what was noted.
        """
        was_pruned = harvests.c.walk.in_(("pruned", "repaired"))
        noted: dict[str, Any] = {
            "walk": case((was_pruned, harvests.c.walk), else_=way),
            "walk_reason": reason,
        }
        if kept is not None:
            # Equal to nothing where a harvest has kept now this and now that.
            is_same = or_(harvests.c.kept.is_(None), harvests.c.kept == kept)
            noted["kept"] = case((is_same, kept), else_=_SEVERAL)
        self._history.write(
            lambda connection: connection.execute(
                update(harvests).where(harvests.c.id == self._row.id).values(noted)
            )
        )

    def marks(self, layer: str, area: TileRange) -> dict[Tile, Mark]:
        """Returns what is remembered of the tiles of an area, also by this harvest. One query.

        Only what an earlier harvest has been through with is trusted.
        """
        layer_id = self._layer_ids[layer]
        return self._history.read(lambda connection: marks_of(connection, layer_id, area))

    def tops(self, layer: str) -> list[Tile]:
        """Returns the tiles below which this harvest, in whatever process, did not ask, in order.

        There are none where trust in the layer was withdrawn: then all below them is to be asked.
        """
        layer_id = self._layer_ids[layer]
        tops = self._history.read(lambda connection: tops_of(connection, self._row.id, layer_id))
        return sorted(Tile(*cell) for cell in tops)

    def skipped(self, layer: str, areas: Sequence[TileRange]) -> list[Tile]:
        """Returns the known tiles of these areas that lie below a top, in order. The top itself does not.

        Tiles that have a result all the same are among them. So the list stays as it is while an audit goes
        through it, but for tiles that the audit finds new. Reads all tiles of the areas.
        """
        layer_id = self._layer_ids[layer]
        return self._history.read(lambda connection: skipped_tiles(connection, self._row.id, layer_id, areas))

    def distrust(self, layer: str, reason: str) -> list[Tile]:
        """Withdraws the layer's proof and all trust in what is remembered of it.

        Call it when this harvest has found a change where it had skipped. Marks that were read before must
        not be used any more. Returns the tops, which are to be asked again, whatever result they have, and
        walked down from. Call it again, also after a kill, until it returns none: it leaves out tops that
        were seen or failed since, and adds those that another process has skipped before it knew. The first
        reason is kept, and at its end the harvest gives no new proof. Raises HarvestEndedError when it has
        ended.
        """
        layer_id, row = self._layer_ids[layer], self._row

        def write(connection: Connection) -> list[Tile]:
            row.add_cost(connection, NO_COST, unless_ended=True)
            return distrust(connection, self._history.dialect, row.id, row.day, layer_id, reason)

        return self._history.write(write)

    def distrusted(self) -> dict[str, str]:
        """Returns the layers in which this harvest, in whatever process, has withdrawn trust, with the
        reasons."""
        query = (
            select(layers.c.name, proofs.c.withdrawn)
            .join_from(proofs, layers, layers.c.id == proofs.c.layer)
            .where(proofs.c.harvest == self._row.id, proofs.c.withdrawn.is_not(None))
        )
        return self._history.read(
            lambda connection: {name: reason for name, reason in connection.execute(query)}  # noqa: C416
        )
