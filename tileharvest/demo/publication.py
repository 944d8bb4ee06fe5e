"""The publication of a day as a folder of files that Minecraft-Overviewer 0.19 could have written.

As on a real site, a file's time tells when it was last drawn. A new day touches only the files that differ,
because web servers make their ETags of time and size.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from tileharvest.demo.pyramid import TILE_SIDE, DrawnTile, tiles_on, whole_map
from tileharvest.demo.world import SPAWN, World
from tileharvest.tiles.grid import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

LAYER: Final = "world-day"
CONFIG_FILE: Final = "overviewerConfig.js"
_VARIABLE: Final = "var overviewerConfig = "
_TEMPORARY: Final = ".part"
_DRAWN_AT: Final = time(0, 0, tzinfo=UTC)
"""The time of day at which the map is drawn: its start, so that no file of today lies in the future."""
_MOVES: Final = {"0": "3", "1": "2", "2": "1", "3": "0"}
"""The digit that Overviewer appends to each first-level tile when the map grows: 0 moves to 0/3."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of the site."""

    content: bytes = field(repr=False)
    modified: int
    """The modification time in seconds since 1970."""


def published_files(world: World, day: int, first_day: date) -> Mapping[PurePosixPath, PublishedFile]:
    """Returns all files of the site on a day of the world, by path. `first_day` is the date of day 1.

    Raises ValueError for a day that the world does not have.
    """
    depth = world.depth(day)
    layer = PurePosixPath(LAYER)
    files = {
        layer / f"{path_of(tile, depth)[1:]}.png": _image_file(drawn, first_day)
        for tile, drawn in tiles_on(world, day).items()
    }
    files[layer / "base.png"] = _image_file(whole_map(world, day), first_day)
    drawn_at = _epoch(first_day, day)
    files[PurePosixPath(CONFIG_FILE)] = PublishedFile(_config(depth, drawn_at).encode(), drawn_at)
    return files


def publish(world: World, day: int, first_day: date, folder: Path) -> None:
    """Makes the folder's layer and configuration those of a day, and touches only what differs.

    Each file is replaced in one step: whoever reads it meanwhile gets the old one or the new one. The whole
    is not changed in one step. Publishing the same day again changes nothing. Other files in the folder are
    left alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    depth = world.depth(day)
    for _ in range(_published_depth(folder, depth), depth):
        _grow(folder / LAYER)
    files = published_files(world, day, first_day)
    for path, file in files.items():
        _replace(folder / path, file)
    _remove_others(folder, frozenset(folder / path for path in files))


def _image_file(tile: DrawnTile, first_day: date) -> PublishedFile:
    return PublishedFile(tile.png, _epoch(first_day, tile.drawn))


def _epoch(first_day: date, day: int) -> int:
    return int(datetime.combine(first_day + timedelta(days=day - 1), _DRAWN_AT).timestamp())


def _published_depth(folder: Path, otherwise: int) -> int:
    try:
        text = (folder / CONFIG_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return otherwise
    config = json.loads(text.removeprefix(_VARIABLE).rstrip(";\n"))
    return int(config["tilesets"][0]["zoomLevels"])


def _grow(layer: Path) -> None:
    """Moves every tile one level down. The files keep their times."""
    for digit, inner in _MOVES.items():
        aside = layer / f"{digit}{_TEMPORARY}"
        aside.mkdir()
        for name in (f"{digit}.png", digit):
            old = layer / name
            if old.exists():
                old.rename(aside / name.replace(digit, inner))
        aside.rename(layer / digit)


def _replace(path: Path, file: PublishedFile) -> None:
    if path.is_file() and int(path.stat().st_mtime) == file.modified and path.read_bytes() == file.content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + _TEMPORARY)
    temporary.write_bytes(file.content)
    os.utime(temporary, (file.modified, file.modified))
    temporary.replace(path)


def _remove_others(folder: Path, kept: frozenset[Path]) -> None:
    """Removes from the layer the tiles that vanished from the map, and the folders that are empty then."""
    for path in sorted((folder / LAYER).rglob("*"), reverse=True):
        if not path.is_dir():
            if path not in kept:
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()


def _config(depth: int, drawn_at: int) -> str:
    """Returns the text of `overviewerConfig.js`. Fields and form are those that Overviewer 0.19 writes."""
    config = {
        "CONST": _constants(),
        "worlds": ["world"],
        "map": {
            "debug": True,
            "cacheTag": str(drawn_at),
            "north_direction": "lower-left",
            "controls": dict.fromkeys(
                ("pan", "zoom", "spawn", "compass", "mapType", "overlays", "coordsBox"), True
            ),
        },
        "tilesets": [_tileset(depth, drawn_at)],
    }
    return f"{_VARIABLE}{json.dumps(config, indent=4)};\n"


def _constants() -> dict[str, Any]:
    corners = ("upper-left", "upper-right", "lower-right", "lower-left")
    return {
        "tileSize": TILE_SIDE,
        "image": {
            "defaultMarker": "signpost.png",
            "signMarker": "signpost_icon.png",
            "bedMarker": "bed.png",
            "spawnMarker": "markers/marker_home.png",
            "spawnMarker2x": "markers/marker_home_2x.png",
            "queryMarker": "markers/marker_location.png",
            "queryMarker2x": "markers/marker_location_2x.png",
            "compass": {str(number): f"compass_{corner}.png" for number, corner in enumerate(corners)},
        },
        "mapDivId": "mcmap",
        "UPPERLEFT": 0,
        "UPPERRIGHT": 1,
        "LOWERLEFT": 3,
        "LOWERRIGHT": 2,
    }


def _tileset(depth: int, drawn_at: int) -> dict[str, Any]:
    return {
        "name": "Day",
        "zoomLevels": depth,
        "defaultZoom": 1,
        "maxZoom": depth,
        "path": LAYER,
        "base": "",
        "bgcolor": "#1a1a1a",
        "world": "world",
        "last_rendertime": drawn_at,
        "imgextension": "png",
        "isOverlay": False,
        "poititle": "Markers",
        "showlocationmarker": True,
        "center": list(SPAWN),
        "minZoom": 0,
        "spawn": list(SPAWN),
        "north_direction": 0,
    }
