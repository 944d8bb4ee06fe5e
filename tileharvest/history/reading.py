"""What commands ask the history. Read only; each answer shows one state of the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, or_, select

from tileharvest.errors import HistoryError
from tileharvest.history.areas import VERSION_COLUMNS, version_of
from tileharvest.history.costs import Cost
from tileharvest.history.ending import counts
from tileharvest.history.schema import (
    FINISHED,
    harvest_layers,
    harvests,
    layers,
    maps,
    tiles,
    versions,
)
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection, Row, Select

    from tileharvest.history.database import History
    from tileharvest.tiles.outcomes import Outcome
    from tileharvest.tiles.versions import Version


@dataclass(frozen=True, slots=True)
class HarvestSummary:
    """One harvest of a map."""

    id: int
    segment: str
    day: date
    started: datetime
    """UTC, as is `ended`."""
    ended: datetime | None
    """None while it is unfinished."""
    reason: str | None
    """Why it ended, such as `finished` or `interrupted`; None while it is unfinished."""
    requests: int
    received_bytes: int
    stored_bytes: int
    """Of the images that it put into the store and that were not there before. One stored just before a
    kill may be missing: the run that continues finds it there already."""
    depth: dict[str, int]
    """Per layer, as the site said."""
    renderer: str
    counts: dict[Outcome, int]
    """Tiles per outcome, only those that occurred; so far, while it is unfinished."""
    spared_bytes: int = 0
    """Of known images that were not fetched, as their ETag was unchanged."""
    seconds: float = 0.0
    """Worked, by all processes together; 0 where an older release did not note it."""
    expected: int = 0
    """Tiles known when it began; 0 where an older release did not note it."""
    stopped: str | None = None
    """Why its last run ended, where one did that was not killed and the harvest is unfinished."""
    walk: str | None = None
    """`full`, `pruned`, or `repaired`: begun pruned, and asked again what was skipped. None of a release that
    knew only the full one."""
    walk_reason: str | None = None
    """Why it walked so."""

    @property
    def cost(self) -> Cost:
        return Cost(self.requests, self.received_bytes, self.stored_bytes, self.spared_bytes, self.seconds)

    @property
    def took(self) -> float | None:
        """Seconds worked where known, else from beginning to end; None while neither can be told."""
        if self.seconds or self.ended is None:
            return self.seconds or None
        return (self.ended - self.started).total_seconds()


@dataclass(frozen=True, slots=True)
class MapSummary:
    """What the history holds of one map."""

    name: str
    last_harvest: HarvestSummary | None
    tiles: int
    """Present: their latest version is not gone."""
    versions: int
    """Of all days; `gone` ones too."""
    image_bytes: int
    """Of the distinct images that the versions name: what this map alone needs in the store."""


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """A version with the tile that it is of."""

    layer: str
    tile: Tile
    version: Version


def map_summaries(history: History) -> list[MapSummary]:
    """All maps by name. Reads every version once."""
    with history.reading() as connection:
        rows = connection.execute(select(maps.c.id, maps.c.name).order_by(maps.c.name)).all()
        return [_map_summary(connection, row.id, row.name) for row in rows]


def harvest_summaries(history: History, map_name: str) -> list[HarvestSummary]:
    """All harvests of the map, oldest first. Raises HistoryError for a map that has none."""
    with history.reading() as connection:
        query = _harvests_of(known_map_id(connection, map_name))
        return [harvest_summary(connection, row) for row in connection.execute(query).all()]


def finished_at(history: History, map_name: str, segment: str) -> datetime | None:
    """When a harvest of that map and segment was finished, in UTC; None if none was, or if another one of it,
    begun again since, is unfinished."""
    query = (
        select(harvests.c.ended, harvests.c.reason)
        .join_from(harvests, maps, maps.c.id == harvests.c.map)
        .where(maps.c.name == map_name, harvests.c.segment == segment)
        .where(or_(harvests.c.reason == FINISHED, harvests.c.ended.is_(None)))
        .order_by(harvests.c.id.desc())
        .limit(1)
    )
    with history.reading() as connection:
        row = connection.execute(query).one_or_none()
        return None if row is None else row.ended


def tile_versions(
    history: History, map_name: str, layer: str | None = None, tile: Tile | None = None
) -> list[RecordedVersion]:
    """Versions of the map, of one layer and of one tile if given; oldest day first, then by place.

    Without a tile the list holds every version of the map. Raises HistoryError for an unknown map or
    layer; an unknown tile has no versions.
    """
    with history.reading() as connection:
        map_id = known_map_id(connection, map_name)
        query = _versions_of(map_id, tile)
        if layer is not None:
            query = query.where(layers.c.id == _layer_id(connection, map_id, map_name, layer))
        return [
            RecordedVersion(name, Tile(zoom, x, y), version_of(*version))
            for name, zoom, x, y, *version in connection.execute(query)
        ]


def _map_summary(connection: Connection, map_id: int, name: str) -> MapSummary:
    its_layers = select(layers.c.id).where(layers.c.map == map_id)
    present = (
        select(func.count())
        .select_from(tiles.join(versions, versions.c.id == tiles.c.version))
        .where(tiles.c.layer.in_(its_layers), versions.c.sha1.is_not(None))
    )
    recorded = select(func.count()).select_from(versions).where(versions.c.layer.in_(its_layers))
    images = (
        select(versions.c.sha1, versions.c.extension, versions.c.size)
        .where(versions.c.layer.in_(its_layers), versions.c.sha1.is_not(None))
        .distinct()
        .subquery()
    )
    last = connection.execute(_harvests_of(map_id).order_by(None).order_by(harvests.c.id.desc()).limit(1))
    row = last.one_or_none()
    return MapSummary(
        name=name,
        last_harvest=None if row is None else harvest_summary(connection, row),
        tiles=connection.execute(present).scalar_one(),
        versions=connection.execute(recorded).scalar_one(),
        image_bytes=connection.execute(select(func.coalesce(func.sum(images.c.size), 0))).scalar_one(),
    )


def _harvests_of(map_id: int) -> Select[Any]:
    # Ids grow in the order in which harvests were begun; a computer's clock may not.
    return select(harvests).where(harvests.c.map == map_id).order_by(harvests.c.id)


def harvest_summary(connection: Connection, row: Row[*tuple[Any, ...]]) -> HarvestSummary:
    """Of a row of `harvests`. For an unfinished one all tiles of the map are read."""
    depths = (
        select(layers.c.name, harvest_layers.c.depth)
        .join_from(harvest_layers, layers, layers.c.id == harvest_layers.c.layer)
        .where(harvest_layers.c.harvest == row.id)
        .order_by(layers.c.id)
    )
    return HarvestSummary(
        id=row.id,
        segment=row.segment,
        day=row.day,
        started=row.started,
        ended=row.ended,
        reason=row.reason,
        requests=row.requests,
        received_bytes=row.received_bytes,
        stored_bytes=row.stored_bytes,
        depth={layer.name: layer.depth for layer in connection.execute(depths)},
        renderer=row.renderer,
        counts=counts(connection, row.id),
        spared_bytes=row.spared_bytes,
        seconds=row.seconds,
        expected=row.expected,
        stopped=row.stopped,
        walk=row.walk,
        walk_reason=row.walk_reason,
    )


def _versions_of(map_id: int, tile: Tile | None) -> Select[Any]:
    place = (versions.c.zoom, versions.c.x, versions.c.y)
    query = (
        select(layers.c.name, *place, *VERSION_COLUMNS)
        .join_from(layers, versions, versions.c.layer == layers.c.id)
        .where(layers.c.map == map_id)
        .order_by(versions.c.day, layers.c.name, *place)
    )
    if tile is None:
        return query
    return query.where(versions.c.zoom == tile.zoom, versions.c.x == tile.x, versions.c.y == tile.y)


def known_map_id(connection: Connection, name: str) -> int:
    """Raises HistoryError for a map that the history does not have, naming those it has."""
    found: int | None = connection.execute(select(maps.c.id).where(maps.c.name == name)).scalar()
    if found is None:
        names = connection.execute(select(maps.c.name).order_by(maps.c.name)).scalars().all()
        raise HistoryError(f"the history has no map '{name}'; it has {_enumerated(names)}")
    return found


def _layer_id(connection: Connection, map_id: int, map_name: str, name: str) -> int:
    rows = connection.execute(select(layers.c.name, layers.c.id).where(layers.c.map == map_id))
    ids: dict[str, int] = {row.name: row.id for row in rows}
    if name not in ids:
        raise HistoryError(f"map '{map_name}' has no layer '{name}'; it has {_enumerated(sorted(ids))}")
    return ids[name]


def _enumerated(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none yet"
