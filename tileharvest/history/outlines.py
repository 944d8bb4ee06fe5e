"""Outlines: the days, layers and zooms of a map that the history has, for viewers and notices.

Each answer shows one state of the history. Other modules name layers by the ids in `map_outline`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import bindparam, func, select

from tileharvest.errors import ExitStatus, HistoryError
from tileharvest.history.schema import FINISHED, changes, harvest_layers, harvests, insert_into, layers, maps
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection, Row

    from tileharvest.history.database import History
    from tileharvest.tiles.layers import Size


@dataclass(frozen=True, slots=True)
class LayerOutline:
    """The zooms and descriptions of one layer."""

    id: int
    name: str
    zooms: dict[int, date]
    """The zooms that have versions, deepest first, each with the day of its first version."""
    descriptions: dict[date, Layer]
    """The site's descriptions of the layer, each by its first day; oldest first.

    A day with the same description as the day before is left out, whatever its time of rendering."""
    last_day: date
    """The day of the last harvest of the layer. The site may have lost the layer since."""

    def described(self, day: date) -> Layer:
        """Returns the last description up to that day. For a day before the first harvest it is the first
        one."""
        said = [layer for since, layer in self.descriptions.items() if since <= day]
        return said[-1] if said else next(iter(self.descriptions.values()))

    @property
    def latest(self) -> Layer:
        """The last description."""
        return next(reversed(self.descriptions.values()))

    @property
    def factor(self) -> int:
        """The number of tiles of the next deeper zoom along a tile's edge."""
        return next((layer.pyramid.factor for layer in self.descriptions.values()), 2)

    def as_plain(self) -> dict[str, Any]:
        """Returns the layer for programs and the page."""
        return {
            "name": self.name,
            "zooms": {str(zoom): day.isoformat() for zoom, day in sorted(self.zooms.items(), reverse=True)},
            "last_day": self.last_day.isoformat(),
            "descriptions": [_as_plain(day, said) for day, said in self.descriptions.items()],
        }

    def kept_zooms(self, until: date | None = None) -> list[int]:
        """Returns the zooms that have versions, coarsest first. With a day, only those with a version up to
        it."""
        return sorted(zoom for zoom, first in self.zooms.items() if until is None or first <= until)

    def source_zoom(self, zoom: int, day: date) -> int | None:
        """Returns the zoom from whose images this zoom is shown on that day, or None if it cannot be shown.

        It is the zoom itself, or the next deeper one with versions. Only pictures of four tiles are composed,
        so if tiles nest by another factor it is the zoom itself or None.
        """
        source = min((kept for kept in self.kept_zooms(day) if kept >= zoom), default=None)
        return source if source == zoom or self.factor == 2 else None


@dataclass(frozen=True, slots=True)
class MapOutline:
    """The days and layers of one map."""

    name: str
    days: tuple[date, ...]
    """Days with a harvest, finished or not, each once and in order."""
    layers: tuple[LayerOutline, ...]
    """The layers in the order in which they were first harvested. Those that the last harvest no longer had
    come after all others."""
    renderer: str | None = None
    """The program that drew the map, by its last harvest. None for a map that was never harvested."""
    reason: str | None = None
    """How the last harvest ended, or None if it has not."""
    ended: tuple[datetime | None, ...] = ()
    """For each day the moment at which the last of its harvests, and of all earlier ones, ended, or None if
    one of them has not. What the history shows up to a day is unchanged as long as this moment is."""
    unfinished: tuple[date, ...] = ()
    """The days on which no harvest is finished."""

    def layer(self, name: str) -> LayerOutline | None:
        """Returns the layer of that name, or None if the map has none."""
        return next((layer for layer in self.layers if layer.name == name), None)

    def day_before(self, day: date) -> date | None:
        """Returns the last day with a harvest before this day, or None if there is none."""
        place = bisect_left(self.days, day)
        return self.days[place - 1] if place else None


_OWN_MAP: Final = select(maps.c.id).where(maps.c.name == bindparam("map_name")).with_for_update()
"""For SQLite the FOR UPDATE is left out, because a file has one writer anyway."""
_SAID: Final = ("image_extension", "north_direction", "world", "background", "projection", "spawn")
"""The fields of `Layer` that a description has, besides the size of its tiles."""


def _as_plain(day: date, layer: Layer) -> dict[str, Any]:
    return {
        "day": day.isoformat(),
        "depth": layer.depth,
        # This name is older than layers whose tiles are not squares, and stays as it is.
        "tile_size": layer.tile_size[0],
        "tile_height": layer.tile_size[1],
        "image_extension": layer.image_extension,
        "north_direction": layer.north_direction,
        "factor": layer.pyramid.factor,
        "projection": None if layer.projection is None else msgspec.to_builtins(layer.projection),
        "world": layer.world,
        "background": layer.background,
        "spawn": layer.spawn,
        "rendered": layer.rendered,
    }


NEVER_HARVESTED: Final[dict[str, Any]] = {"layers": [], "days": 0, "first_day": None, "last_day": None}
"""The entry in a list of maps for a map that the history does not have."""


def brief_outlines(history: History) -> dict[str, dict[str, Any]]:
    """Returns by map, in alphabetical order, its entry in a list of maps. Two queries, which read an index of
    all harvests and all layers: a millisecond for a hundred maps."""
    its_layers = select(maps.c.name, layers.c.name).join_from(maps, layers, layers.c.map == maps.c.id)
    day = harvests.c.day
    days_of_all = (
        select(maps.c.name, func.count(day.distinct()), func.min(day), func.max(day))
        .join_from(maps, harvests, harvests.c.map == maps.c.id, isouter=True)
        .group_by(maps.c.name)
        .order_by(maps.c.name)
    )
    with history.reading() as connection:
        named: dict[str, list[str]] = {}
        for name, layer in connection.execute(its_layers.order_by(layers.c.id)):
            named.setdefault(name, []).append(layer)
        return {
            name: {
                "layers": named.get(name, []),
                "days": days,
                "first_day": first and first.isoformat(),
                "last_day": last and last.isoformat(),
            }
            for name, days, first, last in connection.execute(days_of_all)
        }


def map_outline(history: History, map_name: str) -> MapOutline:
    """Returns a map's days and layers. Raises HistoryError for a map that the history does not have.

    Reads a row for each harvest and layer of the map, and a place of an index for each layer and zoom.
    """
    with history.reading() as connection:
        map_id = known_map_id(connection, map_name)
        rows = connection.execute(select(layers).where(layers.c.map == map_id).order_by(layers.c.id)).all()
        past = connection.execute(
            select(harvests.c.day, harvests.c.ended, harvests.c.renderer, harvests.c.reason)
            .where(harvests.c.map == map_id)
            .order_by(harvests.c.day, harvests.c.id)
        ).all()
        its = harvest_layers.c
        descriptions = (
            select(its.layer, harvests.c.day, its.depth, its.description, its.rendered)
            .join_from(harvests, harvest_layers, its.harvest == harvests.c.id)
            .where(harvests.c.map == map_id)
            .order_by(harvests.c.day, harvests.c.id)
        )
        described: dict[int, list[Row[*tuple[Any, ...]]]] = {row.id: [] for row in rows}
        for row in connection.execute(descriptions):
            described[row[0]].append(row)
        outlines = [
            LayerOutline(
                row.id,
                row.name,
                _first_days(connection, row.id, max(one.depth for one in described[row.id])),
                _differing(row.name, row.factor, described[row.id]),
                described[row.id][-1].day,
            )
            for row in rows
            if described[row.id]
        ]
    newest = max((one.last_day for one in outlines), default=None)
    outlines.sort(key=lambda one: one.last_day != newest)
    ends: dict[date, datetime | None] = {}
    for one in past:
        before = next(reversed(ends.values()), one.ended)
        ends[one.day] = max(before, one.ended) if before is not None and one.ended is not None else None
    finished = {one.day for one in past if one.reason == FINISHED}
    return MapOutline(
        map_name,
        tuple(ends),
        tuple(outlines),
        past[-1].renderer if past else None,
        past[-1].reason if past else None,
        tuple(ends.values()),
        tuple(day for day in ends if day not in finished),
    )


def _first_days(connection: Connection, layer: int, depth: int) -> dict[int, date]:
    """Returns the zooms of a layer that have versions, deepest first, each with its first day."""
    first = select(func.min(changes.c.day)).where(changes.c.layer == layer)
    # A query for each zoom goes to one place of an index.
    firsts = {
        zoom: connection.execute(first.where(changes.c.zoom == zoom)).scalar()
        for zoom in range(0, -depth - 1, -1)
    }
    return {zoom: first for zoom, first in firsts.items() if first is not None}


def known_map_id(connection: Connection, name: str) -> int:
    """Returns the map's id. For an unknown map it raises HistoryError, which lists the known ones."""
    found: int | None = connection.execute(select(maps.c.id).where(maps.c.name == name)).scalar()
    if found is None:
        names = connection.execute(select(maps.c.name).order_by(maps.c.name)).scalars().all()
        there = f"the history has no map '{name}'; it has {in_words(names)}"
        raise HistoryError(there, exit_status=ExitStatus.USAGE)
    return found


def own_map_id(connection: Connection, name: str) -> int:
    """Returns the map's id. An unknown map gets a new one. Locks the map until the transaction ends."""
    named = {"map_name": name}
    found: int | None = connection.execute(_OWN_MAP, named).scalar()
    if found is not None:
        return found
    # If another process is inserting the map, this waits for that, and then inserts nothing.
    connection.execute(insert_into(maps).values(name=name).on_conflict_do_nothing())
    return int(connection.execute(_OWN_MAP, named).scalar_one())


def in_words(names: Sequence[str]) -> str:
    """Returns the names in quotes, for a message."""
    return ", ".join(f"'{name}'" for name in names) or "none yet"


def _differing(name: str, factor: int, rows: Iterable[Row[*tuple[Any, ...]]]) -> dict[date, Layer]:
    """Returns the layers that the rows describe, by day. If a day has several rows, the last one counts. If
    days in a row have the same description, only the first of them is kept.

    Compares rows and not layers. Nearly all are the same, and to make a layer of each would take twice as
    long.
    """
    kept: list[Row[*tuple[Any, ...]]] = []
    for row in {row[1]: row for row in rows}.values():
        # Leaves out the layer and the day at the beginning, and `rendered` at the end.
        if not kept or row[2:-1] != kept[-1][2:-1]:
            kept.append(row)
    return {row.day: _layer(name, factor, row) for row in kept}


def _layer(name: str, factor: int, row: Row[*tuple[Any, ...]]) -> Layer:
    said = _read(row.description)
    pyramid = Pyramid.kept(row.depth, factor)
    return Layer(name, pyramid, rendered=row.rendered, **said)


def description_of(layer: Layer, size: Size) -> str:
    """Returns `harvest_layers.description` of a layer whose tiles have this size."""
    said = {name: getattr(layer, name) for name in _SAID}
    return msgspec.json.encode({"tile_size": size, **said}).decode()


def with_size(description: str, size: Size) -> str:
    """Returns the description with another size of tiles."""
    return msgspec.json.encode(_read(description) | {"tile_size": size}).decode()


def size_in(description: str) -> Size:
    """Returns the size of tiles that a description has."""
    size: Size = _read(description)["tile_size"]
    return size


def _read(description: str) -> dict[str, Any]:
    """Returns the fields of `Layer` that a description has. Raises ValueError if it is damaged."""
    try:
        said: dict[str, Any] = msgspec.json.decode(description)
        return said | {
            "tile_size": msgspec.convert(said["tile_size"], tuple[int, int]),
            "spawn": msgspec.convert(said["spawn"], tuple[int, int, int] | None),
            "projection": msgspec.convert(said["projection"], Projection | None),
        }
    except (msgspec.MsgspecError, KeyError) as error:
        raise ValueError(f"the description of a layer cannot be read: {error}") from error
