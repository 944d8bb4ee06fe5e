"""The recorder of results. Each statement takes a whole batch, so a tile costs a few microseconds.

A tile may get several results in one harvest. After a kill it may get the same result again, or another one:
a tile that was `add` before the kill is `ign` after it. The strongest result counts (`_STRENGTH`), so that
the counts tell what the harvest has brought.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Date, Integer, bindparam, case, exists, literal_column, or_, select, update

from tileharvest.history.connection import execute_rows
from tileharvest.history.schema import (
    BLOCK_LEVELS,
    TILE,
    changes,
    insert_into,
    is_tile,
    its_tile,
    replace_into,
    tiles,
    version_row,
    versions,
)
from tileharvest.history.trust import remember
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import date

    from sqlalchemy import ColumnElement, Connection
    from sqlalchemy.dialects.postgresql import Insert

    from tileharvest.history.schema import Row
    from tileharvest.tiles.results import TileResult

_STRENGTH: Final = {
    Outcome.FAILED: 1,
    Outcome.NOTHING: 2,
    Outcome.IGNORED: 3,
    Outcome.NOT_MODIFIED: 4,
    Outcome.REPLACED: 5,
    Outcome.UPDATED: 6,
    Outcome.ADDED: 6,
    Outcome.GONE: 6,
}
"""A result replaces one of the same harvest when its strength is at least the resistance of that one."""

_RESISTANCE: Final = {**_STRENGTH, Outcome.GONE: _STRENGTH[Outcome.IGNORED]}
"""`gone` is provisional until the harvest ends: any result that proves that the tile exists replaces it."""

_RESULT: Final = ("harvest", "outcome", "reason")


def record_results(
    connection: Connection,
    harvest: int,
    day: date,
    layer_ids: Mapping[str, int],
    results: Sequence[TileResult],
) -> None:
    """Records results of a harvest in their order. `layer_ids` has the ids of its layers, by name.

    The caller has changed the harvest's row in this transaction, so no other program records for the map at
    the same time. Raises KeyError for a layer that the harvest does not have.
    """

    def place_of(result: TileResult) -> tuple[int, int, int, int]:
        return layer_ids[result.layer], result.tile.zoom, result.tile.x, result.tile.y

    def row_of(result: TileResult) -> Row:
        version = Version(day, result.image, result.validator or Validator())
        return version_row(place_of(result), version, harvest)

    counted = [result for result in results if result.is_counted]
    if counted:
        execute_rows(connection, _UPSERT_TILES, [_tile_row(place_of(one), harvest, one) for one in counted])
    for wave in _waves(counted):
        record_versions(connection, [row_of(one) for one in wave if one.image])
        renewed = [_validator_row(place_of(one), one) for one in wave if not one.image]
        if renewed:
            connection.execute(_RENEW_VALIDATORS, renewed)
    remember(connection, harvest, layer_ids, results)


def _tile_row(
    place: tuple[int, int, int, int], harvest: int, result: TileResult
) -> tuple[int | str | None, ...]:
    """Returns the values for `_UPSERT_TILES`."""
    return (*place, harvest, str(result.outcome), result.reason, 0 if result.reason is None else 1)


def _validator_row(place: tuple[int, int, int, int], result: TileResult) -> Row:
    validator = result.validator or Validator()
    return {**its_tile(*place), "its_etag": validator.etag, "its_last_modified": validator.last_modified}


def _waves(results: Sequence[TileResult]) -> Iterator[Collection[TileResult]]:
    """Yields the results that change versions, in waves. No tile is twice in a wave.

    The statements of a wave run kind by kind, while two results for one tile must keep their order.
    """
    wave: dict[tuple[str, object], TileResult] = {}
    for result in results:
        if result.image is None and (result.validator is None or result.outcome is not Outcome.NOT_MODIFIED):
            continue
        key = (result.layer, result.tile)
        if key in wave:
            yield wave.values()
            wave = {}
        wave[key] = result
    if wave:
        yield wave.values()


def place_and_day(row: Row) -> Row:
    """Returns the parameters by which a statement finds the version of this row."""
    return {f"its_{name}": row[name] for name in (*TILE, "day")}


def record_versions(connection: Connection, rows: Sequence[Row]) -> None:
    """Writes rows of `version_row`, each of another tile. A row replaces that of the same tile and day.

    The written versions become the latest ones of their tiles.
    """
    if not rows:
        return
    places = [place_and_day(row) for row in rows]
    changed = []
    for its in places:
        block = Tile(its["its_zoom"], its["its_x"], its["its_y"]).ancestor(BLOCK_LEVELS)
        changed.append({**its, "block_x": block.x, "block_y": block.y})
    # This comes before the versions are written: a tile with a version of this day is counted already.
    connection.execute(_COUNT_CHANGES, changed)
    connection.execute(replace_into(versions, *TILE, "day"), rows)
    connection.execute(_POINT_AT_VERSIONS, places)


def _upsert_tiles() -> Insert:
    statement = insert_into(tiles).values({name: bindparam(name) for name in (*TILE, *_RESULT, "failures")})
    new = statement.excluded
    is_first = tiles.c.harvest.is_distinct_from(new.harvest)
    is_as_strong = _rank(new.outcome, _STRENGTH) >= _rank(tiles.c.outcome, _RESISTANCE)
    return statement.on_conflict_do_update(
        index_elements=[tiles.c[name] for name in TILE],
        set_={**{name: new[name] for name in _RESULT}, "failures": _failures_in_a_row(new, is_first)},
        where=or_(is_first, is_as_strong),
    )


def _failures_in_a_row(new: Any, is_first: ColumnElement[bool]) -> ColumnElement[int]:
    """Returns the SQL for the failures in a row of a tile that has a row already.

    Only the first failure in a harvest is counted. A later one can only replace a failure of the same
    harvest, because it is weaker than any other result.
    """
    counted = case((is_first, tiles.c.failures + literal_column("1")), else_=tiles.c.failures)
    return case((new.failures == literal_column("0"), literal_column("0")), else_=counted)


def _rank(outcome: ColumnElement[Any], ranks: Mapping[Outcome, int]) -> ColumnElement[int]:
    """Returns the SQL for an outcome's rank. The ranks are written into the SQL as numbers, because
    parameters would be bound anew for each row of a batch."""
    groups: defaultdict[int, list[ColumnElement[Any]]] = defaultdict(list)
    for member, rank in ranks.items():
        groups[rank].append(literal_column(f"'{member.value}'"))
    return case(
        *((outcome.in_(members), literal_column(str(rank))) for rank, members in groups.items()),
        else_=literal_column("0"),
    )


def _count_changes() -> Insert:
    """Returns the statement that counts a changed tile in its block, unless the tile has a version of the day
    already."""
    place = [bindparam(name, type_=Integer) for name in ("its_layer", "its_zoom", "block_x", "block_y")]
    day = bindparam("its_day", type_=Date)
    known = exists().where(is_tile(versions), versions.c.day == day)
    first = select(*place, day, literal_column("1")).where(~known)
    counting = insert_into(changes).from_select(list(changes.c.keys()), first)
    return counting.on_conflict_do_update(
        index_elements=list(changes.primary_key.columns),
        set_={"tiles": changes.c.tiles + counting.excluded.tiles},
    )


_UPSERT_TILES: Final = _upsert_tiles()
_COUNT_CHANGES: Final = _count_changes()
_POINT_AT_VERSIONS: Final = (
    update(tiles)
    .where(is_tile(tiles))
    .values(
        version=select(versions.c.id)
        .where(is_tile(versions), versions.c.day == bindparam("its_day"))
        .scalar_subquery()
    )
)
_RENEW_VALIDATORS: Final = (
    update(versions)
    .where(
        versions.c.id == select(tiles.c.version).where(is_tile(tiles)).scalar_subquery(),
        versions.c.sha1.is_not(None),
    )
    .values(etag=bindparam("its_etag"), last_modified=bindparam("its_last_modified"))
)
