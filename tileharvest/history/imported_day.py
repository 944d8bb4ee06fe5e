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
from tileharvest.history.blocks import write_present
from tileharvest.history.connection import in_parts
from tileharvest.history.harvest_row import HarvestRow, describe_layers
from tileharvest.history.insertion import Claim, Recorded, Surroundings, inserted, outcome_of
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
    blocks,
    changes,
    harvest_counts,
    harvest_layers,
    harvests,
    insert_into,
    is_block,
    is_finished,
    is_same_tile,
    is_tile,
    its_block,
    its_tile,
    maps,
    replace_into,
    tiles,
    version_of,
    version_row,
    versions,
)
from tileharvest.history.site_files import write_site_files
from tileharvest.program import program
from tileharvest.tiles.block import bits_of, blocks_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import THERE, Outcome
from tileharvest.tiles.versions import Image, Validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import ColumnElement, Connection, FromClause, RowMapping

    from tileharvest.history.database import History
    from tileharvest.history.site_files import SiteFile
    from tileharvest.tiles.grid import Cell, TileRange
    from tileharvest.tiles.layers import Layer

_AT_ONCE: Final = 500
"""The most tiles in one query. Each takes three parameters, whose number databases limit."""


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

    Afterwards the versions and changes are those that harvests in the order of the days would have made. The
    counts of later harvests stay what these have found. Days of which only changes are known should come in
    their order, because it is not kept which tiles they have seen unchanged.

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
_HAS: Final = (*(column.name for column in VERSION), "harvest")


def _nearest(*, is_before: bool) -> Any:
    day = _OTHER.c.day
    near = (day < bindparam("on_day")) if is_before else (day > bindparam("on_day"))
    query = select(_OTHER.c.id).where(is_same_tile(_OTHER, tiles), near)
    return query.order_by(day.desc() if is_before else day).limit(1).scalar_subquery()


_SURROUNDINGS: Final = (
    select(
        *(tiles.c[name] for name in TILE[1:]),
        *(table.c[name].label(f"{table.name}_{name}") for table in (_BEFORE, _AT, _AFTER) for name in _HAS),
    )
    .select_from(
        tiles.outerjoin(_BEFORE, _BEFORE.c.id == _nearest(is_before=True))
        .outerjoin(_AT, is_same_tile(_AT, tiles) & (_AT.c.day == bindparam("on_day")))
        .outerjoin(_AFTER, _AFTER.c.id == _nearest(is_before=False))
    )
    .where(
        tiles.c.layer == bindparam("in_layer"),
        tuple_(tiles.c.zoom, tiles.c.x, tiles.c.y).in_(bindparam("cells", expanding=True)),
    )
)
_LAST_RESULTS: Final = (
    select(blocks, harvests.c.day)
    .join_from(blocks, harvests, harvests.c.id == blocks.c.harvest)
    .where(is_block(blocks), harvests.c.day > bindparam("on_day"))
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

_COUNTING: Final = insert_into(changes).values({name: bindparam(name) for name in (*TILE, "day", "tiles")})
_ADD_TO_BLOCKS: Final = _COUNTING.on_conflict_do_update(
    index_elements=list(changes.primary_key.columns),
    set_={"tiles": changes.c.tiles + _COUNTING.excluded.tiles},
)
_FORGET_COUNTS: Final = delete(harvest_counts).where(harvest_counts.c.harvest == bindparam("its_harvest"))
_FORGET_TILE: Final = delete(tiles).where(is_tile(tiles))
_DELETE: Final = delete(versions).where(is_tile(versions), versions.c.day == bindparam("its_day"))
_POINT_AT_LATEST: Final = insert(tiles).from_select(
    [*TILE, "version"],
    select(*(versions.c[name] for name in (*TILE, "id")))
    .where(is_tile(versions))
    .order_by(versions.c.day.desc())
    .limit(1),
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
    left_out: int = 0

    @classmethod
    def begin(cls, connection: Connection, day: ImportedDay) -> _Recording:
        map_id = own_map_id(connection, day.map_name)
        if HarvestRow.unfinished(connection, map_id) is not None:
            raise HistoryError(
                f"map '{day.map_name}' has an unfinished harvest, so nothing can be imported into it now;"
                f" what was imported before is kept; run {program()} harvest {day.map_name} to its end, and"
                " import again"
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
        changed: dict[Cell, tuple[Surroundings, list[Recorded]]] = {}
        for cell in cells:
            around = known.get(cell, Surroundings(claim=claim))
            if self._is_taken(around):
                self.left_out += 1
                continue
            one = seen.get(cell)
            image, validator = (one.image, one.validator) if one else (None, Validator())
            outcome = outcome_of(image, validator, around.before)
            if outcome is not None:
                self.counts[layer, outcome] += 1
            now = inserted(image, validator, self.harvest, self.day.day, around)
            if now != around.recorded:
                changed[cell] = around, now
        _write_versions(self.connection, layer, changed)

    def _is_taken(self, around: Surroundings) -> bool:
        """Returns whether another source, or a harvest, has recorded the version of the same day. It is not
        replaced."""
        return around.at is not None and around.at.harvest != self.harvest

    def _known(self, layer: int, cells: Sequence[Cell], claim: Claim | None) -> dict[Cell, Surroundings]:
        """Returns what the history has of these tiles. Tiles that it does not know are left out."""
        asked = {"in_layer": layer, "on_day": self.day.day, "cells": list(cells)}
        last = self._last_results(layer, cells)
        found = {}
        for row in self.connection.execute(_SURROUNDINGS, asked):
            has, cell = row._mapping, (row.zoom, row.x, row.y)
            its_claim = claim
            if cell in last:
                seen, is_failed = last[cell]
                if is_failed:
                    its_claim = None if claim is not None and seen.harvest == claim.harvest else claim
                elif claim is None or seen.day < claim.day:
                    its_claim = seen
            before, at, after = (_recorded(has, name) for name in ("before", "at", "after"))
            found[cell] = Surroundings(before, at, after, its_claim)
        return found

    def _last_results(self, layer: int, cells: Sequence[Cell]) -> dict[Cell, tuple[Claim, bool]]:
        """Returns the tiles that the last harvest in their block has found unchanged, or that have failed in
        it, each with that harvest and whether it has failed. Only harvests of later days count."""
        found: dict[Cell, tuple[Claim, bool]] = {}
        for block in blocks_of("", (Tile(*cell) for cell in cells)):
            its = its_block(layer, block)
            row = self.connection.execute(_LAST_RESULTS, {**its, "on_day": self.day.day}).first()
            if row is not None:
                claim = Claim(row.harvest, row.day)
                unchanged = row.ignored | row.not_modified
                for bit in bits_of(block.mask & (unchanged | row.failed)):
                    tile = block.tile(bit)
                    found[tile.zoom, tile.x, tile.y] = claim, bool(row.failed >> bit & 1)
        return found

    def _note_missing(self, layer: int, lacking: Iterable[ImportedTile]) -> None:
        """Counts the tiles whose images the archive has lost as failed."""
        for one in lacking:
            cell = (one.tile.zoom, one.tile.x, one.tile.y)
            if self._is_taken(self._known(layer, [cell], None).get(cell, Surroundings())):
                self.left_out += 1
            else:
                self.counts[layer, Outcome.FAILED] += 1


def _recorded(row: RowMapping, name: str) -> Recorded | None:
    *version, harvest = (row[f"{name}_{column}"] for column in _HAS)
    return None if harvest is None else Recorded(version_of(*version), harvest)


def _write_versions(
    connection: Connection, layer: int, changed: Mapping[Cell, tuple[Surroundings, list[Recorded]]]
) -> None:
    """Writes the versions that these tiles have now, each in place of what was there around the day."""
    if not changed:
        return
    touched = [its_tile(layer, *cell) for cell in changed]
    # A tile's row must not point at a version that is deleted.
    connection.execute(_FORGET_TILE, touched)
    dropped, new = [], []
    counted: Counter[tuple[int, int, int, date]] = Counter()
    for cell, (around, now) in changed.items():
        block = Tile(*cell).ancestor(BLOCK_LEVELS)
        place = (cell[0], block.x, block.y)
        days = {one.version.day for one in now}
        for one in around.recorded:
            counted[*place, one.version.day] -= 1
            if one.version.day not in days:
                dropped.append({**its_tile(layer, *cell), "its_day": one.version.day})
        counted.update((*place, day) for day in days)
        new += [
            version_row((layer, *cell), one.version, one.harvest) for one in now if one not in around.recorded
        ]
    if dropped:
        connection.execute(_DELETE, dropped)
    if new:
        connection.execute(replace_into(versions, *TILE, "day"), new)
    connection.execute(_POINT_AT_LATEST, touched)
    _count_changes(connection, layer, counted)
    for touched_block in blocks_of("", (Tile(*cell) for cell in changed)):
        write_present(connection, layer, touched_block)


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
