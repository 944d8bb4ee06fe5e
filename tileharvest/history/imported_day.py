"""An imported day: the state of a map on one day by an archive, recorded as a harvest of that day.

Days may come in any order, also before the history's first day and between two harvests. `docs/decisions/023`
says what happens to the versions that follow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace
from sqlalchemy import Date, Text, bindparam, delete, func, insert, or_, select, tuple_, update

from tileharvest.errors import HistoryError, program
from tileharvest.history.areas import AreaQuery
from tileharvest.history.blocks import write_present
from tileharvest.history.connection import in_parts
from tileharvest.history.harvest_row import describe_layers, unfinished_harvest
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
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Image, Validator, Version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection, ScalarSelect

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
    """Returns the days of this source that the map's history has, in order, each with its state."""
    its = _segments_of(source)
    query = (
        select(harvests.c.day, harvests.c.segment, harvests.c.walk_reason)
        .join_from(harvests, maps, maps.c.id == harvests.c.map)
        .where(maps.c.name == map_name, harvests.c.walk.in_(IMPORTS))
        .order_by(harvests.c.day)
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    return {day: state or "" for day, segment, state in rows if segment == f"{its}{day}"}


def last_day_before(history: History, map_name: str, day: date) -> date | None:
    """Returns the last day before this one of which the map has a harvest, imported or not."""
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


class Recorded(NamedTuple):
    """A version, with the harvest that has recorded it last."""

    version: Version
    harvest: int


def with_day(around: Sequence[Recorded], new: Recorded, claim: tuple[int, date] | None) -> list[Recorded]:
    """Returns the versions that a tile has in place of `around` if `new` is its state on the imported day.

    `around` are, in their order, the last version before that day, that of the day, and the first one after
    it, as far as they exist. `claim` is the first later harvest that asked for every tile, and its day. If it
    has recorded no version, it saw what the history has shown until now. A state that equals the one before
    it makes no version. Of equal ones the latest validator is kept. Pure.
    """
    day = new.version.day
    shown = [one.version for one in around if one.version.day <= day]
    after = [one for one in around if one.version.day > day]
    states = [new]
    if claim is not None and not (after and after[0].version.day <= claim[1]):
        harvest, its_day = claim
        seen = replace(shown[-1], day=its_day) if shown else Version(its_day, None)
        states.append(Recorded(seen, harvest))
    kept = [one for one in around if one.version.day < day]
    for one in (*states, *after):
        last = kept[-1] if kept else None
        if _sha1(last) != _sha1(one):
            kept.append(one)
        elif last is not None and one.version.validator != Validator():
            kept[-1] = last._replace(version=replace(last.version, validator=one.version.validator))
    return kept


def outcome_of(new: Version, before: Version | None) -> Outcome | None:
    """Returns the outcome of a day on which the tile had the new state, or None if it was not there and not
    known. If the validator is empty, equal bytes count as `ign`."""
    if before is None or before.image is None:
        return None if new.image is None else Outcome.ADDED
    if new.image is None:
        return Outcome.GONE
    if new.image.sha1 != before.image.sha1:
        return Outcome.UPDATED
    old, seen = before.validator, new.validator
    is_same = seen.entity == old.entity if seen.etag is not None else seen.last_modified == old.last_modified
    return Outcome.IGNORED if seen == Validator() or is_same else Outcome.NOT_MODIFIED


def _sha1(one: Recorded | None) -> str | None:
    return one.version.image.sha1 if one is not None and one.version.image is not None else None


def _neighbour(*, is_before: bool) -> ScalarSelect[date]:
    """Selects the day of the tile's version next to the day `on_day`, or that day if there is none."""
    other, on_day = versions.alias("other"), bindparam("on_day", type_=Date)
    day = func.max(other.c.day) if is_before else func.min(other.c.day)
    is_beside = other.c.day < on_day if is_before else other.c.day > on_day
    return select(func.coalesce(day, on_day)).where(is_same_tile(other, tiles), is_beside).scalar_subquery()


_AROUND: Final = (
    select(*(tiles.c[name] for name in TILE[1:]), *VERSION, versions.c.harvest)
    .join_from(tiles, versions, is_same_tile(versions, tiles))
    .where(
        tiles.c.layer == bindparam("in_layer"),
        tuple_(tiles.c.zoom, tiles.c.x, tiles.c.y).in_(bindparam("cells", expanding=True)),
        versions.c.day.between(_neighbour(is_before=True), _neighbour(is_before=False)),
    )
    .order_by(versions.c.day)
)
_IN_AREA: Final = AreaQuery.over(tiles, select(tiles.c.zoom, tiles.c.x, tiles.c.y))
_COUNTING: Final = insert_into(changes).values({name: bindparam(name) for name in (*TILE, "day", "tiles")})
_ADD_TO_BLOCKS: Final = _COUNTING.on_conflict_do_update(
    index_elements=list(changes.primary_key.columns),
    set_={"tiles": changes.c.tiles + _COUNTING.excluded.tiles},
)
_FORGET_BLOCK: Final = delete(changes).where(
    is_tile(changes), changes.c.day == bindparam("its_day"), changes.c.tiles == 0
)
_FORGET_TILE: Final = delete(tiles).where(is_tile(tiles))
_DELETE: Final = delete(versions).where(is_tile(versions), versions.c.day == bindparam("its_day"))
_POINT_AT_LATEST: Final = insert(tiles).from_select(
    [*TILE, "version"],
    select(*(versions.c[name] for name in (*TILE, "id")))
    .where(is_tile(versions))
    .order_by(versions.c.day.desc())
    .limit(1),
)
_LAST_DAY: Final = (
    select(func.max(harvests.c.day))
    .join_from(harvests, maps, maps.c.id == harvests.c.map)
    .where(maps.c.name == bindparam("of_map"), harvests.c.day < bindparam("on_day"))
)
_NO_CLAIM: Final = (*PARTIAL, "share")
"""The walks of harvests that did not ask for every tile. One with `share` left out most empty places."""
_CLAIM: Final = (
    select(harvests.c.id, harvests.c.day)
    .join_from(harvests, harvest_layers, harvest_layers.c.harvest == harvests.c.id)
    .where(
        harvest_layers.c.layer == bindparam("in_layer"),
        harvests.c.id != bindparam("but"),
        is_finished(harvests, but=_NO_CLAIM),
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
        if unfinished_harvest(connection, map_id) is not None:
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
        its = select(harvests.c.id).where(harvests.c.map == map_id, harvests.c.segment == day.segment)
        harvest: int | None = connection.execute(its).scalar()
        if harvest is None:
            harvest = connection.execute(insert(harvests).values(row).returning(harvests.c.id)).scalar_one()
        else:
            connection.execute(update(harvests).where(harvests.c.id == harvest).values(row))
        return cls(connection, day, harvest, describe_layers(connection, map_id, harvest, day.layers))

    def run(self) -> DayRecord:
        named: defaultdict[str, dict[Cell, ImportedTile]] = defaultdict(dict)
        for one in self.day.tiles:
            named[one.layer][one.tile.zoom, one.tile.x, one.tile.y] = one
        for name, layer in self.layer_ids.items():
            its, claim = named[name], self._claim(layer)
            if claim is not None and claim[1] == self.day.day:
                # That harvest has asked the site itself.
                self.left_out += len(its)
                continue
            cells = set(its)
            for area in (self.day.areas or {}).get(name, ()):
                cells.update((zoom, x, y) for zoom, x, y in _IN_AREA.rows(self.connection, layer, area))
            for part in in_parts(sorted(cells), _AT_ONCE):
                self._insert(layer, part, its, claim)
            self.counts[layer, Outcome.IGNORED] += self.day.unchanged.get(name, 0)
        self._write_counts()
        counted: Counter[Outcome] = Counter()
        for (_, outcome), number in self.counts.items():
            counted[outcome] += number
        return DayRecord({one: counted[one] for one in Outcome if counted[one]}, self.left_out)

    def _claim(self, layer: int) -> tuple[int, date] | None:
        """Returns the first other harvest of this day or a later one that asked for every tile of the
        layer."""
        asked = {"in_layer": layer, "from_day": self.day.day, "but": self.harvest, "which": self.day.kept}
        row = self.connection.execute(_CLAIM, asked).first()
        return None if row is None else (row.id, row.day)

    def _insert(
        self,
        layer: int,
        cells: Sequence[Cell],
        named: Mapping[Cell, ImportedTile],
        claim: tuple[int, date] | None,
    ) -> None:
        day = self.day.day
        known: defaultdict[Cell, list[Recorded]] = defaultdict(list)
        asked = {"in_layer": layer, "on_day": day, "cells": list(cells)}
        for zoom, x, y, *version, harvest in self.connection.execute(_AROUND, asked):
            known[zoom, x, y].append(Recorded(version_of(*version), harvest))
        changed: dict[Cell, tuple[list[Recorded], list[Recorded]]] = {}
        for cell in cells:
            around, one = known[cell], named.get(cell)
            if any(each.version.day == day and each.harvest != self.harvest for each in around):
                # Another source, or a harvest, has recorded the version of the same day. It stays.
                self.left_out += 1
                continue
            if one is not None and one.missing is not None:
                self.counts[layer, Outcome.FAILED] += 1
                continue
            new = Version(day, None) if one is None else Version(day, one.image, one.validator)
            before = next((each.version for each in around if each.version.day < day), None)
            outcome = outcome_of(new, before)
            if outcome is not None:
                self.counts[layer, outcome] += 1
            now = with_day(around, Recorded(new, self.harvest), claim)
            if now != around:
                changed[cell] = around, now
        if changed:
            _write_versions(self.connection, layer, changed)

    def _write_counts(self) -> None:
        self.connection.execute(delete(harvest_counts).where(harvest_counts.c.harvest == self.harvest))
        rows = [
            {"harvest": self.harvest, "layer": layer, "outcome": outcome.value, "tiles": number}
            for (layer, outcome), number in self.counts.items()
            if number
        ]
        if rows:
            self.connection.execute(insert(harvest_counts), rows)


def _write_versions(
    connection: Connection, layer: int, changed: Mapping[Cell, tuple[list[Recorded], list[Recorded]]]
) -> None:
    """Writes the versions that these tiles have now in place of those around the day, and what follows from
    them: each tile's latest version, the counts of changes, and which tiles are present."""
    touched = [its_tile(layer, *cell) for cell in changed]
    # A tile's row must not point at a version that is deleted.
    connection.execute(_FORGET_TILE, touched)
    dropped, new = [], []
    counted: Counter[tuple[int, int, int, int, date]] = Counter()
    for cell, (around, now) in changed.items():
        above = Tile(*cell).ancestor(BLOCK_LEVELS)
        days = {one.version.day for one in now}
        for one in around:
            counted[layer, cell[0], above.x, above.y, one.version.day] -= 1
            if one.version.day not in days:
                dropped.append({**its_tile(layer, *cell), "its_day": one.version.day})
        counted.update((layer, cell[0], above.x, above.y, day) for day in days)
        new += [version_row((layer, *cell), one.version, one.harvest) for one in now if one not in around]
    if dropped:
        connection.execute(_DELETE, dropped)
    if new:
        connection.execute(replace_into(versions, *TILE, "day"), new)
    connection.execute(_POINT_AT_LATEST, touched)
    names = (*TILE, "day", "tiles")
    more = [dict(zip(names, (*key, number), strict=True)) for key, number in counted.items() if number]
    if more:
        connection.execute(_ADD_TO_BLOCKS, more)
        connection.execute(_FORGET_BLOCK, [{f"its_{name}": row[name] for name in names} for row in more])
    for block in blocks_of("", (Tile(*cell) for cell in changed)):
        write_present(connection, layer, block)
