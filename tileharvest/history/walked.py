"""How a harvest walks: what it remembers of tiles, and what it did not ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import case, or_, select, update

from tileharvest.history.areas import asked_tiles, marks_of
from tileharvest.history.schema import harvests, layers, proofs
from tileharvest.history.skipping import skipped_tiles, tops_of
from tileharvest.history.trusting import distrust
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.history.harvest_row import HarvestRow
    from tileharvest.tiles.grid import TileRange
    from tileharvest.tiles.outcomes import Outcome
    from tileharvest.walk.pruning import Mark

_SEVERAL: Final = "several"
"""What a harvest has kept whose zones or zooms were changed before it was continued."""


class WalkedHarvest:
    """The part of a harvest that is about its walk; `Harvest` says what holds for all methods."""

    def __init__(self, history: History, row: HarvestRow, layer_ids: Mapping[str, int]) -> None:
        self._history = history
        self._layer_ids = dict(layer_ids)
        self._row = row
        self.id = row.id
        self.day = row.day
        """Of all versions it records: the day on which it began, also when it is continued later."""

    def walks(self, walk: str, reason: str, kept: str | None = None) -> None:
        """Notes that it walks `full` or `pruned`, and why, in place of what was noted before. What was begun
        pruned is never noted as full, as some of it was skipped; once trust was withdrawn it is `repaired`.

        `kept` tells which zones and zooms it is for, in a form that is equal where they are; None leaves what
        was noted.
        """
        was_pruned = harvests.c.walk.in_(("pruned", "repaired"))
        noted: dict[str, Any] = {
            "walk": case((was_pruned, harvests.c.walk), else_=walk),
            "walk_reason": reason,
        }
        if kept is not None:
            # Equal to nothing where a harvest has kept now this and now that.
            is_same = or_(harvests.c.kept.is_(None), harvests.c.kept == kept)
            noted["kept"] = case((is_same, kept), else_=_SEVERAL)
        self._history.write(
            lambda connection: connection.execute(
                update(harvests).where(harvests.c.id == self.id).values(noted)
            )
        )

    def marks(self, layer: str, area: TileRange) -> dict[Tile, Mark]:
        """What is remembered of the tiles of an area, also by this harvest. One query, as `Harvest.latest`.

        Trusted is only what an earlier harvest, or an earlier one still, has been through with.
        """
        layer_id = self._id_of(layer)
        return self._history.read(lambda connection: marks_of(connection, layer_id, area))

    def skipped_tops(self, layer: str) -> list[Tile]:
        """The tiles below which this harvest, in whatever process, did not ask, in order.

        None where trust in the layer was withdrawn: then all below them is to be asked.
        """
        layer_id = self._id_of(layer)
        tops = self._history.read(lambda connection: tops_of(connection, self.id, layer_id))
        return sorted(Tile(*place) for place in tops)

    def skipped(self, layer: str, areas: Sequence[TileRange]) -> list[Tile]:
        """The known tiles of these areas that lie below a skipped top, in order; the top itself does not.

        Also those that have a result all the same: the list stays as it is while an audit goes through it,
        but for tiles that it finds new. Reads all tiles of the areas.
        """
        layer_id = self._id_of(layer)
        return self._history.read(lambda connection: skipped_tiles(connection, self.id, layer_id, areas))

    def outcomes_of(self, layer: str, tiles: Sequence[Tile]) -> dict[Tile, Outcome]:
        """What this harvest has found for these tiles, as far as it has; any number of them."""
        layer_id = self._id_of(layer)
        return self._history.read(lambda connection: asked_tiles(connection, self.id, layer_id, tiles))

    def distrust(self, layer: str, reason: str) -> list[Tile]:
        """Withdraws the layer's proof and all trust in what is remembered of it, for a harvest that has found
        a change where it had skipped. Marks that were read before are not to be used any more.

        Gives the skipped tops, which are to be asked again, whatever result they have, and walked down from.
        To be called again until it gives none: it leaves out those that were seen or failed since, and adds
        those that another process has skipped before it knew; also after a kill. The first reason is kept,
        and at its end the harvest gives no new proof. Raises HarvestEndedError when it has ended.
        """
        layer_id = self._id_of(layer)

        def write(connection: Connection) -> list[Tile]:
            self._row.expect_unfinished(connection)
            return distrust(connection, self._history.dialect, self.id, self.day, layer_id, reason)

        return self._history.write(write)

    def distrusted(self) -> dict[str, str]:
        """The layers in which this harvest, in whatever process, has withdrawn trust, with the reasons."""
        query = (
            select(layers.c.name, proofs.c.withdrawn)
            .join_from(proofs, layers, layers.c.id == proofs.c.layer)
            .where(proofs.c.harvest == self.id, proofs.c.withdrawn.is_not(None))
        )
        return self._history.read(
            lambda connection: {name: reason for name, reason in connection.execute(query)}  # noqa: C416
        )

    def _id_of(self, layer: str) -> int:
        if layer not in self._layer_ids:
            raise ValueError(f"layer '{layer}' does not belong to this harvest")
        return self._layer_ids[layer]
