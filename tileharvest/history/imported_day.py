"""An imported day: the state of a map on one day by an archive, recorded as a harvest of that day.

Days may come in any order, also before the history's first day and between two harvests. `docs/decisions/023`
says what happens to the versions that follow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace
from sqlalchemy import bindparam, delete, insert, or_, select, tuple_, update

from tileharvest.errors import HistoryError, program
from tileharvest.history.blocks import WRITE_VERSIONS, follow_versions, write_present
from tileharvest.history.harvest_row import describe_layers, unfinished_harvest
from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import (
    CHANGES_WALK,
    FINISHED,
    IMPORTED_WALK,
    IMPORTS,
    PARTIAL,
    TILE,
    VERSION,
    harvest_counts,
    harvest_layers,
    harvests,
    is_finished,
    is_of_map,
    is_tile,
    its_tile,
    tiles,
    version_of,
    version_row,
    versions,
)
from tileharvest.history.site_files import keep_site_files
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Image, Validator, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection

    from tileharvest.history.database import History
    from tileharvest.history.site_files import SiteFile
    from tileharvest.tiles.grid import Cell
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
    """The site's validator, if it is known."""
    missing: str | None = None
    """The reason why the archive lacks the image of a tile that it names. The tile counts as `fail` on that
    day. None if nothing is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedDay:
    """One day of an archive. Raises ValueError if it names a layer that it does not have."""

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
    unchanged: Mapping[str, int] | None = None
    """The numbers of tiles, by layer, that are not named because they were as in the last harvest before this
    day. They go into the counts. None says that nothing is known of tiles that are not named."""
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
        if not {one.layer for one in self.tiles} <= names:
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
        .where(is_of_map(harvests, map_name), harvests.c.walk.in_(IMPORTS))
        .order_by(harvests.c.day)
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    return {day: state or "" for day, segment, state in rows if segment == f"{its}{day}"}


def is_alone_since(history: History, map_name: str, source: str, last: date, day: date) -> bool:
    """Returns whether the map has no harvest from the day `last` until before `day`, imported or not, but
    for what this source has recorded of `last`."""
    between = (harvests.c.day >= last) & (harvests.c.day < day)
    others = is_of_map(harvests, map_name) & (harvests.c.segment != f"{_segments_of(source)}{last}")
    with history.reading() as connection:
        return connection.execute(select(harvests.c.id).where(others & between)).first() is None


def record_day(history: History, day: ImportedDay) -> DayRecord:
    """Records the day as a finished harvest, in one transaction. To record it again changes nothing.

    Afterwards the versions and changes are those that harvests in the order of the days would have made. The
    counts of later harvests stay what these have found. Days of which only changes are known should come in
    their order, because it is not kept which tiles they have seen unchanged.

    The images must be in the store. Takes about 100 microseconds for each named tile. Raises HistoryError if
    the map has an unfinished harvest, because that compares with versions which it has read before. Nothing
    is changed then.
    """

    def write(connection: Connection) -> DayRecord:
        map_id = own_map_id(connection, day.map_name)
        if unfinished_harvest(connection, map_id) is not None:
            raise HistoryError(
                f"map '{day.map_name}' has an unfinished harvest, so nothing can be imported into it now;"
                f" what was imported before is kept; run {program()} harvest {day.map_name} to its end, and"
                " import again"
            )
        harvest = _write_harvest(connection, map_id, day)
        counts: Counter[Outcome] = Counter()
        left_out = 0
        for name, layer in describe_layers(connection, map_id, harvest, day.layers).items():
            found, left = _record_layer(connection, harvest, layer, day, name)
            rows = [
                {"harvest": harvest, "layer": layer, "outcome": outcome.value, "tiles": number}
                for outcome, number in found.items()
                if number
            ]
            if rows:
                connection.execute(insert(harvest_counts), rows)
            counts, left_out = counts + found, left_out + left
        of_day = (harvests.c.map == map_id) & (harvests.c.day == day.day) & (harvests.c.id != harvest)
        if day.files is not None and connection.execute(select(harvests.c.id).where(of_day)).first() is None:
            keep_site_files(history, day.map_name, day.day, day.files)
        return DayRecord({one: counts[one] for one in Outcome if counts[one]}, left_out)

    return history.write(write)


def _segments_of(source: str) -> str:
    return f"import {source} "


class Recorded(NamedTuple):
    """A version, with the harvest that has recorded it last."""

    version: Version
    harvest: int


def with_day(known: Sequence[Recorded], new: Recorded, claim: tuple[int, date] | None) -> list[Recorded]:
    """Returns the versions of a tile in place of the `known` ones, in order, if `new` is its state on the
    imported day.

    `claim` is the first later harvest that asked for every tile, and its day. If it has recorded no version,
    it saw what the history has shown until now. A state that equals the one before it makes no version. Of
    equal ones the latest validator is kept. Pure.
    """
    day = new.version.day
    kept = [one for one in known if one.version.day < day]
    after = [one for one in known if one.version.day > day]
    states = [new]
    if claim is not None and not (after and after[0].version.day <= claim[1]):
        harvest, its_day = claim
        shown = [one.version for one in known if one.version.day <= day]
        seen = replace(shown[-1], day=its_day) if shown else Version(its_day, None)
        states.append(Recorded(seen, harvest))
    for one in (*states, *after):
        last = kept[-1] if kept else None
        if _sha1(last) != _sha1(one):
            kept.append(one)
        elif last is not None and one.version.validator != Validator():
            kept[-1] = last._replace(version=replace(last.version, validator=one.version.validator))
    return kept


def outcome_of(new: Version, before: Version | None) -> Outcome | None:
    """Returns the outcome of a day on which the tile had the new state, or None if it was not there and not
    known. Equal bytes are `ign`, whatever their validators, because nothing was fetched."""
    if before is None or before.image is None:
        return None if new.image is None else Outcome.ADDED
    if new.image is None:
        return Outcome.GONE
    return Outcome.IGNORED if new.image.sha1 == before.image.sha1 else Outcome.UPDATED


def _sha1(one: Recorded | None) -> str | None:
    return one.version.image.sha1 if one is not None and one.version.image is not None else None


_KNOWN: Final = (
    select(*(versions.c[name] for name in TILE[1:]), *VERSION, versions.c.harvest)
    .where(
        versions.c.layer == bindparam("in_layer"),
        tuple_(versions.c.zoom, versions.c.x, versions.c.y).in_(bindparam("cells", expanding=True)),
    )
    .order_by(versions.c.day)
)
_FORGET_TILE: Final = delete(tiles).where(is_tile(tiles))
_FORGET_VERSIONS: Final = delete(versions).where(is_tile(versions))
_NO_CLAIM: Final = (*PARTIAL, "share")
"""The walks of harvests that did not ask for every tile. One with `share` left out most empty places."""


def _write_harvest(connection: Connection, map_id: int, day: ImportedDay) -> int:
    """Writes the row of the day's harvest, in place of an earlier one of the same source. Returns its id."""
    row = {
        "map": map_id,
        "segment": day.segment,
        "day": day.day,
        "started": day.imported,
        "ended": day.imported,
        "renderer": day.renderer,
        "reason": FINISHED,
        "stored_bytes": day.stored_bytes,
        "walk": CHANGES_WALK if day.unchanged is None else IMPORTED_WALK,
        "walk_reason": day.state,
    }
    its = select(harvests.c.id).where(harvests.c.map == map_id, harvests.c.segment == day.segment)
    harvest: int | None = connection.execute(its).scalar()
    if harvest is None:
        return int(connection.execute(insert(harvests).values(row).returning(harvests.c.id)).scalar_one())
    connection.execute(update(harvests).where(harvests.c.id == harvest).values(row))
    connection.execute(delete(harvest_counts).where(harvest_counts.c.harvest == harvest))
    return harvest


def _record_layer(
    connection: Connection, harvest: int, layer: int, day: ImportedDay, name: str
) -> tuple[Counter[Outcome], int]:
    """Records what the day says of a layer. Returns the numbers of its tiles by outcome, and of those that
    were left out."""
    named = {(one.tile.zoom, one.tile.x, one.tile.y): one for one in day.tiles if one.layer == name}
    claim = _claim(connection, harvest, layer, day)
    if claim is not None and claim[1] == day.day:
        # That harvest has asked the site itself.
        return Counter(), len(named)
    counts, left_out = Counter({Outcome.IGNORED: (day.unchanged or {}).get(name, 0)}), 0
    cells = sorted(named)
    for start in range(0, len(cells), _AT_ONCE):
        part = cells[start : start + _AT_ONCE]
        known = _known(connection, layer, part)
        changed: dict[Cell, list[Recorded]] = {}
        days: set[date] = set()
        for cell in part:
            all_known, one = known[cell], named[cell]
            if any(each.version.day == day.day and each.harvest != harvest for each in all_known):
                # Another source, or a harvest, has recorded the version of the same day. It stays.
                left_out += 1
                continue
            if one.missing is not None:
                counts[Outcome.FAILED] += 1
                continue
            new = Version(day.day, one.image, one.validator)
            before = [each for each in all_known if each.version.day < day.day]
            outcome = outcome_of(new, before[-1].version if before else None)
            if outcome is not None:
                counts[outcome] += 1
            now = with_day(all_known, Recorded(new, harvest), claim)
            if now != all_known:
                changed[cell] = now
                days.update(each.version.day for each in (*all_known, *now))
        if changed:
            _write_versions(connection, layer, changed, days)
    return counts, left_out


def _claim(connection: Connection, harvest: int, layer: int, day: ImportedDay) -> tuple[int, date] | None:
    """Returns the first harvest from the day on that asked for every tile of the layer, and its day."""
    query = (
        select(harvests.c.id, harvests.c.day)
        .join_from(harvests, harvest_layers, harvest_layers.c.harvest == harvests.c.id)
        .where(harvest_layers.c.layer == layer, harvests.c.id != harvest, harvests.c.day >= day.day)
        .where(is_finished(harvests, but=_NO_CLAIM))
        .order_by(harvests.c.day, harvests.c.id)
    )
    if day.kept is not None:
        query = query.where(or_(harvests.c.kept.is_(None), harvests.c.kept == day.kept))
    row = connection.execute(query.limit(1)).first()
    return None if row is None else (row.id, row.day)


def _known(connection: Connection, layer: int, cells: Sequence[Cell]) -> Mapping[Cell, list[Recorded]]:
    """Returns the versions of these tiles, each tile's in order."""
    known: defaultdict[Cell, list[Recorded]] = defaultdict(list)
    for zoom, x, y, *version, harvest in connection.execute(_KNOWN, {"in_layer": layer, "cells": cells}):
        known[zoom, x, y].append(Recorded(version_of(version), harvest))
    return known


def _write_versions(
    connection: Connection, layer: int, changed: Mapping[Cell, Sequence[Recorded]], days: Collection[date]
) -> None:
    """Writes the versions that these tiles have now in place of those that they had, and what follows from
    them: each tile's latest version, the counts of changes on these days, and which tiles are present."""
    places = [its_tile(layer, *cell) for cell in changed]
    # First what points at the versions.
    connection.execute(_FORGET_TILE, places)
    connection.execute(_FORGET_VERSIONS, places)
    rows = [
        version_row((layer, *cell), one.version, one.harvest) for cell, now in changed.items() for one in now
    ]
    if rows:
        WRITE_VERSIONS.execute(connection, rows)
    for block in blocks_of("", (Tile(*cell) for cell in changed)):
        follow_versions(connection, layer, block, days)
        write_present(connection, layer, block)
