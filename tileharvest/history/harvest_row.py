"""The row of a harvest, and the rows that its end makes: counts and the versions of gone tiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, insert, literal, select, update

from tileharvest.history.areas import is_provisionally_gone
from tileharvest.history.day_costs import COST_COLUMNS, add_spending
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.proofs import prove_layers
from tileharvest.history.recorder import counting
from tileharvest.history.schema import (
    BLOCK_LEVELS,
    FINISHED,
    PUSHED_WALK,
    changes,
    harvest_counts,
    harvests,
    insert_into,
    layers,
    tiles,
    versions,
)
from tileharvest.history.trust import count_skipped, settle
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from datetime import date, datetime

    from sqlalchemy import ColumnElement, Connection, Select

    from tileharvest.history.costs import Cost

_TILE: Final = ("layer", "zoom", "x", "y")


@dataclass(frozen=True, slots=True)
class HarvestRow:
    """One harvest in the database. Each method is a part of the transaction that it is given."""

    id: int
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
        query = select(harvests.c.id, harvests.c.day, harvests.c.started, harvests.c.walk).where(
            harvests.c.map == map_id, harvests.c.ended.is_(None)
        )
        if segment is not None:
            query = query.where(harvests.c.segment == segment)
        row = connection.execute(query).one_or_none()
        return None if row is None else cls(row.id, row.day, row.started, is_pushed=row.walk == PUSHED_WALK)

    def add_cost(self, connection: Connection, cost: Cost, *, unless_ended: bool) -> None:
        """Adds the cost to the harvest, whose row is then locked until the transaction ends.

        With `unless_ended` it raises HarvestEndedError, and adds nothing, when the harvest has ended.
        """
        adding = (
            update(harvests)
            .where(harvests.c.id == self.id)
            .values({name: harvests.c[name] + getattr(cost, name) for name in COST_COLUMNS})
        )
        if unless_ended:
            adding = adding.where(harvests.c.ended.is_(None))
        if connection.execute(adding).rowcount == 0:
            self.refuse_ended(connection)

    def add_spending(self, connection: Connection, day: date, cost: Cost) -> None:
        """Adds the cost to what the harvest's map has cost on that day."""
        add_spending(connection, select(harvests.c.map).where(harvests.c.id == self.id), day, cost)

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

    def end(self, connection: Connection, ended: datetime, reason: str, *, is_complete: bool = False) -> None:
        """Keeps the end and the counts. Raises HarvestEndedError when the harvest has ended already.

        Tiles that are still provisionally gone are not counted: only recorded versions count. Why the last
        run stopped is forgotten where the harvest is finished. What was seen on the way is trusted only
        where `is_complete` says so.
        """
        ending = (
            update(harvests)
            .where(harvests.c.id == self.id, harvests.c.ended.is_(None))
            .values({"ended": ended, "reason": reason} | ({"stopped": None} if reason == FINISHED else {}))
        )
        if connection.execute(ending).rowcount == 0:
            self.refuse_ended(connection)
        self._keep_counts(connection, tiles.c.outcome != Outcome.GONE.value)
        self._keep_count_of_skipped(connection)
        settle(connection, self.id, is_complete=is_complete)

    def end_and_settle(self, connection: Connection, ended: datetime, reason: str) -> None:
        """Ends a complete harvest: each tile found gone gets the version that says so.

        One that asked only what was pushed proves nothing, and nothing is trusted by it.
        """
        self.end(connection, ended, reason, is_complete=not self.is_pushed)
        self._keep_counts(connection, tiles.c.outcome == Outcome.GONE.value)
        self._record_gone(connection)
        if not self.is_pushed:
            prove_layers(connection, connection.dialect.name, self.id)

    def end_and_take_back(self, connection: Connection, ended: datetime, reason: str) -> None:
        """Ends the harvest, and leaves nothing of what was found gone."""
        self.end(connection, ended, reason)
        connection.execute(
            update(tiles).where(self._was_found_gone()).values(harvest=None, outcome=None, reason=None)
        )

    def counts(self, connection: Connection) -> dict[Outcome, int]:
        """Returns the tiles per outcome, for outcomes that occurred; those so far, while it is unfinished.

        For an unfinished harvest this reads all tiles of the map.
        """
        kept = select(harvest_counts).where(harvest_counts.c.harvest == self.id)
        is_ended = self.reason(connection) is not None
        counted: Counter[Outcome] = Counter()
        for row in connection.execute(kept if is_ended else self._counted()):
            counted[Outcome(row.outcome)] += row.tiles
        if not is_ended:
            counted.update({Outcome.SKIPPED: sum(count_skipped(connection, self.id).values())})
        return {outcome: count for outcome, count in counted.items() if count}

    def _counted(self) -> Select[Any]:
        """Selects layer, outcome and number of tiles from the results. Reads all tiles of the map."""
        return (
            select(tiles.c.layer, tiles.c.outcome, func.count().label("tiles"))
            .where(self._is_of_its_map(), tiles.c.harvest == self.id)
            .group_by(tiles.c.layer, tiles.c.outcome)
        )

    def _keep_counts(self, connection: Connection, condition: ColumnElement[bool]) -> None:
        counted = self._counted().where(condition).subquery()
        rows = select(literal(self.id), counted.c.layer, counted.c.outcome, counted.c.tiles)
        columns = ["harvest", "layer", "outcome", "tiles"]
        connection.execute(insert(harvest_counts).from_select(columns, rows))

    def _keep_count_of_skipped(self, connection: Connection) -> None:
        rows = [
            {"harvest": self.id, "layer": layer, "outcome": Outcome.SKIPPED.value, "tiles": count}
            for layer, count in count_skipped(connection, self.id).items()
        ]
        if rows:
            connection.execute(insert(harvest_counts), rows)

    def _record_gone(self, connection: Connection) -> None:
        """Records only tiles whose latest version has an image: what is gone already is not gone again."""
        dialect = connection.dialect.name
        had_image = self._was_found_gone() & versions.c.sha1.is_not(None)
        self._count_changes(connection, had_image)
        gone = (
            select(*(tiles.c[name] for name in _TILE), literal(self.day), literal(self.id))
            .join_from(tiles, versions, versions.c.id == tiles.c.version)
            .where(had_image)
        )
        statement = insert_into(dialect, versions).from_select([*_TILE, "day", "harvest"], gone)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=[versions.c[name] for name in (*_TILE, "day")],
                set_={
                    **dict.fromkeys(("sha1", "extension", "size", "etag", "last_modified")),
                    "harvest": statement.excluded.harvest,
                },
            )
        )
        self._point_at_gone(connection)

    def _count_changes(self, connection: Connection, condition: ColumnElement[bool]) -> None:
        """Counts the tiles that fulfil the condition, before their versions are recorded.

        A tile whose latest version is of this day has been counted for it already.
        """
        # Grouped outside, where the block has a name: PostgreSQL takes no two parameters for the same.
        changed = (
            select(
                tiles.c.layer,
                tiles.c.zoom,
                _block_centre(tiles.c.x).label("x"),
                _block_centre(tiles.c.y).label("y"),
            )
            .join_from(tiles, versions, versions.c.id == tiles.c.version)
            .where(condition, versions.c.day < self.day)
            .subquery("changed")
        )
        block = list(changed.c)
        counted = select(*block, literal(self.day), func.count()).group_by(*block)
        rows = insert_into(connection.dialect.name, changes).from_select(list(changes.c.keys()), counted)
        connection.execute(counting(rows))

    def _point_at_gone(self, connection: Connection) -> None:
        gone = (
            select(versions.c.id)
            .where(versions.c.day == self.day, *(versions.c[name] == tiles.c[name] for name in _TILE))
            .scalar_subquery()
        )
        pointing = update(tiles).where(self._was_found_gone())
        connection.execute(pointing.values(version=func.coalesce(gone, tiles.c.version)))

    def _was_found_gone(self) -> ColumnElement[bool]:
        return self._is_of_its_map() & is_provisionally_gone(self.id)

    def _is_of_its_map(self) -> ColumnElement[bool]:
        """Says of a tile whether it belongs to the harvest's map; this keeps a scan to that map."""
        its_map = select(harvests.c.map).where(harvests.c.id == self.id).scalar_subquery()
        return tiles.c.layer.in_(select(layers.c.id).where(layers.c.map == its_map))


def _block_centre(centre: ColumnElement[int]) -> ColumnElement[int]:
    """Along one axis, the centre of the block of `changes` in which a tile with this centre lies.

    Computes what `Tile.ancestor` does. SQLite and PostgreSQL shift to the right as Python does, rounding
    downwards.
    """
    reach = literal(1).bitwise_lshift(BLOCK_LEVELS - tiles.c.zoom)
    bits = BLOCK_LEVELS + 1 - tiles.c.zoom
    return centre.bitwise_rshift(bits).bitwise_lshift(bits) + reach
