"""The recorder of results. Its statements work on sets, so a batch costs a few microseconds per tile.

A tile may get several results in one harvest. After a kill it may get the same one twice, or another one: a
tile that was `add` before the kill is `ign` after it. What counts then is the result that says most
(`_STRENGTH`), so that the counts tell what the harvest brought.
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
from tileharvest.history.unnamed_images import hold_images, note_replaced
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
"""`gone` is provisional until the harvest ends: whatever proves that the tile exists takes it back."""

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
    the same time. Raises KeyError for a layer that the harvest does not have, and LeavingImageError.
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
        hold_images(connection, [one.image.file_name for one in wave if one.image])
        replacing = [row_of(one) for one in wave if one.outcome is Outcome.REPLACED]
        if replacing:
            note_replaced(connection, [place_and_day(row) | {"its_sha1": row["sha1"]} for row in replacing])
        record_versions(connection, [row_of(one) for one in wave if one.image])
        renewed = [_validator_row(place_of(one), one) for one in wave if not one.image]
        if renewed:
            connection.execute(_RENEW_VALIDATORS, renewed)
    remember(connection, harvest, layer_ids, results)


def _tile_row(
    place: tuple[int, int, int, int], harvest: int, result: TileResult
) -> tuple[int | str | None, ...]:
    """Returns the values for `_UPSERT_TILES`."""
    return (*place, harvest, result.outcome.value, result.reason, 0 if result.reason is None else 1)


def _validator_row(place: tuple[int, int, int, int], result: TileResult) -> Row:
    validator = result.validator or Validator()
    return {**its_tile(*place), "its_etag": validator.etag, "its_last_modified": validator.last_modified}


def _waves(results: Sequence[TileResult]) -> Iterator[Collection[TileResult]]:
    """Yields the results that touch versions, in waves that have no tile twice.

    Within a wave the statements run kind by kind, but two results for one tile must keep their order.
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
    """Returns the parameters that a version is looked up by."""
    return {f"its_{name}": row[name] for name in (*TILE, "day")}


def record_versions(connection: Connection, rows: Sequence[Row]) -> None:
    """Writes rows of `version_row`, each of another tile, in place of those of the same tile and day.

    They become the latest versions of their tiles.
    """
    if not rows:
        return
    places = [place_and_day(row) for row in rows]
    changed = []
    for its in places:
        block = Tile(its["its_zoom"], its["its_x"], its["its_y"]).ancestor(BLOCK_LEVELS)
        changed.append({**its, "block_x": block.x, "block_y": block.y})
    # Before the versions, whose absence says that the tile has not been counted for this day.
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
    """Computes the failures of a tile that has a row, whether or not its new result is the harvest's first.

    A failure that is not the first result can only replace one that has been counted.
    """
    counted = case((is_first, tiles.c.failures + literal_column("1")), else_=tiles.c.failures)
    return case((new.failures == literal_column("0"), literal_column("0")), else_=counted)


def _rank(outcome: ColumnElement[Any], ranks: Mapping[Outcome, int]) -> ColumnElement[int]:
    """Computes the rank. Its numbers stand in the SQL: parameters would be bound for each row of a batch."""
    groups: defaultdict[int, list[ColumnElement[Any]]] = defaultdict(list)
    for member, rank in ranks.items():
        groups[rank].append(literal_column(f"'{member.value}'"))
    return case(
        *((outcome.in_(members), literal_column(str(rank))) for rank, members in groups.items()),
        else_=literal_column("0"),
    )


def _count_changes() -> Insert:
    """Adds a changed tile to the block of a tile that has no version of the day."""
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
