"""Change indexes as harvests have read them, what has changed by them, and whether they are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, exists, or_, select, update

from tileharvest.history.results import cells_of, found_by
from tileharvest.history.schema import (
    blocks,
    change_indexes,
    harvest_counts,
    harvest_layers,
    insert_into,
    is_of_map,
    layers,
    proofs,
)
from tileharvest.tiles.outcomes import CHANGED, Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.walk.change_index import ChangedGround, ChangeIndex, StoredIndex

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from sqlalchemy import Connection, Select

    from tileharvest.history.database import History

IS_TRUSTED: Final = ~exists().where(
    proofs.c.layer == bindparam("in_layer"),
    proofs.c.harvest == bindparam("in_harvest"),
    proofs.c.withdrawn.is_not(None),
)
"""Whether the harvest `in_harvest` has not withdrawn trust in the layer `in_layer`."""


def stored_indexes(history: History, map_name: str) -> dict[str, StoredIndex]:
    """Returns the stored change index of each layer of a map. Layers for which no complete harvest has read
    an index are left out."""
    query = (
        select(layers.c.name, change_indexes)
        .join_from(change_indexes, layers, layers.c.id == change_indexes.c.layer)
        .where(change_indexes.c.state.is_not(None), is_of_map(layers, map_name))
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    return {
        row.name: StoredIndex(
            ChangeIndex.read(row.state), row.day, row.confirmed, row.withdrawn, row.withdrawn_day
        )
        for row in rows
    }


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
    if connection.execute(_readings_of(harvest)).first() is not None:
        return
    for name, index in read.items():
        layer, ground = layer_ids[name], None
        changed = index.changed_since(relied_on[name].index) if name in relied_on else None
        if changed is not None:
            failing = connection.execute(select(blocks).where(blocks.c.layer == layer, blocks.c.failing != 0))
            cells = changed.union(*(cells_of(one.zoom, one.column, one.row, one.failing) for one in failing))
            ground = ChangedGround(cells, _pyramid_of(connection, harvest, layer)).written()
        reading = {"read_by": harvest, "read_state": index.written(), "ground": ground}
        noting = insert_into(change_indexes).values(layer=layer, confirmed=0, **reading)
        connection.execute(noting.on_conflict_do_update(index_elements=["layer"], set_=reading))


def _readings_of(harvest: int) -> Select[Any]:
    return select(change_indexes).where(change_indexes.c.read_by == harvest)


def ground_of(
    connection: Connection, harvest: int, layer: int, *, is_kept: bool = True
) -> ChangedGround | None:
    """Returns the ground to which the harvest's walk over the layer keeps, or None if it asks for all tiles.

    With `is_kept=False` it returns the ground to which the walk kept when it began, even if trust was
    withdrawn since.
    """
    query = select(change_indexes.c.ground).where(
        change_indexes.c.read_by == harvest, change_indexes.c.layer == layer
    )
    if is_kept:
        query = query.where(IS_TRUSTED)
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

    Call it after `trust.prove_layers`, at the end of a harvest. An index that has missed a change is not
    relied on any more. It is relied on again after a later harvest that has found changes, all of which the
    index has named. If the harvest itself has withdrawn the index, it stays withdrawn.
    """
    for row in connection.execute(_readings_of(harvest)).all():
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
    elif _has_failed(connection, row.harvest, row.layer):
        # Tiles that failed then may be found changed now, and the index has named these changes earlier.
        return as_before
    else:
        changed = ChangeIndex.read(row.read_state).changed_since(ChangeIndex.read(row.state))
        named = None if changed is None else ChangedGround(changed, pyramid)
    results = found_by(connection, harvest, row.layer, {*CHANGED, Outcome.GONE})
    found = [cell for one in results for cell in one.cells(one.changed | one.of(Outcome.GONE))]
    unnamed = [] if named is None else [cell for cell in found if cell not in named]
    if unnamed:
        zoom, x, y = unnamed[0]
        reason = f"it did not list tile {zoom}_{x}_{y}, which had changed, found on {day}"
        return {"confirmed": 0, "withdrawn": reason, "withdrawn_day": day}
    if row.withdrawn is None:
        return {**as_before, "confirmed": row.confirmed + 1}
    return {"confirmed": 0, "withdrawn": None, "withdrawn_day": None} if found else as_before


def _has_failed(connection: Connection, harvest: int, layer: int) -> bool:
    """Returns whether any tile of the layer has failed in an earlier harvest."""
    place = (harvest_counts.c.harvest == harvest, harvest_counts.c.layer == layer)
    query = select(harvest_counts.c.tiles).where(*place, harvest_counts.c.outcome == Outcome.FAILED.value)
    return connection.execute(query).first() is not None


def _pyramid_of(connection: Connection, harvest: int, layer: int) -> Pyramid:
    query = (
        select(harvest_layers.c.depth, layers.c.factor)
        .join_from(harvest_layers, layers, layers.c.id == harvest_layers.c.layer)
        .where(harvest_layers.c.harvest == harvest, harvest_layers.c.layer == layer)
    )
    depth, factor = connection.execute(query).one()
    return Pyramid.kept(depth, factor)
