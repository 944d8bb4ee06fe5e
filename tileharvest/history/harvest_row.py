"""The row of a harvest: how it begins, and what its end makes, counts and the versions of gone tiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from tileharvest.errors import AlreadyHarvestedError, HistoryError
from tileharvest.history.areas import is_provisionally_gone
from tileharvest.history.day_costs import COST_COLUMNS
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.outlines import layer_row, own_map_id
from tileharvest.history.proofs import prove_layers
from tileharvest.history.recorder import record_versions, version_row
from tileharvest.history.schema import (
    FINISHED,
    INTERRUPTED,
    PUSHED_WALK,
    TILE,
    batches,
    harvest_counts,
    harvest_layers,
    harvests,
    insert_into,
    layers,
    replace_into,
    tiles,
    versions,
)
from tileharvest.history.trust import count_skipped, settle
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from sqlalchemy import ColumnElement, Connection, Update

    from tileharvest.history.costs import Cost
    from tileharvest.tiles.layers import Layer

_GONE_AT_ONCE: Final = 5_000
"""Tiles per statement: a few megabytes of rows."""


@dataclass(frozen=True, slots=True)
class HarvestRow:
    """One harvest in the database. Each method is a part of the transaction that it is given."""

    id: int
    map: int
    """Its map's id."""
    day: date
    """The day of all versions that it records."""
    started: datetime
    continued: bool = True
    """False where this process has begun it."""
    is_pushed: bool = False
    """Whether it asks for nothing but what a person has pushed."""

    @classmethod
    def unfinished(cls, connection: Connection, map_id: int, segment: str | None = None) -> HarvestRow | None:
        """Returns the map's unfinished harvest, of this segment if one is named; None if there is none."""
        query = select(harvests).where(harvests.c.map == map_id, harvests.c.ended.is_(None))
        if segment is not None:
            query = query.where(harvests.c.segment == segment)
        row = connection.execute(query).one_or_none()
        if row is None:
            return None
        return cls(row.id, map_id, row.day, row.started, is_pushed=row.walk == PUSHED_WALK)

    def add_cost(self, connection: Connection, cost: Cost, *, unless_ended: bool) -> None:
        """Adds the cost to the harvest, whose row is then locked until the transaction ends.

        With `unless_ended` it raises HarvestEndedError, and adds nothing, when the harvest has ended.
        """
        more = {f"more_{name}": getattr(cost, name) for name in COST_COLUMNS}
        adding = _adding_cost(unless_ended=unless_ended)
        if connection.execute(adding, {"its_id": self.id, **more}).rowcount == 0:
            self.refuse_ended(connection)

    def reason(self, connection: Connection) -> str | None:
        """Returns the word with which the harvest has ended; None while it has not."""
        query = select(harvests.c.reason).where(harvests.c.id == self.id)
        reason: str | None = connection.execute(query).scalar()
        return reason

    def refuse_ended(self, connection: Connection) -> None:
        """Raises HarvestEndedError when the harvest has ended."""
        reason = self.reason(connection)
        if reason is not None:
            raise HarvestEndedError.of(self.id, reason)

    def end(self, connection: Connection, ended: datetime, reason: str, *, settle_gone: bool = False) -> None:
        """Keeps the end and the counts. Raises HarvestEndedError when the harvest has ended already.

        With `settle_gone` the harvest is complete. Then each tile found gone gets the version that says so,
        and what was seen on the way is trusted. Else what was found gone is not counted, and unless the
        harvest was interrupted nothing remains of it. A harvest that asked only what was pushed proves
        nothing, and nothing is trusted by it. Why the last run stopped is forgotten where it is finished.
        """
        ending = (
            update(harvests)
            .where(harvests.c.id == self.id, harvests.c.ended.is_(None))
            .values({"ended": ended, "reason": reason} | ({"stopped": None} if reason == FINISHED else {}))
        )
        if connection.execute(ending).rowcount == 0:
            self.refuse_ended(connection)
        counts = self._counted(connection)
        kept = [row for row in counts if settle_gone or row["outcome"] != Outcome.GONE.value]
        if kept:
            connection.execute(insert(harvest_counts), kept)
        is_proving = settle_gone and not self.is_pushed
        settle(connection, self.id, is_complete=is_proving)
        if settle_gone:
            self._record_gone(connection)
        elif reason != INTERRUPTED:
            nothing = dict.fromkeys(("harvest", "outcome", "reason"))
            connection.execute(update(tiles).where(self._was_found_gone()).values(nothing))
        if is_proving:
            prove_layers(connection, self.id)

    def counts(self, connection: Connection) -> dict[Outcome, int]:
        """Returns the tiles per outcome, for outcomes that occurred; those so far, while it is unfinished.

        For an unfinished harvest this reads all tiles of the map.
        """
        if self.reason(connection) is None:
            rows = self._counted(connection)
        else:
            kept = select(harvest_counts).where(harvest_counts.c.harvest == self.id)
            rows = [dict(row) for row in connection.execute(kept).mappings()]
        counted: Counter[Outcome] = Counter()
        for row in rows:
            counted[Outcome(row["outcome"])] += row["tiles"]
        return dict(counted)

    def _counted(self, connection: Connection) -> list[dict[str, Any]]:
        """Returns the rows of `harvest_counts` that follow from the results. Reads all tiles of the map."""
        query = (
            select(tiles.c.layer, tiles.c.outcome, func.count())
            .where(self._is_of_its_map(), tiles.c.harvest == self.id)
            .group_by(tiles.c.layer, tiles.c.outcome)
        )
        found = [(layer, outcome, count) for layer, outcome, count in connection.execute(query)]
        skipped = count_skipped(connection, self.id).items()
        found += [(layer, Outcome.SKIPPED.value, count) for layer, count in skipped]
        return [
            {"harvest": self.id, "layer": layer, "outcome": outcome, "tiles": count}
            for layer, outcome, count in found
        ]

    def _record_gone(self, connection: Connection) -> None:
        """Records only tiles whose latest version has an image: what is gone already is not gone again.

        Takes about 40 microseconds of CPU per tile.
        """
        had_image = (
            select(*(tiles.c[name] for name in TILE))
            .join_from(tiles, versions, versions.c.id == tiles.c.version)
            .where(self._was_found_gone(), versions.c.sha1.is_not(None))
        )
        gone = Version(self.day, None)
        places = connection.execute(had_image).all()
        for start in range(0, len(places), _GONE_AT_ONCE):
            part = places[start : start + _GONE_AT_ONCE]
            record_versions(connection, [version_row(place, gone, self.id) for place in part])

    def _was_found_gone(self) -> ColumnElement[bool]:
        return self._is_of_its_map() & is_provisionally_gone(self.id)

    def _is_of_its_map(self) -> ColumnElement[bool]:
        """Says of a tile whether it belongs to the harvest's map; this keeps a scan to that map."""
        return tiles.c.layer.in_(select(layers.c.id).where(layers.c.map == self.map))


@dataclass(slots=True)
class Beginning:
    """Begins a harvest, or continues the unfinished one of its segment, within a transaction.

    Raises ValueError without layers, and for a layer that is there twice.
    """

    map_name: str
    segment: str
    day: date
    started: datetime
    """With a time zone."""
    renderer: str
    layers: Sequence[Layer]
    """As the site describes them now."""
    again: bool = False
    """Whether one is begun though a harvest of the segment is finished."""
    pushed: bool = False
    """Whether that one asks for nothing but what a person has pushed. It ends where `again` asks for all."""
    _inserted: int | None = field(default=None, init=False)
    """The id that an earlier call has inserted, in a transaction that may have been committed or not."""

    def __post_init__(self) -> None:
        if len({layer.name for layer in self.layers}) != len(self.layers) or not self.layers:
            raise ValueError("a harvest has at least one layer, and each once")

    def __call__(self, connection: Connection) -> tuple[HarvestRow, dict[str, int]]:
        """Returns the harvest, and its layers' ids by name.

        It can be called again when the answer to a commit was lost.
        """
        map_id = own_map_id(connection, self.map_name)
        row = HarvestRow.unfinished(connection, map_id, self.segment)
        if row is None or (row.is_pushed and self.again):
            row = self._insert(connection, map_id)
        else:
            # Why its last run ended counts no longer.
            connection.execute(update(harvests).where(harvests.c.id == row.id).values(stopped=None))
        if row.id == self._inserted:
            row = replace(row, continued=False)
        self._describe_layers(connection, map_id, row.id)
        its_layers = (
            select(layers.c.name, layers.c.id)
            .join_from(layers, harvest_layers, harvest_layers.c.layer == layers.c.id)
            .where(harvest_layers.c.harvest == row.id)
        )
        return row, {name: id_ for name, id_ in connection.execute(its_layers)}  # noqa: C416

    def _insert(self, connection: Connection, map_id: int) -> HarvestRow:
        if not (self.again or self.pushed):
            self._refuse_finished(connection, map_id)
        self._refuse_backwards(connection, map_id)
        other = HarvestRow.unfinished(connection, map_id)
        if other is not None:
            other.end(connection, self.started, INTERRUPTED)
        its_harvests = select(harvests.c.id).where(harvests.c.map == map_id)
        # They tell whether a commit of an unfinished harvest took effect, and all of those have ended.
        connection.execute(delete(batches).where(batches.c.harvest.in_(its_harvests)))
        new = insert(harvests).values(
            map=map_id,
            segment=self.segment,
            day=self.day,
            started=self.started,
            renderer=self.renderer,
            requests=0,
            received_bytes=0,
            stored_bytes=0,
            walk=PUSHED_WALK if self.pushed else None,
        )
        harvest = connection.execute(new.returning(harvests.c.id)).scalar_one()
        self._inserted = harvest
        return HarvestRow(harvest, map_id, self.day, self.started, continued=False, is_pushed=self.pushed)

    def _describe_layers(self, connection: Connection, map_id: int, harvest: int) -> None:
        """Keeps what the site says about the layers, in place of what it said earlier in this harvest."""
        dialect = connection.dialect.name
        names = [{"map": map_id, "name": layer.name, "factor": layer.pyramid.factor} for layer in self.layers]
        connection.execute(insert_into(dialect, layers).on_conflict_do_nothing(), names)
        rows = connection.execute(select(layers.c.name, layers.c.id).where(layers.c.map == map_id))
        ids: dict[str, int] = {row.name: row.id for row in rows}
        connection.execute(
            replace_into(dialect, harvest_layers, "harvest", "layer"),
            [{"harvest": harvest, "layer": ids[layer.name], **layer_row(layer)} for layer in self.layers],
        )

    def _refuse_finished(self, connection: Connection, map_id: int) -> None:
        query = select(func.max(harvests.c.ended)).where(
            harvests.c.map == map_id,
            harvests.c.segment == self.segment,
            harvests.c.reason == FINISHED,
        )
        ended: datetime | None = connection.execute(query).scalar()
        if ended is not None:
            raise AlreadyHarvestedError(
                f"map '{self.map_name}' is already harvested for {self.segment}, since"
                f" {ended:%Y-%m-%d %H:%M} UTC; nothing was changed"
            )

    def _refuse_backwards(self, connection: Connection, map_id: int) -> None:
        """Reads an index of all versions of the map, but only where one of its harvests is of a later day."""
        later = select(harvests.c.id).where(harvests.c.map == map_id, harvests.c.day > self.day)
        if connection.execute(later.limit(1)).first() is None:
            return
        its_layers = select(layers.c.id).where(layers.c.map == map_id)
        query = select(func.max(versions.c.day)).where(versions.c.layer.in_(its_layers))
        latest: date | None = connection.execute(query).scalar()
        if latest is not None and self.day < latest:
            raise HistoryError(
                f"the history of map '{self.map_name}' has versions of {latest} already: history is only"
                f" written forwards, so {self.day} cannot be harvested; nothing was changed; check this"
                " computer's clock"
            )


@cache
def _adding_cost(*, unless_ended: bool) -> Update:
    """Made once: to make it takes longer than to carry it out."""
    more = {name: harvests.c[name] + bindparam(f"more_{name}") for name in COST_COLUMNS}
    adding = update(harvests).where(harvests.c.id == bindparam("its_id")).values(more)
    return adding.where(harvests.c.ended.is_(None)) if unless_ended else adding
