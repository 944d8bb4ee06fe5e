"""Beginning a harvest: the rows of its map, of itself and of its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select

from tileharvest.errors import HistoryError
from tileharvest.history import ending
from tileharvest.history.recording import insert_into
from tileharvest.history.schema import harvest_layers, harvests, layers, maps, versions

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
    continued: bool


def map_id(connection: Connection, name: str) -> int:
    """The map's id; an unknown map gets one. Locks the map until the transaction ends."""
    # SQLite has one writer anyway and leaves FOR UPDATE out.
    query = select(maps.c.id).where(maps.c.name == name).with_for_update()
    found: int | None = connection.execute(query).scalar()
    if found is not None:
        return found
    return int(connection.execute(insert(maps).values(name=name).returning(maps.c.id)).scalar_one())


def unfinished(connection: Connection, map_id: int, segment: str) -> HarvestRow | None:
    """The map's unfinished harvest of this segment."""
    query = select(harvests.c.id, harvests.c.day).where(
        harvests.c.map == map_id, harvests.c.segment == segment, harvests.c.ended.is_(None)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else HarvestRow(row.id, row.day, continued=True)


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
        ending.end(connection, harvest, ended, ending.INTERRUPTED)


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
    return HarvestRow(harvest, new.day, continued=False)


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
