"""The recorder of results. Its statements work on sets, so a batch costs a few microseconds per tile.

A tile may get several results in one harvest. After a kill it may get the same one twice, or another one: a
tile that was `add` before the kill is `ign` after it. What counts then is the result that says most
(`_STRENGTH`), so that the counts tell what the harvest brought.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Date, Integer, bindparam, case, exists, literal_column, or_, select, update

from tileharvest.history.schema import BLOCK_LEVELS, changes, insert_into, tiles, versions
from tileharvest.history.trust import remember
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from sqlalchemy import ColumnElement, Connection, Update

    from tileharvest.history.schema import Insert
    from tileharvest.tiles.results import TileResult
    from tileharvest.tiles.versions import Image

Row: TypeAlias = dict[str, Any]

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

_TILE: Final = ("layer", "zoom", "x", "y")
_RESULT: Final = ("harvest", "outcome", "reason")
_IMAGE: Final = ("sha1", "extension", "size", "etag", "last_modified", "harvest")


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the results of one harvest, within a transaction that the caller opens.

    The caller has changed the harvest's row in this transaction, so no other program records for the map
    meanwhile.
    """

    dialect: str
    harvest: int
    day: date
    layer_ids: Mapping[str, int]
    """The ids of the harvest's layers, by name. It raises ValueError for a layer that the harvest does not
    have."""

    def record(self, connection: Connection, results: Sequence[TileResult]) -> None:
        """Records them in their order. Raises ValueError for a layer that the harvest does not have."""
        kept = [result for result in results if result.is_counted]
        if kept:
            connection.execute(_upsert_tiles(self.dialect), self._tile_rows(kept))
        for wave in _waves(kept):
            self._record_images(connection, wave)
            self._record_validators(connection, wave)
        remember(connection, self.dialect, self.harvest, self.layer_ids, results)

    def _tile_rows(self, results: Sequence[TileResult]) -> list[Row]:
        ids, harvest = self.layer_ids, self.harvest
        return [
            {
                "layer": ids[result.layer],
                "zoom": result.tile.zoom,
                "x": result.tile.x,
                "y": result.tile.y,
                "harvest": harvest,
                "outcome": result.outcome.value,
                "reason": result.reason,
                "failures": 0 if result.reason is None else 1,
            }
            for result in results
        ]

    def _record_images(self, connection: Connection, wave: list[TileResult]) -> None:
        rows = [self._version_row(result, result.image) for result in wave if result.image is not None]
        if rows:
            # Before the versions, whose absence says that the tile has not been counted for this day.
            changed = [self._change_row(result) for result in wave if result.image is not None]
            connection.execute(_count_changes(self.dialect), changed)
            connection.execute(_upsert_versions(self.dialect), rows)
            places = [{f"its_{name}": row[name] for name in (*_TILE, "day")} for row in rows]
            connection.execute(_point_at_versions(), places)

    def _version_row(self, result: TileResult, image: Image) -> Row:
        validator = result.validator or Validator()
        return {
            "layer": self.layer_ids[result.layer],
            "zoom": result.tile.zoom,
            "x": result.tile.x,
            "y": result.tile.y,
            "day": self.day,
            "sha1": image.sha1,
            "extension": image.extension,
            "size": image.size,
            "etag": validator.etag,
            "last_modified": validator.last_modified,
            "harvest": self.harvest,
        }

    def _change_row(self, result: TileResult) -> Row:
        tile = result.tile
        block = tile.ancestor(BLOCK_LEVELS)
        return {
            "its_layer": self.layer_ids[result.layer],
            "its_zoom": tile.zoom,
            "its_x": tile.x,
            "its_y": tile.y,
            "its_day": self.day,
            "block_x": block.x,
            "block_y": block.y,
        }

    def _record_validators(self, connection: Connection, wave: list[TileResult]) -> None:
        rows = [
            {
                "its_layer": self.layer_ids[result.layer],
                "its_zoom": result.tile.zoom,
                "its_x": result.tile.x,
                "its_y": result.tile.y,
                "its_etag": result.validator.etag,
                "its_last_modified": result.validator.last_modified,
            }
            for result in wave
            if result.image is None and result.validator is not None
        ]
        if rows:
            connection.execute(_renew_validators(), rows)


def _waves(results: Sequence[TileResult]) -> Iterator[list[TileResult]]:
    """Yields the results that touch versions, in waves that have no tile twice.

    Within a wave the statements run kind by kind, but two results for one tile must keep their order.
    """
    wave: dict[tuple[str, object], TileResult] = {}
    for result in results:
        if result.image is None and result.outcome is not Outcome.NOT_MODIFIED:
            continue
        key = (result.layer, result.tile)
        if key in wave:
            yield list(wave.values())
            wave = {}
        wave[key] = result
    if wave:
        yield list(wave.values())


@cache
def _upsert_tiles(dialect: str) -> Insert:
    statement = insert_into(dialect, tiles).values(
        {name: bindparam(name) for name in (*_TILE, *_RESULT, "failures")}
    )
    new = statement.excluded
    is_first = tiles.c.harvest.is_distinct_from(new.harvest)
    is_as_strong = _rank(new.outcome, _STRENGTH) >= _rank(tiles.c.outcome, _RESISTANCE)
    return statement.on_conflict_do_update(
        index_elements=[tiles.c[name] for name in _TILE],
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


@cache
def _count_changes(dialect: str) -> Insert:
    """Adds a changed tile to the block of a tile that has no version of the day."""
    place = [bindparam(name, type_=Integer) for name in ("its_layer", "its_zoom", "block_x", "block_y")]
    day = bindparam("its_day", type_=Date)
    known = exists().where(*_is_tile(versions.c), versions.c.day == day)
    first = select(*place, day, literal_column("1")).where(~known)
    return counting(insert_into(dialect, changes).from_select(list(changes.c.keys()), first))


def counting(changed: Insert) -> Insert:
    """Returns an INSERT into changes that adds to the rows which are there already."""
    return changed.on_conflict_do_update(
        index_elements=list(changes.primary_key.columns),
        set_={"tiles": changes.c.tiles + changed.excluded.tiles},
    )


@cache
def _upsert_versions(dialect: str) -> Insert:
    statement = insert_into(dialect, versions).values(
        {name: bindparam(name) for name in (*_TILE, "day", *_IMAGE)}
    )
    return statement.on_conflict_do_update(
        index_elements=[versions.c[name] for name in (*_TILE, "day")],
        set_={name: statement.excluded[name] for name in _IMAGE},
    )


@cache
def _point_at_versions() -> Update:
    its_version = (
        select(versions.c.id)
        .where(*(versions.c[name] == bindparam(f"its_{name}") for name in (*_TILE, "day")))
        .scalar_subquery()
    )
    return update(tiles).where(*_is_tile(tiles.c)).values(version=its_version)


@cache
def _renew_validators() -> Update:
    latest = select(tiles.c.version).where(*_is_tile(tiles.c)).scalar_subquery()
    return (
        update(versions)
        .where(versions.c.id == latest, versions.c.sha1.is_not(None))
        .values(etag=bindparam("its_etag"), last_modified=bindparam("its_last_modified"))
    )


def _is_tile(columns: Any) -> list[ColumnElement[bool]]:
    return [columns[name] == bindparam(f"its_{name}") for name in _TILE]
