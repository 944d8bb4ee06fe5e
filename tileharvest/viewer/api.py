"""The data API: a function for each address, which returns the answer as a value of plain types.

Each function takes the maps that are served, the names in the address, and the query. Several threads may
call it at once. It raises RefusedError for a wrong request or an unknown name, and HistoryError if the
history cannot be read. `docs/api.md` is the contract.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from tileharvest.errors import ConfigurationError, program
from tileharvest.history.area_changes import changed_in, place_of, view_of
from tileharvest.history.changes import changed_blocks, deepest_changes, heat, last_changes
from tileharvest.history.recorded_versions import shown, story
from tileharvest.history.schema import BLOCK_LEVELS, MOVED
from tileharvest.monitoring.stats import HarvestStats, State
from tileharvest.tiles.ground import Ground
from tileharvest.viewer.parameters import AREA, Parameters, parse_tile
from tileharvest.viewer.replies import quoted, unknown
from tileharvest.viewer.server import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileharvest.history.summaries import HarvestSummary
    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

Question: TypeAlias = "Callable[[ServedMaps, Sequence[str], Query], Any]"

MOST_TILES: Final = 1024
"""The most tiles of an area. A 4K screen shows 150 tiles of 384 pixels."""
MOST_HEATED_TILES: Final = 256
"""The most tiles of a heat map. Each has up to 64 cells."""
MOST_PLACES: Final = 1000
_PLACES: Final = 20


def list_maps(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers with all maps that are served."""
    Parameters(query, ())
    return {
        "maps": [
            {**_map_as_plain(served, name), **served.brief(name), "areas": len(served.areas(name))}
            for name in served.names()
        ]
    }


def outline(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers with one map's days and layers."""
    Parameters(query, ())
    found = served.outline(names[0])
    return {
        **_map_as_plain(served, names[0]),
        "live": is_live(served.described(names[0]), found.reason),
        "renderer": found.renderer,
        "days": [day.isoformat() for day in found.days],
        "unfinished": [day.isoformat() for day in found.unfinished],
        "layers": [layer.as_plain() for layer in found.layers],
    }


def is_live(description: MapDescription | None, reason: str | None) -> bool:
    """Returns whether a map's own page answers at its address, for all that is known without asking it.
    `reason` says how the map's last harvest ended.

    An address of the loopback leads each visitor to a computer of their own.
    """
    if description is None or reason == MOVED:
        return False
    return not is_loopback(urlsplit(description.url).hostname or "")


def view(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers which images an area showed on a day, and which of its tiles can be composed."""
    parameters = Parameters(query, ("layer", "day", *AREA))
    day, area = parameters.day("day"), parameters.area(MOST_TILES)
    history, _, layer = served.layer(names[0], parameters.text("layer"))
    source = layer.source_zoom(area.zoom, day)
    tiles: dict[str, str | None] = {}
    composed: dict[str, str] = {}
    if source == area.zoom:
        found = shown(history, layer.id, area, day)
        tiles = {f"{tile.x}_{tile.y}": version.image_name for tile, version in found.items()}
    elif source is not None:
        changed = last_changes(history, layer.id, source, area, day)
        composed = {f"{tile.x}_{tile.y}": last.isoformat() for tile, last in changed.items()}
    return {"day": day.isoformat(), "zoom": area.zoom, "tiles": tiles, "composed": composed}


def count_changes(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers how many tiles of an area changed on each day with a change."""
    parameters = Parameters(query, ("layer", *AREA))
    area = parameters.area(MOST_TILES)
    history, _, layer = served.layer(names[0], parameters.text("layer"))
    counted = deepest_changes(history, layer, area)
    return {
        "counted_zoom": max(layer.kept_zooms(), default=area.zoom),
        "days": {day.isoformat(): n for day, n in counted.items()},
    }


def heat_map(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers how often each place of an area changed in a period."""
    parameters = Parameters(query, ("layer", "after", "until", *AREA))
    area, (after, until) = parameters.area(MOST_HEATED_TILES), parameters.period()
    history, _, layer = served.layer(names[0], parameters.text("layer"))
    kept = layer.kept_zooms(until)
    if not kept:
        return {"zoom": area.zoom, "cells": []}
    zoom = heated_in(kept, area.zoom, layer.factor)
    cells = heat(history, layer.id, area.at_zoom(zoom, layer.factor), after, until)
    return {"zoom": zoom, "cells": [[tile.x, tile.y, n] for tile, n in cells.items()]}


def most_changed(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers which places changed most in a period."""
    parameters = Parameters(query, ("layer", "after", "until"), ("limit",))
    after, until = parameters.period()
    limit = parameters.number("limit", 1, MOST_PLACES, _PLACES)
    history, _, layer = served.layer(names[0], parameters.text("layer"))
    kept = layer.kept_zooms(until)
    found = changed_blocks(history, layer.id, kept[-1], after, until, limit) if kept else []
    return {"places": [{"tile": str(tile), "days": days, "tiles": tiles} for tile, days, tiles in found]}


def tile_story(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers with all versions of a tile. A tile that never was has none."""
    parameters = Parameters(query, ("layer",))
    tile = parse_tile(names[1])
    history, _, layer = served.layer(names[0], parameters.text("layer"))
    versions = [
        {
            "day": version.day.isoformat(),
            "image": version.image_name,
            "size": version.image.size if version.image else None,
            "last_modified": version.validator.last_modified,
        }
        for version in story(history, layer.id, tile)
    ]
    return {"tile": str(tile), "versions": versions}


def list_harvests(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers with a map's harvests, newest first. If a harvest is unfinished, all tiles of the map are
    read."""
    Parameters(query, ())
    summaries, workers, due = served.harvests(names[0])
    return {
        "harvests": [{"id": summary.id, **summary.as_plain()} for summary in reversed(summaries)],
        "running": _running(summaries, workers),
        "next_due": due.isoformat() if due else None,
        "stored_bytes": sum(summary.cost.stored_bytes for summary in summaries),
    }


def list_areas(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers with the named areas of a map, in the owner's order."""
    Parameters(query, ())
    return {"areas": [_area_as_plain(served, names[0], area) for area in served.areas(names[0])]}


def area_story(served: ServedMaps, names: Sequence[str], query: Query) -> Any:
    """Answers how many tiles of a named area changed on each day with a change."""
    Parameters(query, ())
    map_name, name = names
    areas = served.areas(map_name)
    area = next((one for one in areas if one.name == name), None)
    if area is None:
        named = ", ".join(quoted(one.name) for one in areas)
        there = f"it has: {named}" if named else f"it has none: `{program()} areas` adds one"
        raise unknown(f"map '{map_name}' has no area {quoted(name)}; {there}")
    history, outline, _ = served.layer(map_name, area.layer)
    try:
        layer, rectangle = place_of(area, outline)
        found = changed_in(history, layer, rectangle, date.min)
    except ConfigurationError as error:
        raise unknown(f"of area {quoted(area.name)} no story can be told: {error}") from None
    return {
        **_area_as_plain(served, map_name, area),
        "days": {day.isoformat(): len(tiles) for day, tiles in found.items()},
    }


def heated_in(kept: list[int], zoom: int, factor: int = 2) -> int:
    """Returns the zoom of a heat map's cells for a view of this zoom. `kept`, the zooms with images, must not
    be empty.

    A tile of the view has 8 x 8 cells, or `factor` x `factor` if the factor is not 2.
    """
    levels = BLOCK_LEVELS if factor == 2 else 1
    return min((each for each in kept if each >= zoom + levels), default=max(kept))


def _running(summaries: Sequence[HarvestSummary], workers: int) -> dict[str, Any] | None:
    """Returns how far the last harvest is, as the commands show it, or None if it has ended."""
    if not summaries or summaries[-1].ended is not None:
        return None
    last = summaries[-1]
    state, detail = (State.RUNNING, "") if workers else (State.INTERRUPTED, last.stopped or "")
    stats = HarvestStats.of(last, state, detail, workers).as_plain()
    shown = ("tiles_done", "tiles_expected", "failures", "requests_per_second", "seconds_left", "stopped")
    return {"active": workers > 0, **{name: stats[name] for name in shown}}


def _map_as_plain(served: ServedMaps, name: str) -> dict[str, Any]:
    description = served.described(name)
    return {
        "name": name,
        "url": description.url if description else None,
        "note": description.note if description else "",
    }


def _area_as_plain(served: ServedMaps, map_name: str, area: NamedArea) -> dict[str, Any]:
    """Returns an area with x, z and zoom at which a screen shows it, as the page's addresses have them, and
    with its rectangle in grid units. Both are None if the history has no such layer, or the map no such
    corners."""
    told = {**msgspec.to_builtins(area), "place": None, "ground": None}
    try:
        layer, rectangle = place_of(area, served.outline(map_name))
    except ConfigurationError:
        return told
    if layer.zooms:
        ground = Ground.of_places(rectangle, layer.latest.projection)
        told["place"] = dict(zip(("x", "z", "zoom"), view_of(layer, rectangle), strict=True))
        told["ground"] = [ground.west, ground.south, ground.east, ground.north]
    return told
