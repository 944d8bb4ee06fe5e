"""Beginning a harvest: the rows of its map, of itself and of its layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select, update

from tileharvest.errors import HistoryError
from tileharvest.history import ending
from tileharvest.history.errors import SegmentFinishedError
from tileharvest.history.inserting import insert_into
from tileharvest.history.schema import (
    FINISHED,
    INTERRUPTED,
    batches,
    harvest_layers,
    harvests,
    layers,
    maps,
    versions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection

    from tileharvest.history.harvests import HarvestLayer


@dataclass(frozen=True, slots=True)
class NewHarvest:
    """What a harvest is from its beginning on."""

    segment: str
    day: date
    started: datetime
    """With a time zone."""
    renderer: str


@dataclass(frozen=True, slots=True)
class HarvestRow:
    """What identifies a harvest in the database, and the day of its versions."""

    id: int
    day: date
    started: datetime
    continued: bool


@dataclass(slots=True)
class Beginning:
    """Begins a harvest, or continues the unfinished one of its segment, within a transaction."""

    map_name: str
    new: NewHarvest
    layers: Sequence[HarvestLayer]
    """What the site says about them now."""
    again: bool
    """Whether one is begun though a harvest of the segment is finished."""
    _inserted: int | None = field(default=None, init=False)
    """The id of what an earlier call has begun, whose transaction may have been committed or not."""

    def __call__(self, connection: Connection) -> tuple[HarvestRow, dict[str, int]]:
        """The harvest, and its layers' ids by name. Can be called again when a commit got no answer."""
        its_map = map_id(connection, self.map_name)
        row = unfinished(connection, its_map, self.new.segment)
        if row is None:
            row = self._insert(connection, its_map)
        else:
            note_going_on(connection, row.id)
        if row.id == self._inserted:
            row = replace(row, continued=False)
        describe_layers(connection, connection.dialect.name, row.id, its_map, self.layers)
        return row, layer_ids(connection, row.id)

    def _insert(self, connection: Connection, its_map: int) -> HarvestRow:
        if not self.again:
            refuse_finished(connection, its_map, self.map_name, self.new.segment)
        refuse_backwards(connection, its_map, self.map_name, self.new.day)
        interrupt(connection, its_map, self.new.started)
        forget_batches(connection, its_map)
        row = insert_harvest(connection, its_map, self.new)
        self._inserted = row.id
        return row


def map_id(connection: Connection, name: str) -> int:
    """The map's id; an unknown map gets one. Locks the map until the transaction ends."""
    # SQLite has one writer anyway and leaves FOR UPDATE out.
    query = select(maps.c.id).where(maps.c.name == name).with_for_update()
    found: int | None = connection.execute(query).scalar()
    if found is not None:
        return found
    # Another process may insert it just now: this waits for it, and then inserts nothing.
    new = insert_into(connection.dialect.name, maps).values(name=name)
    connection.execute(new.on_conflict_do_nothing())
    return int(connection.execute(query).scalar_one())


def unfinished(connection: Connection, map_id: int, segment: str) -> HarvestRow | None:
    """The map's unfinished harvest of this segment."""
    query = select(harvests.c.id, harvests.c.day, harvests.c.started).where(
        harvests.c.map == map_id, harvests.c.segment == segment, harvests.c.ended.is_(None)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else HarvestRow(row.id, row.day, row.started, continued=True)


def refuse_finished(connection: Connection, map_id: int, name: str, segment: str) -> None:
    """Raises SegmentFinishedError when a harvest of this segment is finished."""
    query = select(func.max(harvests.c.ended)).where(
        harvests.c.map == map_id, harvests.c.segment == segment, harvests.c.reason == FINISHED
    )
    ended: datetime | None = connection.execute(query).scalar()
    if ended is not None:
        raise SegmentFinishedError(
            f"map '{name}' is already harvested for {segment}, since {ended:%Y-%m-%d %H:%M} UTC;"
            " nothing was changed"
        )


def refuse_backwards(connection: Connection, map_id: int, name: str, day: date) -> None:
    """Raises HistoryError when the map has a version of a later day. Reads an index of all versions."""
    its_layers = select(layers.c.id).where(layers.c.map == map_id)
    query = select(func.max(versions.c.day)).where(versions.c.layer.in_(its_layers))
    latest: date | None = connection.execute(query).scalar()
    if latest is not None and day < latest:
        raise HistoryError(
            f"the history of map '{name}' has versions of {latest} already: history is only written"
            f" forwards, so {day} cannot be harvested; nothing was changed; check this computer's clock"
        )


def interrupt(connection: Connection, map_id: int, ended: datetime) -> None:
    """Ends the map's unfinished harvests."""
    query = select(harvests.c.id).where(harvests.c.map == map_id, harvests.c.ended.is_(None))
    for harvest in connection.execute(query).scalars().all():
        ending.end(connection, harvest, ended, INTERRUPTED)


def forget_batches(connection: Connection, map_id: int) -> None:
    """Those of the map's earlier harvests: they have ended."""
    its_harvests = select(harvests.c.id).where(harvests.c.map == map_id)
    connection.execute(delete(batches).where(batches.c.harvest.in_(its_harvests)))


def insert_harvest(connection: Connection, map_id: int, new: NewHarvest) -> HarvestRow:
    statement = insert(harvests).values(
        map=map_id,
        segment=new.segment,
        day=new.day,
        started=new.started,
        renderer=new.renderer,
        requests=0,
        received_bytes=0,
        stored_bytes=0,
    )
    harvest = connection.execute(statement.returning(harvests.c.id)).scalar_one()
    return HarvestRow(harvest, new.day, new.started, continued=False)


def note_going_on(connection: Connection, harvest: int) -> None:
    """Forgets why the last run of the harvest was stopped."""
    connection.execute(update(harvests).where(harvests.c.id == harvest).values(stopped=None))


def expect(connection: Connection, harvest: int, tiles: int) -> int:
    """The first number above 0 that was noted for the harvest: this one, where none was before."""
    first = update(harvests).where(harvests.c.id == harvest, harvests.c.expected == 0)
    connection.execute(first.values(expected=tiles))
    return int(connection.execute(select(harvests.c.expected).where(harvests.c.id == harvest)).scalar_one())


def describe_layers(
    connection: Connection, dialect: str, harvest: int, map_id: int, described: Sequence[HarvestLayer]
) -> None:
    """Keeps what the site says about the layers, in place of what it said earlier in this harvest."""
    names = [{"map": map_id, "name": layer.name} for layer in described]
    connection.execute(insert_into(dialect, layers).on_conflict_do_nothing(), names)
    ids = _all_layer_ids(connection, map_id)
    statement = insert_into(dialect, harvest_layers)
    keys = ("harvest", "layer")
    changing = [column.name for column in harvest_layers.c if column.name not in keys]
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[harvest_layers.c[key] for key in keys],
            set_={name: statement.excluded[name] for name in changing},
        ),
        [_layer_row(harvest, ids[layer.name], layer) for layer in described],
    )


def layer_ids(connection: Connection, harvest: int) -> dict[str, int]:
    """Of the layers that the harvest has had since it began."""
    query = (
        select(layers.c.name, layers.c.id)
        .join_from(layers, harvest_layers, harvest_layers.c.layer == layers.c.id)
        .where(harvest_layers.c.harvest == harvest)
    )
    return {row.name: row.id for row in connection.execute(query)}


def _all_layer_ids(connection: Connection, map_id: int) -> dict[str, int]:
    query = select(layers.c.name, layers.c.id).where(layers.c.map == map_id)
    return {row.name: row.id for row in connection.execute(query)}


def _layer_row(harvest: int, layer: int, described: HarvestLayer) -> dict[str, object]:
    spawn_x, spawn_y, spawn_z = described.spawn or (None, None, None)
    return {
        "harvest": harvest,
        "layer": layer,
        "depth": described.depth,
        "image_extension": described.image_extension,
        "tile_size": described.tile_size,
        "north_direction": described.north_direction,
        "world": described.world,
        "background": described.background,
        "spawn_x": spawn_x,
        "spawn_y": spawn_y,
        "spawn_z": spawn_z,
        "rendered": described.rendered,
    }
