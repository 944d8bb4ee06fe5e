"""Summaries: harvests and maps in sum, what they cost, and how far an unfinished harvest is. Read only.

Each answer shows one state of the history.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import bindparam, func, or_, select

from tileharvest.history.costs import COST_COLUMNS, Cost
from tileharvest.history.harvest_row import HarvestRow
from tileharvest.history.outlines import known_map_id
from tileharvest.history.schema import (
    CHANGES_WALK,
    FINISHED,
    IMPORTED_WALK,
    NOT_WALKED,
    changes,
    harvest_layers,
    harvests,
    layers,
    maps,
    tiles,
    versions,
)
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from sqlalchemy import Connection, Row, Select

    from tileharvest.history.database import History


@dataclass(frozen=True, slots=True)
class HarvestSummary:
    """One harvest of a map, by all its processes together; what it did so far, while it is unfinished."""

    id: int
    segment: str
    day: date
    started: datetime
    """In UTC, as is `ended`."""
    ended: datetime | None
    """None while the harvest is unfinished."""
    reason: str | None
    """Why it ended, such as `finished` or `interrupted`; None while the harvest is unfinished."""
    cost: Cost
    """An image that was stored just before a kill may be missing from it: the run that continues finds the
    image there already. The seconds are 0 where an older release did not note them."""
    depth: dict[str, int]
    """By layer, as the site said."""
    renderer: str
    counts: dict[Outcome, int]
    """Tiles per outcome, for outcomes that occurred; those so far, while the harvest is unfinished."""
    expected: int = 0
    """Tiles that were known when it began: about as many as it will find. 0 for a map's first harvest, and
    where an older release did not note it."""
    stopped: str | None = None
    """Why the last run of an unfinished harvest ended; None while one goes on, and after a kill."""
    walk: str | None = None
    """`full`, `pruned`, or `repaired`: it began pruned, and then asked for what it had skipped; or `pushed`:
    it asked only what a person had pushed; or `imported`, or `changes` where only what had changed was
    imported. None for a harvest of a release that knew only the full walk."""
    walk_reason: str | None = None
    """Why it walked so; of an imported day, which state of its source it has."""

    def as_plain(self) -> dict[str, Any]:
        """Returns what programs are told of it, in the API and by commands. The names stay."""
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
            **{name: getattr(self.cost, name) for name in COST_COLUMNS if name != "seconds"},
            "seconds_worked": round(self.cost.seconds, 3),
        }

    @property
    def present(self) -> int:
        """Tiles that it knew to be there when it ended."""
        return sum(self.counts.values()) - sum(
            self.counts.get(one, 0) for one in (Outcome.NOTHING, Outcome.GONE)
        )

    @property
    def asked_share(self) -> float:
        """Which part of the tiles that were there it has asked; 1 where there were none."""
        return 1 - self.counts.get(Outcome.SKIPPED, 0) / max(1, self.present)

    @property
    def took(self) -> float | None:
        """Seconds that it worked, or, where those are unknown, from its beginning to its end.

        None while it is unfinished and no seconds are noted.
        """
        if self.cost.seconds or self.ended is None:
            return self.cost.seconds or None
        return (self.ended - self.started).total_seconds()


_OF_ROW: Final = tuple(
    one.name for one in fields(HarvestSummary) if one.name not in {"cost", "depth", "counts"}
)
"""What a summary says in the words of its row."""


@dataclass(frozen=True, slots=True)
class MapSummary:
    """What the history holds of one map."""

    name: str
    day: date | None
    """Of the last harvest; None before the first."""
    reason: str | None
    """Why the last harvest ended; None while it is unfinished, and before the first."""
    depth: Mapping[str, int]
    """By layer, as the site said at the last harvest."""
    tiles: int
    """Tiles whose latest version is not gone."""
    versions: int
    """Versions of all days; `gone` ones too."""
    image_bytes: int
    """Bytes of the different images that the versions name: what this map alone needs in the store."""


class Precedent(NamedTuple):
    """What the next harvest of a map can be judged by: the last finished ones, and the size of all tiles."""

    summary: HarvestSummary
    """The last finished harvest, however it walked."""
    present_bytes: int
    """Bytes of the latest versions of all tiles that are not gone."""
    pruned: HarvestSummary | None = None
    """The last finished harvest whose walk was pruned and needed no repair."""
    full: HarvestSummary | None = None
    """The last finished harvest whose walk was full. Only a restored history lacks one: a map's first is."""
    first_level: int = 0
    """Tiles of the coarsest zoom of all layers that were ever asked: a layer without an edge has many."""


_MAPS: Final = select(maps.c.id, maps.c.name).order_by(maps.c.name)
_OF_MAP: Final = harvests.alias("of_map")
_LAST_IDS: Final = (
    # Days that were imported may have come after those that follow them.
    select(
        select(_OF_MAP.c.id)
        .where(_OF_MAP.c.map == maps.c.id)
        .order_by(_OF_MAP.c.day.desc(), _OF_MAP.c.id.desc())
        .limit(1)
        .scalar_subquery()
    ).select_from(maps)
)
_LAST: Final = select(harvests.c.map, harvests.c.day, harvests.c.reason).where(harvests.c.id.in_(_LAST_IDS))
_DEPTHS: Final = (
    select(layers.c.map, layers.c.name, harvest_layers.c.depth)
    .join_from(harvest_layers, layers, layers.c.id == harvest_layers.c.layer)
    .where(harvest_layers.c.harvest.in_(_LAST_IDS))
    .order_by(layers.c.id)
)
_PRESENT: Final = (
    select(layers.c.map, func.count())
    .join_from(layers, tiles, tiles.c.layer == layers.c.id)
    .join(versions, versions.c.id == tiles.c.version)
    .where(versions.c.sha1.is_not(None))
)
_RECORDED: Final = select(layers.c.map, func.sum(changes.c.tiles)).join_from(
    layers, changes, changes.c.layer == layers.c.id
)
"""The versions of each map, by the counts that are kept of blocks: up to 64 times fewer rows."""
_IMAGES: Final = (
    select(layers.c.map, versions.c.sha1, versions.c.extension, versions.c.size)
    .join_from(layers, versions, versions.c.layer == layers.c.id)
    .where(versions.c.sha1.is_not(None))
    .distinct()
    .subquery()
)
_FINISHED: Final = (
    select(harvests.c.ended, harvests.c.reason)
    .join_from(harvests, maps, maps.c.id == harvests.c.map)
    .where(maps.c.name == bindparam("map_name"), harvests.c.segment == bindparam("in_segment"))
    .where(or_(harvests.c.reason == FINISHED, harvests.c.ended.is_(None)))
    .order_by(harvests.c.id.desc())
    .limit(1)
)
_UNFINISHED: Final = (
    select(harvests)
    .join_from(harvests, maps, maps.c.id == harvests.c.map)
    .where(maps.c.name == bindparam("map_name"), harvests.c.ended.is_(None))
)
_IMAGE_BYTES: Final = select(_IMAGES.c.map, func.sum(_IMAGES.c.size))


def map_summaries(history: History) -> list[MapSummary]:
    """Returns all maps, ordered by name. A fixed number of queries reads all tiles and versions."""
    with history.reading() as connection:
        days = {row.map: row for row in connection.execute(_LAST)}
        depths: dict[int, dict[str, int]] = {}
        for map_id, layer, depth in connection.execute(_DEPTHS):
            depths.setdefault(map_id, {})[layer] = depth
        # For all maps at once: asked for each of 10,000, all this took 139 s on PostgreSQL instead of 36.
        present, recorded, image_bytes = (
            _by_map(connection, query) for query in (_PRESENT, _RECORDED, _IMAGE_BYTES)
        )
        return [
            MapSummary(
                name,
                days[map_id].day if map_id in days else None,
                days[map_id].reason if map_id in days else None,
                depths.get(map_id, {}),
                present.get(map_id, 0),
                recorded.get(map_id, 0),
                image_bytes.get(map_id, 0),
            )
            for map_id, name in connection.execute(_MAPS)
        ]


_ASKED: Final = func.coalesce(harvests.c.walk, "").not_in((IMPORTED_WALK, CHANGES_WALK))
"""Says of a harvest whether it has asked the site, and was not imported."""


def last_costs(history: History) -> dict[str, Cost]:
    """Returns what the last finished harvest of each map has cost, by the map's name. One query, which reads
    an index of all harvests."""
    last = (
        select(func.max(harvests.c.id)).where(harvests.c.reason == FINISHED, _ASKED).group_by(harvests.c.map)
    )
    query = select(maps.c.name.label("map_name"), harvests).join_from(
        maps, harvests, harvests.c.map == maps.c.id
    )
    with history.reading() as connection:
        rows = connection.execute(query.where(harvests.c.id.in_(last)))
        return {row.map_name: _cost_of(row) for row in rows}


def harvest_summaries(history: History, map_name: str) -> list[HarvestSummary]:
    """Returns all harvests of the map, oldest first. Raises HistoryError for a map that has none."""
    with history.reading() as connection:
        query = _harvests_of(known_map_id(connection, map_name))
        return [_harvest_summary(connection, row) for row in connection.execute(query).all()]


def finished_at(history: History, map_name: str, segment: str) -> datetime | None:
    """Returns when a harvest of that map and segment was finished, in UTC.

    Returns None if none was, or if another one of the segment was begun since and is unfinished.
    """
    with history.reading() as connection:
        row = connection.execute(_FINISHED, {"map_name": map_name, "in_segment": segment}).one_or_none()
        return None if row is None else row.ended


def is_unfinished(history: History, map_name: str) -> bool:
    """Returns whether the map has an unfinished harvest, of whatever segment. Reads a row."""
    with history.reading() as connection:
        return connection.execute(_UNFINISHED, {"map_name": map_name}).first() is not None


def progress_of(history: History, map_name: str) -> HarvestSummary | None:
    """Returns the map's unfinished harvest as it is so far; None if it has none, or is unknown.

    Reads all tiles of the map: ask once a second at most.
    """
    with history.reading() as connection:
        row = connection.execute(_UNFINISHED, {"map_name": map_name}).one_or_none()
        return None if row is None else _harvest_summary(connection, row)


def precedent(history: History, map_name: str) -> Precedent | None:
    """Returns what the map's next harvest can be judged by, or None if no harvest of it was ever finished.

    Reads all tiles of the map.
    """
    of_map = select(layers.c.id).join(maps, maps.c.id == layers.c.map).where(maps.c.name == map_name)
    weight = (
        select(func.coalesce(func.sum(versions.c.size), 0))
        .select_from(tiles.join(versions, versions.c.id == tiles.c.version))
        .where(tiles.c.layer.in_(of_map))
    )
    by_zoom = (
        select(layers.c.name, tiles.c.zoom, func.count())
        .join_from(tiles, layers, layers.c.id == tiles.c.layer)
        .where(tiles.c.layer.in_(of_map))
        .group_by(layers.c.name, tiles.c.zoom)
    )
    with history.reading() as connection:
        if connection.execute(of_map.limit(1)).first() is None:
            return None
        # A sum of whole numbers is a Decimal on PostgreSQL.
        present = int(connection.execute(weight).scalar_one())
        asked = {(name, zoom): int(count) for name, zoom, count in connection.execute(by_zoom)}
    ended = harvest_summaries(history, map_name)
    finished = [one for one in ended if one.reason == FINISHED and one.walk not in NOT_WALKED]
    if not finished:
        return None
    pruned = [one for one in finished if one.walk == "pruned"]
    full = [one for one in finished if one.walk in (None, "full")]
    last = finished[-1]
    first_level = sum(asked.get((name, 1 - depth), 0) for name, depth in last.depth.items())
    return Precedent(last, present, pruned[-1] if pruned else None, full[-1] if full else None, first_level)


def last_pruned(history: History, map_name: str) -> list[HarvestSummary]:
    """Returns the last two finished harvests of a map that began pruned, the latest first; those included
    that had to ask for what they had skipped. Reads so many rows."""
    query = (
        select(harvests)
        .join_from(harvests, maps, maps.c.id == harvests.c.map)
        .where(maps.c.name == map_name, harvests.c.reason == FINISHED)
        .where(harvests.c.walk.in_(("pruned", "repaired")))
        .order_by(harvests.c.id.desc())
        .limit(2)
    )
    with history.reading() as connection:
        return [_harvest_summary(connection, row) for row in connection.execute(query).all()]


def failing(history: History, map_name: str) -> Mapping[tuple[str, Tile], int]:
    """Returns, by layer and tile, in how many harvests in a row a tile has failed, up to the last that asked.

    It is empty for an unknown map. Reads all tiles of the map.
    """
    query = (
        select(layers.c.name, tiles.c.zoom, tiles.c.x, tiles.c.y, tiles.c.failures)
        .join_from(layers, maps, maps.c.id == layers.c.map)
        .join(tiles, tiles.c.layer == layers.c.id)
        .where(maps.c.name == map_name, tiles.c.failures > 0)
    )
    with history.reading() as connection:
        return {(layer, Tile(zoom, x, y)): n for layer, zoom, x, y, n in connection.execute(query)}


def _by_map(connection: Connection, query: Select[Any]) -> Mapping[int, int]:
    """Returns the numbers that the query has for maps, by their ids. 0 is left out."""
    # A sum of whole numbers is a Decimal on PostgreSQL.
    return {
        map_id: int(number)
        for map_id, number in connection.execute(query.group_by(query.selected_columns[0]))
    }


def _harvests_of(map_id: int) -> Select[Any]:
    # Of one day's harvests the one with the smaller id was begun first.
    return select(harvests).where(harvests.c.map == map_id).order_by(harvests.c.day, harvests.c.id)


def _cost_of(row: Row[*tuple[Any, ...]]) -> Cost:
    return Cost(**{name: getattr(row, name) for name in COST_COLUMNS})


def _harvest_summary(connection: Connection, row: Row[*tuple[Any, ...]]) -> HarvestSummary:
    """Sums up a row of `harvests`. For an unfinished one it reads all tiles of the map."""
    depths = (
        select(layers.c.name, harvest_layers.c.depth)
        .join_from(harvest_layers, layers, layers.c.id == harvest_layers.c.layer)
        .where(harvest_layers.c.harvest == row.id)
        .order_by(layers.c.id)
    )
    return HarvestSummary(
        cost=_cost_of(row),
        depth={layer.name: layer.depth for layer in connection.execute(depths)},
        counts=HarvestRow(row.id, row.map, row.day, row.started).counts(connection),
        **{name: getattr(row, name) for name in _OF_ROW},
    )
