"""What a viewer asks: what the history holds of a map, and what was to be seen on a day. Read only.

What changed, and when, is in `viewing_changes`. Each answer shows one state of the history. Layers are
named by their ids, which `map_outline` tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, func, select

from tileharvest.history.areas import VERSION_COLUMNS, AreaQuery, version_of
from tileharvest.history.reading import known_map_id
from tileharvest.history.schema import changes, harvest_layers, harvests, layers, maps, tiles, versions
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from sqlalchemy import Row

    from tileharvest.history.database import History
    from tileharvest.tiles.grid import TileRange
    from tileharvest.tiles.versions import Version


@dataclass(frozen=True, slots=True)
class LayerDescription:
    """What the site said about a layer, from this day on until that of the next description."""

    day: date
    depth: int
    tile_size: int
    """Width and height of an image in pixels."""
    image_extension: str
    north_direction: int
    """Quarter turns: 0 is north at the upper left, as Overviewer counts."""
    world: str | None
    background: str | None
    """A colour, as the site wrote it."""
    spawn: tuple[int, int, int] | None
    """x, y and z in blocks."""
    rendered: int | None
    """When the site was rendered that is described, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class LayerOutline:
    """What the history holds of one layer."""

    id: int
    name: str
    zooms: dict[int, date]
    """The zooms that have versions, deepest first, each with the day of its first one."""
    descriptions: tuple[LayerDescription, ...]
    """Oldest first. A day that says the same as the one before is left out; that the site was rendered
    again does not count as a difference."""


@dataclass(frozen=True, slots=True)
class MapOutline:
    """What the history holds of one map."""

    name: str
    days: tuple[date, ...]
    """Days with a harvest, finished or not, each once and in order."""
    layers: tuple[LayerOutline, ...]
    """In the order in which they were first harvested."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a tile is on a day."""

    day: date
    """Since when it is that."""
    image: str | None
    """`<sha1>.<extension>`; None: the tile is gone."""


_MAP_NAMES: Final = select(maps.c.name).order_by(maps.c.name)
_DAYS: Final = (
    select(harvests.c.day)
    .where(harvests.c.map == bindparam("in_map"))
    .group_by(harvests.c.day)
    .order_by(harvests.c.day)
)
_ITS_HARVESTS: Final = harvests.alias("its_harvests")
_NEWEST: Final = (
    # By its id: the newest may be of an earlier day than one that changed nothing.
    select(func.max(_ITS_HARVESTS.c.id))
    .where(_ITS_HARVESTS.c.map == select(maps.c.id).where(maps.c.name == bindparam("name")).scalar_subquery())
    .scalar_subquery()
)
_STATE: Final = select(harvests.c.id, harvests.c.requests, harvests.c.received_bytes, harvests.c.ended).where(
    harvests.c.id == _NEWEST
)
_LAYERS: Final = (
    select(layers.c.id, layers.c.name).where(layers.c.map == bindparam("in_map")).order_by(layers.c.id)
)
_DESCRIPTIONS: Final = (
    select(
        harvest_layers.c.layer,
        harvests.c.day,
        harvest_layers.c.depth,
        harvest_layers.c.tile_size,
        harvest_layers.c.image_extension,
        harvest_layers.c.north_direction,
        harvest_layers.c.world,
        harvest_layers.c.background,
        harvest_layers.c.spawn_x,
        harvest_layers.c.spawn_y,
        harvest_layers.c.spawn_z,
        harvest_layers.c.rendered,
    )
    .join_from(harvests, harvest_layers, harvest_layers.c.harvest == harvests.c.id)
    .where(harvests.c.map == bindparam("in_map"))
    .order_by(harvests.c.day, harvests.c.id)
)
_CHANGES_OF: Final = changes.alias("changes_of_layer")
_KEPT: Final = (
    # From zoom to zoom, and so to two places of the index for each, however many rows a zoom has.
    select(
        layers.c.id.label("layer"),
        select(func.max(_CHANGES_OF.c.zoom))
        .where(_CHANGES_OF.c.layer == layers.c.id)
        .scalar_subquery()
        .label("zoom"),
    )
    .where(layers.c.map == bindparam("in_map"))
    .cte("kept", recursive=True)
)
_KEPT_ALL: Final = _KEPT.union_all(
    select(
        _KEPT.c.layer,
        select(func.max(_CHANGES_OF.c.zoom))
        .where(_CHANGES_OF.c.layer == _KEPT.c.layer, _CHANGES_OF.c.zoom < _KEPT.c.zoom)
        .scalar_subquery(),
    ).where(_KEPT.c.zoom.is_not(None))
)
_ZOOMS: Final = (
    select(
        _KEPT_ALL.c.layer,
        _KEPT_ALL.c.zoom,
        select(func.min(_CHANGES_OF.c.day))
        .where(_CHANGES_OF.c.layer == _KEPT_ALL.c.layer, _CHANGES_OF.c.zoom == _KEPT_ALL.c.zoom)
        .scalar_subquery(),
    )
    .where(_KEPT_ALL.c.zoom.is_not(None))
    .order_by(_KEPT_ALL.c.zoom.desc())
)
_ITS: Final = versions.alias("its_versions")
_ITS_LAST: Final = (
    # A subquery, so that the database goes straight to one version of each tile.
    select(_ITS.c.id)
    .where(*(_ITS.c[name] == tiles.c[name] for name in ("layer", "zoom", "x", "y")))
    .where(_ITS.c.day <= bindparam("until"))
    .order_by(_ITS.c.day.desc())
    .limit(1)
    .scalar_subquery()
)
_SHOWN: Final = AreaQuery.over(
    tiles,
    select(tiles.c.x, tiles.c.y, versions.c.day, versions.c.sha1, versions.c.extension).join_from(
        tiles, versions, versions.c.id == _ITS_LAST
    ),
)
_STORY: Final = (
    select(*VERSION_COLUMNS)
    .where(*(versions.c[name] == bindparam(f"in_{name}") for name in ("layer", "zoom", "x", "y")))
    .order_by(versions.c.day)
)


def map_names(history: History) -> list[str]:
    """Of all maps of the history, in alphabetical order. Reads an index of the maps."""
    with history.reading() as connection:
        return list(connection.execute(_MAP_NAMES).scalars())


def map_state(history: History, map_name: str) -> tuple[object, ...]:
    """Differs from before whenever the map's outline may; empty for a map that the history does not have.

    Reads an index of the map's harvests. What a continued harvest says anew of its layers counts from its
    first recorded batch on.
    """
    with history.reading() as connection:
        return tuple(connection.execute(_STATE, {"name": map_name}).one_or_none() or ())


def map_outline(history: History, map_name: str) -> MapOutline:
    """Raises HistoryError for a map that the history does not have.

    Reads a row per harvest and layer of the map, and goes to two places per layer and zoom.
    """
    with history.reading() as connection:
        of_map = {"in_map": known_map_id(connection, map_name)}
        rows = connection.execute(_LAYERS, of_map).all()
        days = connection.execute(_DAYS, of_map).scalars().all()
        described: dict[int, list[Row[*tuple[Any, ...]]]] = {row.id: [] for row in rows}
        for row in connection.execute(_DESCRIPTIONS, of_map).all():
            described[row[0]].append(row)
        zooms: dict[int, dict[int, date]] = {row.id: {} for row in rows}
        for layer, zoom, first in connection.execute(_ZOOMS, of_map):
            zooms[layer][zoom] = first
    outlines = (LayerOutline(id_, name, zooms[id_], _differing(described[id_])) for id_, name in rows)
    return MapOutline(map_name, tuple(days), tuple(outlines))


def shown(history: History, layer: int, area: TileRange, day: date) -> dict[Tile, Shown]:
    """Per tile of the area the last version of that day or before; tiles without one are absent.

    Goes to one version per tile that was ever asked there, however long the history is.
    """
    with history.reading() as connection:
        return {
            Tile(area.zoom, x, y): Shown(since, None if sha1 is None else f"{sha1}.{extension}")
            for x, y, since, sha1, extension in _SHOWN.rows(connection, layer, area, until=day)
        }


def story(history: History, layer: int, tile: Tile) -> list[Version]:
    """All versions of a tile, oldest first. Reads nothing else."""
    place = {"in_layer": layer, "in_zoom": tile.zoom, "in_x": tile.x, "in_y": tile.y}
    with history.reading() as connection:
        return [version_of(*row) for row in connection.execute(_STORY, place)]


def _description(
    day: date,
    depth: int,
    tile_size: int,
    image_extension: str,
    north_direction: int,
    world: str | None,
    background: str | None,
    spawn_x: int | None,
    spawn_y: int | None,
    spawn_z: int | None,
    rendered: int | None,
) -> LayerDescription:
    """From a row of `_DESCRIPTIONS`, taken by position."""
    # All three are given or none.
    spawn = None if spawn_x is None else (spawn_x, spawn_y or 0, spawn_z or 0)
    return LayerDescription(
        day, depth, tile_size, image_extension, north_direction, world, background, spawn, rendered
    )


def _differing(rows: Iterable[Row[*tuple[Any, ...]]]) -> tuple[LayerDescription, ...]:
    """Of several of a day the last, and of days that say the same the first.

    Compares the rows: nearly all say the same, and to make a description of each would take twice as long.
    """
    kept: list[Row[*tuple[Any, ...]]] = []
    for row in {row[1]: row for row in rows}.values():
        # Between the layer and the day, and `rendered`, is what counts.
        if not kept or row[2:-1] != kept[-1][2:-1]:
            kept.append(row)
    return tuple(_description(*row[1:]) for row in kept)
