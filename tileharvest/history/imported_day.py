"""An imported day: the state of a map on one day by an archive, recorded as a harvest of that day.

Days may come in any order, also before the history's first day and between two harvests. `docs/decisions/023`
tells what happens to the versions that follow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import Text, and_, bindparam, case, delete, exists, func, insert, or_, select, tuple_, update

from tileharvest.errors import HistoryError
from tileharvest.history.areas import AreaQuery
from tileharvest.history.connection import in_parts
from tileharvest.history.harvest_row import HarvestRow, describe_layers
from tileharvest.history.insertion import Claim, Recorded, Surroundings, inserted
from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import (
    BLOCK_LEVELS,
    CHANGES_WALK,
    FINISHED,
    IMPORTED_WALK,
    IMPORTS,
    PARTIAL,
    TILE,
    VERSION,
    changes,
    harvest_counts,
    harvest_layers,
    harvests,
    insert_into,
    is_finished,
    is_same_tile,
    is_tile,
    its_tile,
    maps,
    replace_into,
    tiles,
    version_of,
    version_row,
    versions,
)
from tileharvest.history.site_files import write_site_files
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import THERE, Outcome
from tileharvest.tiles.versions import Image, Validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import ColumnElement, Connection, FromClause, RowMapping

    from tileharvest.history.database import History
    from tileharvest.history.insertion import Insertion
    from tileharvest.history.site_files import SiteFile
    from tileharvest.tiles.grid import Cell, TileRange
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.versions import Version

_AT_ONCE: Final = 500
"""The most tiles in one query. Each takes three parameters, whose number databases limit."""
_UNCHANGED: Final = (Outcome.IGNORED, Outcome.NOT_MODIFIED, Outcome.SKIPPED)
_SEEN_AGAIN: Final = frozenset({Outcome.IGNORED, Outcome.NOT_MODIFIED})


class ImportedTile(NamedTuple):
    """The state of one tile on a day, by an archive."""

    layer: str
    tile: Tile
    image: Image | None
    """The image, which the store must have already. None says that the tile was not there."""
    validator: Validator = Validator()
    """The site's validator. If it is empty, equal bytes count as `ign`."""
    missing: str | None = None
    """The reason why the archive lacks the image of a tile that it names. The tile counts as `fail` on that
    day. None if nothing is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedDay:
    """One day of an archive. Raises ValueError if its parts do not belong together."""

    map_name: str
    source: str
    """The name of the archive, such as `git` or `kedamadiff v4`, among those that are imported into the map.
    Each source records a day once. To record it again replaces the source's earlier record."""
    state: str = ""
    """The name of the source's state on that day, such as a commit's id."""
    day: date
    imported: datetime
    """The moment of the import, with a time zone."""
    renderer: str
    layers: Sequence[Layer]
    tiles: Sequence[ImportedTile]
    """The named tiles, each once. They take about 0.5 KB each."""
    areas: Mapping[str, Sequence[TileRange]] | None = None
    """The areas, by layer, in which no other tiles were there than the named ones.

    None says that other tiles were as before, or that nothing is known of them."""
    is_complete: bool = False
    """Whether all tiles that are not named were as in the last harvest before this day. True is for days
    without areas only."""
    unchanged: Mapping[str, int] = field(default_factory=dict)
    """The numbers of unchanged tiles, by layer, that are not named. They go into the counts."""
    kept: str | None = None
    """The zones and zooms that the map keeps, in the form that its harvests note, or None for any.

    It is not known what a harvest with other zones or zooms has asked for. Such a harvest only counts for
    tiles of which it has recorded a version."""
    stored_bytes: int = 0
    """Bytes of the day's images that were not in the store before."""
    files: Mapping[str, SiteFile] | None = None
    """The files of the site, by address. None says that they are as on the day before. If a harvest or
    another source has the same day, its files stay."""

    def __post_init__(self) -> None:
        names = {layer.name for layer in self.layers}
        if not names or len(names) != len(self.layers):
            raise ValueError("an imported day has at least one layer, and each once")
        if self.imported.tzinfo is None:
            raise ValueError(f"{self.imported} has no time zone")
        if not {one.layer for one in self.tiles} | set(self.areas or ()) <= names:
            raise ValueError("an imported day names a layer that it does not have")

    @property
    def segment(self) -> str:
        """The segment of the day's harvest. No harvest of a site has such a segment."""
        return f"{_segments_of(self.source)}{self.day}"


@dataclass(frozen=True, slots=True)
class DayRecord:
    """The result of recording an imported day."""

    counts: Mapping[Outcome, int]
    left_out: int
    """The number of tiles that were left as they are, because a harvest or another source has recorded them
    on the same day."""


def imported_days(history: History, map_name: str, source: str) -> dict[date, str]:
    """Returns the days of this source that the map's history has, in order, each with its state.

    The state of a day on which no tile was found is empty: such a day was recorded by mistake, and the next
    import of its source replaces it. Raises HistoryError.
    """
    its = _segments_of(source)
    state = case((_is_mistake(harvests), ""), else_=harvests.c.walk_reason)
    query = (
        select(harvests.c.day, harvests.c.segment, state)
        .join_from(harvests, maps, maps.c.id == harvests.c.map)
        .where(maps.c.name == map_name, harvests.c.walk.in_(IMPORTS))
        .order_by(harvests.c.day)
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    return {day: state or "" for day, segment, state in rows if segment == f"{its}{day}"}


def last_day_before(history: History, map_name: str, day: date) -> date | None:
    """Returns the last day before this one of which the map has a harvest, imported or not. Raises
    HistoryError."""
    with history.reading() as connection:
        found: date | None = connection.execute(_LAST_DAY, {"of_map": map_name, "on_day": day}).scalar()
    return found


def record_day(history: History, day: ImportedDay) -> DayRecord:
    """Records the day as a finished harvest, in one transaction. To record it again changes nothing.

    Afterwards the versions, and the outcomes and changes of later harvests, are those that harvests in the
    order of the days would have made. Days of which only changes are known should come in their order,
    because only the last such day is known to have seen a tile unchanged.

    The images must be in the store. Takes about 100 microseconds for each named tile; with `areas` it also
    reads each tile that is known there. Raises HistoryError if the map has an unfinished harvest, because
    that compares with versions which it has read before. Nothing is changed then.
    """

    def write(connection: Connection) -> DayRecord:
        record = _Recording.begin(connection, day).run()
        others = (
            select(harvests.c.id)
            .join(maps, maps.c.id == harvests.c.map)
            .where(maps.c.name == day.map_name, harvests.c.day == day.day, harvests.c.segment != day.segment)
        )
        if day.files is not None and connection.execute(others.limit(1)).first() is None:
            write_site_files(connection, day.map_name, day.day, day.files)
        return record

    return history.write(write)


def _segments_of(source: str) -> str:
    return f"import {source} "


def _is_mistake(table: FromClause) -> ColumnElement[bool]:
    """Returns the SQL that says whether a row of `harvests` is an imported day without any tile.

    An import refuses a state in which most known tiles are missing, so such a day says nothing of the map:
    its files were looked for in the wrong folder.
    """
    found = exists().where(
        harvest_counts.c.harvest == table.c.id, harvest_counts.c.outcome.in_([one.value for one in THERE])
    )
    return and_(func.coalesce(table.c.walk, "") == IMPORTED_WALK, ~found)


_BEFORE: Final = versions.alias("before")
_AT: Final = versions.alias("at")
_AFTER: Final = versions.alias("after")
_OTHER: Final = versions.alias("other")
_HAS: Final = ("id", *(column.name for column in VERSION), "harvest")


def _nearest(*, is_before: bool) -> Any:
    day = _OTHER.c.day
    near = (day < bindparam("on_day")) if is_before else (day > bindparam("on_day"))
    query = select(_OTHER.c.id).where(is_same_tile(_OTHER, tiles), near)
    return query.order_by(day.desc() if is_before else day).limit(1).scalar_subquery()


_SURROUNDINGS: Final = (
    select(
        *(tiles.c[name] for name in TILE[1:]),
        tiles.c.harvest,
        tiles.c.outcome,
        harvests.c.day.label("last_day"),
        *(table.c[name].label(f"{table.name}_{name}") for table in (_BEFORE, _AT, _AFTER) for name in _HAS),
    )
    .select_from(
        tiles.outerjoin(harvests, harvests.c.id == tiles.c.harvest)
        .outerjoin(_BEFORE, _BEFORE.c.id == _nearest(is_before=True))
        .outerjoin(_AT, is_same_tile(_AT, tiles) & (_AT.c.day == bindparam("on_day")))
        .outerjoin(_AFTER, _AFTER.c.id == _nearest(is_before=False))
    )
    .where(
        tiles.c.layer == bindparam("in_layer"),
        tuple_(tiles.c.zoom, tiles.c.x, tiles.c.y).in_(bindparam("cells", expanding=True)),
    )
)
_WAS_THERE: Final = (
    select(versions.c.sha1)
    .where(is_same_tile(versions, tiles), versions.c.day < bindparam("on_day"))
    .order_by(versions.c.day.desc())
    .limit(1)
    .scalar_subquery()
    .is_not(None)
)
_IS_TOLD: Final = exists().where(is_same_tile(versions, tiles), versions.c.day == bindparam("on_day"))
_KNOWN_IN_AREA: Final = AreaQuery.over(
    tiles, select(tiles.c.zoom, tiles.c.x, tiles.c.y).where(or_(_WAS_THERE, _IS_TOLD))
)

_TOLD: Final = ("harvest", "outcome", "reason", "failures")
_INSERT_TILES: Final = insert_into(tiles).values({name: bindparam(name) for name in (*TILE, *_TOLD)})
_UPSERT_TILES: Final = _INSERT_TILES.on_conflict_do_update(
    index_elements=[tiles.c[name] for name in TILE],
    set_={name: _INSERT_TILES.excluded[name] for name in _TOLD},
)

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

_LAST_DAY: Final = (
    select(func.max(harvests.c.day))
    .join_from(harvests, maps, maps.c.id == harvests.c.map)
    .where(maps.c.name == bindparam("of_map"), harvests.c.day < bindparam("on_day"))
)
_HARVEST: Final = select(harvests.c.id).where(
    harvests.c.map == bindparam("in_map"), harvests.c.segment == bindparam("in_segment")
)
_NEW_HARVEST: Final = insert(harvests).returning(harvests.c.id)
_SAME_HARVEST: Final = update(harvests).where(harvests.c.id == bindparam("its_id"))
_CLAIM: Final = (
    select(harvests.c.id, harvests.c.day)
    .join_from(harvests, harvest_layers, harvest_layers.c.harvest == harvests.c.id)
    .where(
        harvest_layers.c.layer == bindparam("in_layer"),
        harvests.c.id != bindparam("but"),
        is_finished(harvests, but=PARTIAL),
        ~_is_mistake(harvests),
        harvests.c.day >= bindparam("from_day"),
        # If `which` is null, each harvest is compared with itself, so that all of them count.
        or_(
            harvests.c.kept.is_(None),
            harvests.c.kept == func.coalesce(bindparam("which", type_=Text), harvests.c.kept),
        ),
    )
    .order_by(harvests.c.day, harvests.c.id)
    .limit(1)
)


@dataclass(slots=True)
class _Recording:
    """Records one day within a transaction."""

    connection: Connection
    day: ImportedDay
    harvest: int
    layer_ids: Mapping[str, int]
    counts: Counter[tuple[int, Outcome]] = field(default_factory=Counter)
    """The numbers of tiles of the day's own harvest, by layer and outcome."""
    later: Counter[tuple[int, int, Outcome]] = field(default_factory=Counter)
    """The numbers of tiles by which the counts of later harvests change, by harvest, layer and outcome."""
    left_out: int = 0

    @classmethod
    def begin(cls, connection: Connection, day: ImportedDay) -> _Recording:
        map_id = own_map_id(connection, day.map_name)
        if HarvestRow.unfinished(connection, map_id) is not None:
            raise HistoryError(
                f"map '{day.map_name}' has an unfinished harvest, so nothing can be imported into it now;"
                f" what was imported before is kept; run scrapy harvest {day.map_name} to its end, and import"
                " again"
            )
        row = {
            "map": map_id,
            "segment": day.segment,
            "day": day.day,
            "started": day.imported,
            "ended": day.imported,
            "renderer": day.renderer,
            "reason": FINISHED,
            "requests": 0,
            "received_bytes": 0,
            "stored_bytes": day.stored_bytes,
            "walk": IMPORTED_WALK if day.is_complete or day.areas is not None else CHANGES_WALK,
            "walk_reason": day.state,
        }
        its = {"in_map": map_id, "in_segment": day.segment}
        harvest: int | None = connection.execute(_HARVEST, its).scalar()
        if harvest is None:
            harvest = connection.execute(_NEW_HARVEST, row).scalar_one()
        else:
            connection.execute(_SAME_HARVEST, {"its_id": harvest, **row})
        return cls(connection, day, harvest, describe_layers(connection, map_id, harvest, day.layers))

    def run(self) -> DayRecord:
        named: defaultdict[str, dict[Cell, ImportedTile]] = defaultdict(dict)
        for one in self.day.tiles:
            named[one.layer][one.tile.zoom, one.tile.x, one.tile.y] = one
        for name, layer in self.layer_ids.items():
            claim = self._claim(layer)
            if claim is not None and claim.day == self.day.day:
                self.left_out += len(named[name])
                continue
            seen = {cell: one for cell, one in named[name].items() if one.missing is None}
            lacking = [one for one in named[name].values() if one.missing is not None]
            absent = dict.fromkeys(self._not_named(name, layer, named[name]))
            for part in in_parts(sorted({**absent, **seen}), _AT_ONCE):
                self._insert(layer, part, seen, claim)
            self._note_missing(layer, lacking)
            self.counts[layer, Outcome.IGNORED] += self.day.unchanged.get(name, 0)
        _write_counts(self.connection, self.harvest, self.counts)
        _correct_counts(self.connection, self.later)
        counted: Counter[Outcome] = Counter()
        for (_, outcome), number in self.counts.items():
            counted[outcome] += number
        return DayRecord({one: counted[one] for one in Outcome if counted[one]}, self.left_out)

    def _claim(self, layer: int) -> Claim | None:
        """Returns the first other harvest of this day or a later one that asked for every tile of the
        layer."""
        asked = {"in_layer": layer, "from_day": self.day.day, "but": self.harvest, "which": self.day.kept}
        row = self.connection.execute(_CLAIM, asked).first()
        return None if row is None else Claim(*row)

    def _not_named(self, name: str, layer: int, named: Mapping[Cell, ImportedTile]) -> list[Cell]:
        """Returns the tiles of the day's areas that are not named, and that were there before or have a
        version of the day."""
        areas = (self.day.areas or {}).get(name, ())
        found: set[Cell] = set()
        for area in areas:
            rows = _KNOWN_IN_AREA.rows(self.connection, layer, area, on_day=self.day.day)
            found.update(cell for zoom, x, y in rows if (cell := (zoom, x, y)) not in named)
        return sorted(found)

    def _insert(
        self, layer: int, cells: Sequence[Cell], seen: Mapping[Cell, ImportedTile], claim: Claim | None
    ) -> None:
        known = self._known(layer, cells, claim)
        changed: dict[Cell, Insertion] = {}
        rows = []
        for cell in cells:
            around = known.get(cell, Surroundings(claim=claim))
            if around.is_taken:
                self.left_out += 1
                continue
            one = seen.get(cell)
            image, validator = (one.image, one.validator) if one else (None, Validator())
            change = inserted(image, validator, self.day.day, around)
            changed[cell] = change
            if change.outcome is not None:
                self.counts[layer, change.outcome] += 1
            rows.append(self._tile_row(layer, cell, around, change))
        self._write_tiles([row for row in rows if row])
        _write_insertions(self.connection, self.harvest, self.day.day, layer, changed)

    def _tile_row(
        self, layer: int, cell: Cell, around: Surroundings, change: Insertion
    ) -> dict[str, Any] | None:
        """Returns the tile's row with its last result, or None if the row stays as it is. Notes in `later`
        how a later harvest's counts change."""
        last: tuple[int, Outcome | None] | None = (self.harvest, change.outcome)
        if around.is_later or (change.outcome is None and around.harvest != self.harvest):
            last = None
        if change.recount is not None:
            later, before, now = change.recount
            is_last = around.harvest == later
            before = around.outcome if is_last else before
            if before is Outcome.REPLACED:
                return None
            for found, number in ((before, -1), (now, 1)):
                if found is not None:
                    self.later[later, layer, found] += number
            if is_last or not around.is_later:
                # If the later harvest has no outcome for the tile any more, this day's result is the last
                # one.
                last = (self.harvest, change.outcome) if now is None else (later, now)
        if last is None:
            return None
        harvest, outcome = last
        told = {"harvest": harvest, "outcome": outcome and outcome.value, "reason": None, "failures": 0}
        return {**dict(zip(TILE, (layer, *cell), strict=True)), **told}

    def _known(self, layer: int, cells: Sequence[Cell], claim: Claim | None) -> dict[Cell, Surroundings]:
        """Returns what the history has of these tiles. Tiles that it does not know are left out."""
        asked = {"in_layer": layer, "on_day": self.day.day, "cells": list(cells)}
        found = {}
        for row in self.connection.execute(_SURROUNDINGS, asked):
            has = row._mapping
            outcome = None if row.outcome is None else Outcome(row.outcome)
            is_later = row.last_day is not None and row.last_day > self.day.day
            its_claim = claim
            if is_later and outcome is Outcome.FAILED and claim is not None and row.harvest == claim.harvest:
                its_claim = None
            elif is_later and outcome in _SEEN_AGAIN and (claim is None or row.last_day < claim.day):
                its_claim = Claim(row.harvest, row.last_day)
            at = _recorded(has, "at")
            found[row.zoom, row.x, row.y] = Surroundings(
                _recorded(has, "before"),
                at,
                _recorded(has, "after"),
                its_claim,
                row.harvest,
                outcome,
                is_later=is_later,
                is_taken=at is not None and at.harvest != self.harvest,
            )
        return found

    def _write_tiles(self, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self.connection.execute(_UPSERT_TILES, rows)

    def _note_missing(self, layer: int, lacking: Iterable[ImportedTile]) -> None:
        """Counts the tiles whose images the archive has lost as failed. The tile's row is left as it is if a
        later harvest has a result."""
        for one in lacking:
            cell = (one.tile.zoom, one.tile.x, one.tile.y)
            around = self._known(layer, [cell], None).get(cell, Surroundings())
            if around.is_taken:
                self.left_out += 1
                continue
            self.counts[layer, Outcome.FAILED] += 1
            if not around.is_later:
                told = ("reason", "failures", "harvest", "outcome")
                values = (one.missing, 1, self.harvest, Outcome.FAILED.value)
                self._write_tiles([dict(zip((*TILE, *told), (layer, *cell, *values), strict=True))])


def _recorded(row: RowMapping, name: str) -> Recorded | None:
    id_, *version, harvest = (row[f"{name}_{column}"] for column in _HAS)
    return None if id_ is None else Recorded(id_, version_of(*version), harvest)


def _write_insertions(
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


def _write_counts(connection: Connection, harvest: int, counts: Mapping[tuple[int, Outcome], int]) -> None:
    """Replaces all counts of a harvest. They are by layer and outcome."""
    connection.execute(_FORGET_COUNTS, {"its_harvest": harvest})
    rows = [
        {"harvest": harvest, "layer": layer, "outcome": outcome.value, "tiles": number}
        for (layer, outcome), number in counts.items()
        if number
    ]
    if rows:
        connection.execute(insert(harvest_counts), rows)


def _correct_counts(connection: Connection, more: Mapping[tuple[int, int, Outcome], int]) -> None:
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
