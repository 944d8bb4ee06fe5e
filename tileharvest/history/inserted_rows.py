"""The statements of insertions: they write versions, changes per day, and the counts of ended harvests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, insert, select, update

from tileharvest.history.schema import (
    BLOCK_LEVELS,
    TILE,
    changes,
    harvest_counts,
    insert_into,
    is_tile,
    its_tile,
    replace_into,
    tiles,
    version_row,
    versions,
)
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.insertion import Insertion
    from tileharvest.tiles.grid import Cell
    from tileharvest.tiles.versions import Version

_UNCHANGED: Final = (Outcome.IGNORED, Outcome.NOT_MODIFIED, Outcome.SKIPPED)


def write_insertions(
    connection: Connection, harvest: int, day: date, layer: int, insertions: Mapping[Cell, Insertion]
) -> None:
    """Writes the insertions of one day into the versions of these tiles. Their rows in `tiles` must exist.
    They point at the latest versions afterwards."""
    changed = insertions.values()
    deleted = [{"its_id": one.id} for change in changed for one in change.deleted]
    moved = [
        {"its_id": change.moved.id, "to_day": day, "to_harvest": harvest}
        for change in changed
        if change.moved
    ]
    new = [
        version_row((layer, *cell), version, recorder)
        for cell, change in insertions.items()
        for version, recorder in _new_versions(change, harvest)
    ]
    renewed = [
        {"its_id": one.id, "its_etag": validator.etag, "its_last_modified": validator.last_modified}
        for change in changed
        if change.renewed is not None
        for one, validator in [change.renewed]
    ]
    # The tiles of which a version is added, deleted or moved.
    touched = [
        its_tile(layer, *cell)
        for cell, change in insertions.items()
        if change.deleted or change.moved or change.put or change.restored
    ]
    if deleted:
        # A foreign key: a tile's row must not point at a deleted version.
        connection.execute(_POINT_NOWHERE, touched)
        connection.execute(_DELETE, deleted)
    if moved:
        connection.execute(_MOVE, moved)
    if new:
        connection.execute(replace_into(versions, *TILE, "day"), new)
    if renewed:
        connection.execute(_RENEW, renewed)
    if touched:
        connection.execute(_POINT_AT_LATEST, touched)
    _count_changes(connection, layer, _counted(day, insertions))


def _new_versions(change: Insertion, harvest: int) -> Iterator[tuple[Version, int]]:
    """Yields the new versions, each with the harvest that has recorded it."""
    if change.put is not None:
        yield change.put, harvest
    if change.restored is not None:
        version, claim = change.restored
        yield version, claim.harvest


def _counted(day: date, insertions: Mapping[Cell, Insertion]) -> Counter[tuple[int, int, int, date]]:
    """Returns how many more versions there are, by zoom, x and y of the block, and day. Numbers may be
    negative."""
    counted: Counter[tuple[int, int, int, date]] = Counter()
    for cell, change in insertions.items():
        block = Tile(*cell).ancestor(BLOCK_LEVELS)
        place = (cell[0], block.x, block.y)
        for one in change.deleted:
            counted[*place, one.version.day] -= 1
        if change.moved is not None:
            counted[*place, change.moved.version.day] -= 1
            counted[*place, day] += 1
        for version, _ in _new_versions(change, 0):
            counted[*place, version.day] += 1
    return counted


def _count_changes(
    connection: Connection, layer: int, counted: Mapping[tuple[int, int, int, date], int]
) -> None:
    keys = (*TILE, "day")
    more = [((layer, *block), number) for block, number in counted.items() if number]
    if not more:
        return
    connection.execute(
        _ADD_TO_BLOCKS,
        [{**dict(zip(keys, key, strict=True)), "tiles": number} for key, number in more],
    )
    fewer = [key for key, number in more if number < 0]
    if fewer:
        names = [f"its_{name}" for name in keys]
        connection.execute(_FORGET_BLOCK, [dict(zip(names, key, strict=True)) for key in fewer])


def write_counts(connection: Connection, harvest: int, counts: Mapping[tuple[int, Outcome], int]) -> None:
    """Replaces all counts of a harvest. They are by layer and outcome."""
    connection.execute(_FORGET_COUNTS, {"its_harvest": harvest})
    rows = [
        {"harvest": harvest, "layer": layer, "outcome": outcome.value, "tiles": number}
        for (layer, outcome), number in counts.items()
        if number
    ]
    if rows:
        connection.execute(insert(harvest_counts), rows)


def correct_counts(connection: Connection, more: Mapping[tuple[int, int, Outcome], int]) -> None:
    """Adds to the counts of ended harvests, by harvest, layer and outcome.

    A negative number of `ign` is taken from all outcomes of unchanged tiles, because it is not known which of
    them the harvest has counted for a tile."""
    for (harvest, layer, outcome), number in more.items():
        its = (harvest_counts.c.harvest == harvest, harvest_counts.c.layer == layer)
        rows = connection.execute(select(harvest_counts.c.outcome, harvest_counts.c.tiles).where(*its))
        has = {Outcome(word): count for word, count in rows}
        is_any_unchanged = outcome is Outcome.IGNORED and number < 0
        left = number
        for way in _UNCHANGED if is_any_unchanged else (outcome,):
            added = left if left > 0 else max(left, -has.get(way, 0))
            left -= added
            if added:
                counting = replace_into(harvest_counts, "harvest", "layer", "outcome")
                row = {"harvest": harvest, "layer": layer, "outcome": way.value}
                connection.execute(counting, {**row, "tiles": has.get(way, 0) + added})
        connection.execute(delete(harvest_counts).where(*its, harvest_counts.c.tiles == 0))


_COUNTING: Final = insert_into(changes).values({name: bindparam(name) for name in (*TILE, "day", "tiles")})
_ADD_TO_BLOCKS: Final = _COUNTING.on_conflict_do_update(
    index_elements=list(changes.primary_key.columns),
    set_={"tiles": changes.c.tiles + _COUNTING.excluded.tiles},
)
_FORGET_COUNTS: Final = delete(harvest_counts).where(harvest_counts.c.harvest == bindparam("its_harvest"))
_POINT_NOWHERE: Final = update(tiles).where(is_tile(tiles)).values(version=None)
_DELETE: Final = delete(versions).where(versions.c.id == bindparam("its_id"))
_MOVE: Final = (
    update(versions)
    .where(versions.c.id == bindparam("its_id"))
    .values(day=bindparam("to_day"), harvest=bindparam("to_harvest"))
)
_RENEW: Final = (
    update(versions)
    .where(versions.c.id == bindparam("its_id"))
    .values(etag=bindparam("its_etag"), last_modified=bindparam("its_last_modified"))
)
_POINT_AT_LATEST: Final = (
    update(tiles)
    .where(is_tile(tiles))
    .values(
        version=select(versions.c.id)
        .where(is_tile(versions))
        .order_by(versions.c.day.desc())
        .limit(1)
        .scalar_subquery()
    )
)
_FORGET_BLOCK: Final = delete(changes).where(
    is_tile(changes), changes.c.day == bindparam("its_day"), changes.c.tiles == 0
)
