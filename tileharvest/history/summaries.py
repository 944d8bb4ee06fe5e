"""Summaries of harvests and maps: their counts and costs, how far an unfinished harvest is, and which were
finished, from which it follows which maps are due. Read only.

Each answer shows one state of the history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, func, or_, select

from tileharvest.history.costs import Cost
from tileharvest.history.harvest_row import counts_of
from tileharvest.history.outlines import known_map_id
from tileharvest.history.schema import (
    FINISHED,
    IMPORTS,
    NOT_WALKED,
    failures,
    harvest_counts,
    harvest_layers,
    harvests,
    is_finished,
    is_of_map,
    layers,
    maps,
    tiles,
    versions,
)
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import MISSING, Outcome, counts_as_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Select

    from tileharvest.history.database import History


@dataclass(frozen=True, slots=True)
class HarvestSummary:
    """One harvest of a map, by all its processes together. If it is unfinished, the numbers are those so far.
    `schema.harvests` says what the columns mean from which most fields come."""

    id: int
    segment: str
    day: date
    started: datetime
    """In UTC, as is `ended`."""
    ended: datetime | None
    reason: str | None
    cost: Cost
    depth: dict[str, int]
    """The depth by layer, as the site said."""
    renderer: str
    counts: dict[Outcome, int]
    """The number of tiles by outcome, for outcomes that occurred."""
    expected: int = 0
    """The number of tiles that were known when it began. It will find about as many. 0 for a map's first
    harvest."""
    stopped: str | None = None
    walk: str | None = None
    walk_reason: str | None = None

    def as_plain(self) -> dict[str, Any]:
        """Returns the harvest for programs, as the API and commands print it. The names never change."""
        return {
            "segment": self.segment,
            "day": self.day.isoformat(),
            "started": self.started.isoformat(),
            "ended": self.ended.isoformat() if self.ended else None,
            "reason": self.reason,
            "stopped": self.stopped,
            "renderer": self.renderer,
            "depth": self.depth,
            "counts": counts_as_plain(self.counts),
            "walk": self.walk,
            "walk_reason": self.walk_reason,
            **{name: getattr(self.cost, name) for name in Cost._fields if name != "seconds"},
            "seconds_worked": round(self.cost.seconds, 3),
        }

    @property
    def present(self) -> int:
        """The number of tiles that were there when it ended: all that have an outcome, without missing
        ones."""
        return sum(self.counts.values()) - sum(self.counts.get(one, 0) for one in MISSING)


_OF_ROW: Final = tuple(
    one.name for one in fields(HarvestSummary) if one.name not in {"cost", "depth", "counts"}
)
"""The fields of a summary that have the name and the value of a column of `harvests`."""


def _summaries(connection: Connection, is_meant: ColumnElement[bool]) -> list[HarvestSummary]:
    """Returns the harvests for which the condition holds, oldest first. For an unfinished one it reads all
    blocks of its map."""
    which = select(harvests.c.id).where(is_meant)
    # Of one day's harvests the one with the smaller id was begun first.
    rows = connection.execute(select(harvests).where(is_meant).order_by(harvests.c.day, harvests.c.id)).all()
    depths = _depths(connection, which)
    counts: defaultdict[int, Counter[Outcome]] = defaultdict(Counter)
    for row in connection.execute(select(harvest_counts).where(harvest_counts.c.harvest.in_(which))):
        counts[row.harvest][Outcome(row.outcome)] += row.tiles
    return [
        HarvestSummary(
            cost=Cost(*(getattr(row, name) for name in Cost._fields)),
            depth=depths[row.id],
            counts=counts_of(connection, row.id) if row.ended is None else dict(counts[row.id]),
            **{name: getattr(row, name) for name in _OF_ROW},
        )
        for row in rows
    ]


def _depths(connection: Connection, which: Select[Any]) -> defaultdict[int, dict[str, int]]:
    """Returns the depths of the layers of these harvests, by the harvest's id."""
    found: defaultdict[int, dict[str, int]] = defaultdict(dict)
    query = (
        select(harvest_layers.c.harvest, layers.c.name, harvest_layers.c.depth)
        .join_from(harvest_layers, layers, layers.c.id == harvest_layers.c.layer)
        .where(harvest_layers.c.harvest.in_(which))
        .order_by(layers.c.id)
    )
    for harvest, name, depth in connection.execute(query):
        found[harvest][name] = depth
    return found


def harvest_summaries(history: History, map_name: str) -> list[HarvestSummary]:
    """Returns all harvests of the map, oldest first. Raises HistoryError for an unknown map."""
    with history.reading() as connection:
        return _summaries(connection, harvests.c.map == known_map_id(connection, map_name))


def progress_of(history: History, map_name: str) -> HarvestSummary | None:
    """Returns the map's unfinished harvest with its numbers so far. Returns None if there is none, or no such
    map.

    Reads all blocks of the map, so call it once a second at most.
    """
    is_meant = is_of_map(harvests, map_name) & harvests.c.ended.is_(None)
    with history.reading() as connection:
        return next(iter(_summaries(connection, is_meant)), None)


@dataclass(frozen=True, slots=True)
class MapSummary:
    """The last harvest, the tiles, the versions and the images of one map."""

    name: str
    day: date | None
    """The day of the last harvest, or None before the first."""
    reason: str | None
    """Why the last harvest ended. None if it is unfinished, and before the first."""
    depth: Mapping[str, int]
    """The depth by layer, as the site said at the last harvest."""
    tiles: int
    """The number of tiles whose latest version is not gone."""
    versions: int
    """The number of versions of all days, `gone` ones too."""
    image_bytes: int
    """Bytes of the different images that the versions name. This map alone needs so much of the store."""


_PRESENT: Final = (
    select(layers.c.map, func.count(versions.c.sha1))
    .join_from(layers, tiles, tiles.c.layer == layers.c.id)
    .join(versions, versions.c.id == tiles.c.version)
)
_RECORDED: Final = select(layers.c.map, func.count()).join_from(
    layers, versions, versions.c.layer == layers.c.id
)
_IMAGES: Final = (
    select(layers.c.map, versions.c.sha1, versions.c.extension, versions.c.size)
    .join_from(layers, versions, versions.c.layer == layers.c.id)
    .where(versions.c.sha1.is_not(None))
    .distinct()
    .subquery()
)
_IMAGE_BYTES: Final = select(_IMAGES.c.map, func.sum(_IMAGES.c.size))


def map_summaries(history: History) -> list[MapSummary]:
    """Returns all maps, ordered by name. Reads all versions."""
    found = []
    with history.reading() as connection:
        # One query for all maps. For 10,000 maps, a query for each took 139 s on PostgreSQL instead of 36.
        sums = [_by_map(connection, query) for query in (_PRESENT, _RECORDED, _IMAGE_BYTES)]
        for id_, name in connection.execute(select(maps.c.id, maps.c.name).order_by(maps.c.name)).all():
            # By day first, because a day may have been imported after those that follow it were recorded.
            last = connection.execute(
                select(harvests.c.id, harvests.c.day, harvests.c.reason)
                .where(harvests.c.map == id_)
                .order_by(harvests.c.day.desc(), harvests.c.id.desc())
                .limit(1)
            ).first()
            day, reason, depths = None, None, dict[str, int]()
            if last is not None:
                day, reason = last.day, last.reason
                depths = _depths(connection, select(last.id))[last.id]
            found.append(MapSummary(name, day, reason, depths, *(of.get(id_, 0) for of in sums)))
    return found


def _by_map(connection: Connection, query: Select[Any]) -> Mapping[int, int]:
    """Returns the query's sum for each map, by the map's id. Maps without rows are left out."""
    rows = connection.execute(query.group_by(query.selected_columns[0]))
    # A sum of whole numbers is a Decimal on PostgreSQL.
    return {map_id: int(number) for map_id, number in rows}


class Precedent(NamedTuple):
    """The last finished harvests of a map and the size of its tiles, from which the next one is planned."""

    summary: HarvestSummary
    """The last finished harvest, however it walked."""
    present_bytes: int
    """Bytes of the latest versions of all tiles that are not gone."""
    pruned: HarvestSummary | None = None
    """The last finished harvest whose walk was pruned and needed no repair."""
    full: HarvestSummary | None = None
    """The last finished harvest whose walk was full."""


def precedent(history: History, map_name: str) -> Precedent | None:
    """Returns the last finished harvests of the map, or None if none was ever finished.

    Reads all harvests and tiles of the map.
    """
    weight = (
        select(func.coalesce(func.sum(versions.c.size), 0))
        .join_from(tiles, versions, versions.c.id == tiles.c.version)
        .join(layers, layers.c.id == tiles.c.layer)
        .where(is_of_map(layers, map_name))
    )
    is_meant = is_of_map(harvests, map_name) & is_finished(harvests, but=NOT_WALKED)
    with history.reading() as connection:
        finished = _summaries(connection, is_meant)
        present = int(connection.execute(weight).scalar_one())
    if not finished:
        return None
    walked = {one.walk or "full": one for one in finished}
    return Precedent(finished[-1], present, walked.get("pruned"), walked.get("full"))


class FailedTile(NamedTuple):
    """A tile whose last result is a failure."""

    layer: str
    tile: Tile
    in_a_row: int
    """The number of harvests in a row that have asked for it, and in which it failed."""
    reason: str
    segment: str
    """The segment of the last of these harvests."""
    day: date
    """Its day."""


def failed_tiles(history: History, map_name: str) -> list[FailedTile]:
    """Returns the tiles that failed when they were last asked. The result is empty for an unknown map."""
    place = (failures.c.zoom, failures.c.x, failures.c.y)
    query = (
        select(
            layers.c.name,
            *place,
            failures.c.in_a_row,
            failures.c.reason,
            harvests.c.segment,
            harvests.c.day,
        )
        .join_from(failures, layers, layers.c.id == failures.c.layer)
        .join(harvests, harvests.c.id == failures.c.harvest)
        .where(is_of_map(harvests, map_name))
        .order_by(layers.c.name, *place)
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    return [FailedTile(layer, Tile(zoom, x, y), *others) for layer, zoom, x, y, *others in rows]


def forget_failures(history: History, map_name: str) -> None:
    """Forgets which tiles of a map have failed."""
    of_map = select(layers.c.id).where(is_of_map(layers, map_name))
    forgetting = delete(failures).where(failures.c.layer.in_(of_map))
    history.write(lambda connection: connection.execute(forgetting))


VISITS: Final = 20
"""The number of a map's last harvests by which its interval is adapted. If they find nothing new, it takes 18
of them from one day to a year."""

_ITS: Final = is_of_map(harvests, bindparam("map_name"))
_NEWS: Final = select(harvest_counts.c.harvest).where(
    harvest_counts.c.harvest == harvests.c.id,
    harvest_counts.c.outcome.in_([outcome.value for outcome in Outcome if outcome.makes_version]),
    harvest_counts.c.tiles > 0,
)
_VISITS: Final = (
    select(harvests.c.started, _NEWS.exists())
    .where(_ITS, is_finished(harvests, but=NOT_WALKED))
    .order_by(harvests.c.day.desc(), harvests.c.id.desc())
    .limit(VISITS)
)


_EVER_FINISHED: Final = (
    # An imported day does not make a map's first harvest less urgent.
    select(harvests.c.id).where(_ITS, is_finished(harvests, but=IMPORTS)).limit(1)
)
_LAST_OF_SEGMENT: Final = (
    select(harvests.c.ended)
    .where(
        _ITS,
        harvests.c.segment == bindparam("in_segment"),
        harvests.c.day >= bindparam("since"),
        or_(harvests.c.reason == FINISHED, harvests.c.ended.is_(None)),
    )
    .order_by(harvests.c.id.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Past:
    """The past harvests of one map."""

    was_ever_finished: bool = False
    """Whether any harvest of the map was ever finished, of whatever segment. Imported days do not count."""
    is_complete: bool = False
    """Whether the harvest of the given segment is finished."""
    is_begun: bool = False
    """Whether the harvest of the given segment was begun and has not ended."""
    visits: tuple[bool, ...] = ()
    """For each of the last finished harvests, oldest first, whether it found any tile that is new, different
    or gone. Empty unless they were asked for."""
    last_visit: datetime | None = None
    """The moment, in UTC, at which the last of these harvests began."""


def past_of(
    history: History, map_name: str, segment: str, since: date = date.min, *, with_visits: bool = False
) -> Past:
    """Returns the past of a map, seen from a segment of this name. No harvest of the segment began before the
    day `since`. Takes two or three queries, each of which reads some rows, however long the history is."""
    its = {"map_name": map_name, "in_segment": segment, "since": since}
    with history.reading() as connection:
        last = connection.execute(_LAST_OF_SEGMENT, its).first()
        visits = connection.execute(_VISITS, its).all() if with_visits else ()
        return Past(
            was_ever_finished=connection.execute(_EVER_FINISHED, its).first() is not None,
            is_complete=last is not None and last.ended is not None,
            is_begun=last is not None and last.ended is None,
            visits=tuple(bool(has_changed) for _, has_changed in reversed(visits)),
            last_visit=visits[0].started if visits else None,
        )
