"""Recorded versions: the latest ones of an area, all of a tile, and those of a day. Read only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, func, select

from tileharvest.errors import ExitStatus, HistoryError
from tileharvest.history.areas import IN_SLICES, rows_in
from tileharvest.history.outlines import in_words, known_map_id
from tileharvest.history.schema import (
    VERSION,
    is_same_tile,
    is_tile,
    its_tile,
    layers,
    maps,
    tiles,
    version_of,
    versions,
)
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from sqlalchemy import Row, Select, Table

    from tileharvest.history.database import History
    from tileharvest.tiles.versions import Image, Version


@dataclass(frozen=True, slots=True)
class Reach:
    """The extent and number of the images of an area on some days."""

    area: TileRange
    """The smallest area that has all of them."""
    kinds: Mapping[str, int]
    """Their number by their extension."""


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """A version with its map, layer and tile."""

    map_name: str
    layer: str
    tile: Tile
    version: Version

    @property
    def image(self) -> Image:
        """The version's image. It has one unless the tile was gone."""
        assert self.version.image is not None
        return self.version.image


_ITS: Final = versions.alias("its_versions")


# A subquery, so that the database goes directly to one version of each tile.
_ITS_LAST: Final = (
    select(_ITS.c.id)
    .where(is_same_tile(_ITS, tiles), _ITS.c.day <= bindparam("until"))
    .order_by(_ITS.c.day.desc())
    .limit(1)
    .scalar_subquery()
)
"""The id of a tile's last version up to the day `until`."""
_SHOWN: Final = select(tiles.c.x, tiles.c.y, *VERSION).join_from(tiles, versions, versions.c.id == _ITS_LAST)


def _reach_of(table: Table) -> Select[*tuple[Any, ...]]:
    """Selects number and edges of versions with an image, by their extension. The places are those of the
    table."""
    edges = (edge(side) for side in (table.c.x, table.c.y) for edge in (func.min, func.max))
    by_kind = select(versions.c.extension, func.count(), *edges).where(versions.c.sha1.is_not(None))
    return by_kind.group_by(versions.c.extension)


_PLACE: Final = (versions.c.zoom, versions.c.x, versions.c.y)
RECORDED: Final = (
    select(maps.c.name, layers.c.name, *_PLACE, *VERSION)
    .join_from(versions, layers, layers.c.id == versions.c.layer)
    .join(maps, maps.c.id == layers.c.map)
)
"""Selects what `recorded_version` takes."""


def shown(history: History, layer: int, area: TileRange, day: date) -> dict[Tile, Version]:
    """Returns the version of each tile of the area on that day, `gone` ones too.

    Tiles without a version up to that day are left out. Reads one version for each tile that was ever asked
    there, however long the history is.
    """
    with history.reading() as connection:
        rows = rows_in(connection, tiles, _SHOWN, layer, area, until=day)
    return {Tile(area.zoom, x, y): version_of(version) for x, y, *version in rows}


def differences(
    history: History, layer: int, area: TileRange, after: date, until: date
) -> dict[Tile, tuple[str | None, str | None]]:
    """Returns the tiles of the area that differ between the ends of two days, with the file names of both
    images.

    A name is None if the tile was not there. Tiles that have changed and changed back are left out. Reads two
    versions for each tile that was ever asked there.
    """
    with history.reading():
        found = (shown(history, layer, area, day) for day in (after, until))
        before, now = ({tile: one.image_name for tile, one in versions.items()} for versions in found)
    return {tile: (before.get(tile), name) for tile, name in now.items() if before.get(tile) != name}


def reach(history: History, layer: int, area: TileRange, first: date, last: date) -> Reach | None:
    """Returns extent and number of the images that the area had on the first day, and of all that came later
    until the last day, or None if there were none.

    Reads one version for each tile that was ever asked there, which takes 5 s for a million. If the days
    differ, it also reads all versions of the area.
    """
    shown_first = _reach_of(tiles).join_from(tiles, versions, versions.c.id == _ITS_LAST)
    later = _reach_of(versions).where(versions.c.day > first, versions.c.day <= last)
    with history.reading() as connection:
        rows = [*rows_in(connection, tiles, shown_first, layer, area, until=first)]
        if first < last:
            rows += rows_in(connection, versions, later, layer, area)
    if not rows:
        return None
    kinds: Counter[str] = Counter()
    for extension, number, *_ in rows:
        kinds[extension] += number
    _, _, lefts, rights, bottoms, tops = zip(*rows, strict=True)
    return Reach(TileRange(area.zoom, min(lefts), max(rights), min(bottoms), max(tops)), kinds)


def version_rows(
    history: History, layer: int, area: TileRange, until: date
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Returns x, y, day, sha1 and extension of all versions of the area up to that day, in no order.

    A version without a sha1 says that the tile was gone. All rows are in memory, so choose a small area.
    """
    columns = ("x", "y", "day", "sha1", "extension")
    query = select(*(versions.c[name] for name in columns)).where(versions.c.day <= until)
    with history.reading() as connection:
        return rows_in(connection, versions, query, layer, area)


def story(history: History, layer: int, tile: Tile) -> list[Version]:
    """Returns all versions of a tile, oldest first. Reads nothing else."""
    place = its_tile(layer, tile.zoom, tile.x, tile.y)
    query = select(*VERSION).where(is_tile(versions)).order_by(versions.c.day)
    with history.reading() as connection:
        return [version_of(row) for row in connection.execute(query, place)]


def tile_versions(
    history: History, map_name: str, layer: str | None = None, tile: Tile | None = None
) -> list[RecordedVersion]:
    """Returns the versions of the map, or only those of a layer or tile; by day, the oldest first, then by
    place.

    All versions are in memory. Raises HistoryError for an unknown map or layer. An unknown tile has no
    versions.
    """
    query = RECORDED.order_by(versions.c.day, layers.c.name, *_PLACE)
    if tile is not None:
        query = query.where(versions.c.zoom == tile.zoom, versions.c.x == tile.x, versions.c.y == tile.y)
    with history.reading() as connection:
        map_id = known_map_id(connection, map_name)
        query = query.where(layers.c.map == map_id)
        if layer is not None:
            its_layers = select(layers.c.name).where(layers.c.map == map_id).order_by(layers.c.name)
            names = connection.execute(its_layers).scalars().all()
            if layer not in names:
                there = f"map '{map_name}' has no layer '{layer}'; it has {in_words(names)}"
                raise HistoryError(there, exit_status=ExitStatus.USAGE)
            query = query.where(layers.c.name == layer)
        return [recorded_version(row) for row in connection.execute(query)]


def versions_until(history: History, map_name: str, day: date) -> dict[tuple[str, Tile], Version]:
    """Returns by layer and tile the version of each tile of the map that was there on that day.

    An unknown map has none. Reads all versions of the map up to that day, and takes 1 KB of memory for each
    tile.
    """
    query = RECORDED.where(maps.c.name == map_name, versions.c.day <= day).order_by(versions.c.day)
    with history.reading() as connection:
        rows = connection.execute(query, execution_options=IN_SLICES)
        latest = {(one.layer, one.tile): one.version for one in map(recorded_version, rows)}
    return {place: version for place, version in latest.items() if not version.gone}


def named_images(history: History, map_name: str | None = None) -> list[RecordedVersion]:
    """Returns the different images that versions of a map, or of all maps, name. Reads all of these versions.

    Each image comes with the first version that names it, in the order of map, layer, tile and day.
    Raises HistoryError for an unknown map.
    """
    query = RECORDED.where(versions.c.sha1.is_not(None))
    found: dict[Image, RecordedVersion] = {}
    with history.reading() as connection:
        if map_name is not None:
            query = query.where(maps.c.id == known_map_id(connection, map_name))
        query = query.order_by(maps.c.name, layers.c.name, *_PLACE, versions.c.day)
        for one in map(recorded_version, connection.execute(query)):
            found.setdefault(one.image, one)
    return list(found.values())


def recorded_version(row: Iterable[Any]) -> RecordedVersion:
    """Returns the version of a row of `RECORDED`."""
    map_name, layer, zoom, x, y, *version = row
    return RecordedVersion(map_name, layer, Tile(zoom, x, y), version_of(version))
