"""Change indexes as harvests have read them, what has changed by them, and whether they are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, exists, or_, select, update

from tileharvest.history.results import changed_by
from tileharvest.history.schema import (
    change_indexes,
    failures,
    harvest_counts,
    harvest_layers,
    insert_into,
    layers,
    maps,
    proofs,
)
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.walk.change_index import ChangedGround, ChangeIndex, StoredIndex

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.tiles.grid import Cell

_ITS_READINGS: Final = select(change_indexes).where(change_indexes.c.read_by == bindparam("in_harvest"))
_NOTED_GROUND: Final = select(change_indexes.c.ground).where(
    change_indexes.c.read_by == bindparam("in_harvest"), change_indexes.c.layer == bindparam("in_layer")
)
_READ: Final = insert_into(change_indexes).values(
    {name: bindparam(name) for name in ("layer", "read_by", "read_state", "ground")} | {"confirmed": 0}
)
_NOTE: Final = _READ.on_conflict_do_update(
    index_elements=[change_indexes.c.layer],
    set_={name: _READ.excluded[name] for name in ("read_by", "read_state", "ground")},
)
IS_TRUSTED: Final = ~exists().where(
    proofs.c.layer == bindparam("in_layer"),
    proofs.c.harvest == bindparam("in_harvest"),
    proofs.c.withdrawn.is_not(None),
)
"""Whether the harvest `in_harvest` has not withdrawn trust in the layer `in_layer`."""
_GROUND: Final = _NOTED_GROUND.where(IS_TRUSTED)
_FORM: Final = (
    select(harvest_layers.c.depth, layers.c.factor)
    .join_from(harvest_layers, layers, layers.c.id == harvest_layers.c.layer)
    .where(
        harvest_layers.c.harvest == bindparam("in_harvest"), harvest_layers.c.layer == bindparam("in_layer")
    )
)
_FAILING: Final = select(failures.c.zoom, failures.c.x, failures.c.y).where(
    failures.c.layer == bindparam("in_layer")
)
_FAILED: Final = select(harvest_counts.c.tiles).where(
    harvest_counts.c.harvest == bindparam("in_harvest"),
    harvest_counts.c.layer == bindparam("in_layer"),
    harvest_counts.c.outcome == Outcome.FAILED.value,
)
_STORED: Final = (
    select(maps.c.name.label("map_name"), layers.c.name, change_indexes)
    .join_from(change_indexes, layers, layers.c.id == change_indexes.c.layer)
    .join(maps, maps.c.id == layers.c.map)
    .where(change_indexes.c.state.is_not(None))
)
_STORED_OF_ONE: Final = _STORED.where(maps.c.name == bindparam("map_name"))


def stored_indexes(history: History, map_name: str | None = None) -> dict[str, dict[str, StoredIndex]]:
    """Returns the stored change index of each layer, by map and layer: of all maps, or of the named one.

    Layers and maps for which no complete harvest has read an index are left out.
    """
    query = _STORED if map_name is None else _STORED_OF_ONE
    found: dict[str, dict[str, StoredIndex]] = {}
    with history.reading() as connection:
        for row in connection.execute(query, {"map_name": map_name}):
            index = ChangeIndex.read(row.state)
            stored = StoredIndex(index, row.day, row.confirmed, row.withdrawn, row.withdrawn_day)
            found.setdefault(row.map_name, {})[row.name] = stored
    return found


def note_readings(
    connection: Connection,
    harvest: int,
    layer_ids: Mapping[str, int],
    read: Mapping[str, ChangeIndex],
    relied_on: Mapping[str, StoredIndex],
) -> None:
    """Notes the indexes that a harvest has read before it asked for any tile, by layer.

    A layer whose index is relied on also gets a ground: the tiles that have changed by the index since it was
    stored, and the tiles whose last result is a failure, because nobody knows their state. The first note of
    a harvest stays.
    """
    if connection.execute(_ITS_READINGS, {"in_harvest": harvest}).first() is not None:
        return
    rows = []
    for name, index in read.items():
        changed = None
        if name in relied_on:
            changed = index.changed_since(relied_on[name].index)
        ground = None
        if changed is not None:
            cells = changed.union(_failing(connection, layer_ids[name]))
            ground = ChangedGround(cells, _pyramid_of(connection, harvest, layer_ids[name])).written()
        its = {"layer": layer_ids[name], "read_by": harvest}
        rows.append({**its, "read_state": index.written(), "ground": ground})
    if rows:
        connection.execute(_NOTE, rows)


def ground_of(
    connection: Connection, harvest: int, layer: int, *, is_kept: bool = True
) -> ChangedGround | None:
    """Returns the ground to which the harvest's walk over the layer keeps, or None if it asks for all tiles.

    With `is_kept=False` it returns the ground to which the walk kept when it began, even if trust was
    withdrawn since.
    """
    query = _GROUND if is_kept else _NOTED_GROUND
    text: str | None = connection.execute(query, {"in_harvest": harvest, "in_layer": layer}).scalar()
    return None if text is None else ChangedGround.read(text, _pyramid_of(connection, harvest, layer))


def withdraw(connection: Connection, harvest: int, day: date, layer: int, reason: str) -> None:
    """Notes that the layer's index is not relied on any more. The harvest's first reason is kept."""
    is_news = or_(change_indexes.c.harvest != harvest, change_indexes.c.withdrawn.is_(None))
    connection.execute(
        update(change_indexes)
        .where(change_indexes.c.layer == layer, change_indexes.c.state.is_not(None), is_news)
        .values(harvest=harvest, confirmed=0, withdrawn=reason, withdrawn_day=day)
    )


def store_indexes(connection: Connection, harvest: int, day: date) -> None:
    """Stores the indexes that a complete harvest has read, and judges whether they have named all changes.

    Call it after `proofs.prove_layers`, at the end of a harvest. An index that has missed a change is not
    relied on any more. It is relied on again after a later harvest that has found changes, all of which the
    index has named. If the harvest itself has withdrawn the index, it stays withdrawn.
    """
    for row in connection.execute(_ITS_READINGS, {"in_harvest": harvest}).all():
        new: dict[str, Any] = {"confirmed": 0, "withdrawn": None, "withdrawn_day": None}
        if row.state is not None:
            new = _verdict(connection, harvest, day, row)
        new |= {"harvest": harvest, "day": day, "state": row.read_state}
        new |= {"read_by": None, "read_state": None, "ground": None}
        connection.execute(update(change_indexes).where(change_indexes.c.layer == row.layer).values(new))


def _verdict(connection: Connection, harvest: int, day: date, row: Any) -> dict[str, Any]:
    """Returns the columns that say how far the index is trusted, by the row before the harvest ends."""
    as_before = {name: getattr(row, name) for name in ("confirmed", "withdrawn", "withdrawn_day")}
    if row.withdrawn is not None and row.harvest == harvest:
        return as_before
    pyramid = _pyramid_of(connection, harvest, row.layer)
    if row.ground is not None:
        named: ChangedGround | None = ChangedGround.read(row.ground, pyramid)
    elif connection.execute(_FAILED, {"in_harvest": row.harvest, "in_layer": row.layer}).first():
        # Tiles that failed then may be found changed now, and the index has named these changes earlier.
        return as_before
    else:
        changed = ChangeIndex.read(row.read_state).changed_since(ChangeIndex.read(row.state))
        named = None if changed is None else ChangedGround(changed, pyramid)
    found = list(changed_by(connection, harvest, row.layer))
    unnamed = [] if named is None else [cell for cell in found if cell not in named]
    if unnamed:
        zoom, x, y = unnamed[0]
        reason = f"it did not list tile {zoom}_{x}_{y}, which had changed, found on {day}"
        return {"confirmed": 0, "withdrawn": reason, "withdrawn_day": day}
    if row.withdrawn is None:
        return {**as_before, "confirmed": row.confirmed + 1}
    return {"confirmed": 0, "withdrawn": None, "withdrawn_day": None} if found else as_before


def _failing(connection: Connection, layer: int) -> list[Cell]:
    return [(zoom, x, y) for zoom, x, y in connection.execute(_FAILING, {"in_layer": layer})]


def _pyramid_of(connection: Connection, harvest: int, layer: int) -> Pyramid:
    depth, factor = connection.execute(_FORM, {"in_harvest": harvest, "in_layer": layer}).one()
    return Pyramid.kept(depth, factor)
