"""The publication of a day as a folder of files that a renderer could have written.

As on a real site, a file's time tells when it was last drawn. A new day touches only the files that differ,
because web servers make their ETags of time and size.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from tileharvest.demo.forms import FORMS, Day, SquareForm
from tileharvest.demo.pyramid import tiles_on, whole_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.demo.forms import Form
    from tileharvest.demo.pyramid import DrawnTile
    from tileharvest.demo.world import World

OVERVIEWER: Final = FORMS["overviewer"]
_TEMPORARY: Final = ".part"
_DRAWN_AT: Final = time(0, 0, tzinfo=UTC)
"""The time of day at which the map is drawn: its start, so that no file of today lies in the future."""
_MOVES: Final = {0: 3, 1: 2, 2: 1, 3: 0}
"""The digit that Overviewer appends to each first-level tile when the map grows: 0 moves to 0/3. Mapcrafter
writes one more for each."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of the site."""

    content: bytes = field(repr=False)
    modified: int
    """The modification time in seconds since 1970."""


def published_files(
    world: World, day: int, first_day: date, form: Form = OVERVIEWER
) -> Mapping[PurePosixPath, PublishedFile]:
    """Returns all files of the site on a day of the world, by path. `first_day` is the date of day 1.

    Raises ValueError for a day that the world does not have.
    """
    depth, tiles, drawn_at = (
        form.cut.depth(world, day),
        tiles_on(world, day, form.cut),
        _epoch(first_day, day),
    )
    images = {form.path(tile, depth): drawn for tile, drawn in tiles.items()}
    if isinstance(form, SquareForm):
        images[f"{form.folder}/base.png"] = whole_map(world, day, form.cut)
    files = {path: _image_file(form, drawn, first_day) for path, drawn in images.items()}
    for path, text in form.files(Day(depth, drawn_at, tiles)).items():
        files[path] = PublishedFile(text.encode(), drawn_at)
    return {PurePosixPath(path): file for path, file in files.items()}


def publish(world: World, day: int, first_day: date, folder: Path, form: Form = OVERVIEWER) -> None:
    """Makes the folder's layer and configuration those of a day, and touches only what differs.

    Each file is replaced in one step: whoever reads it meanwhile gets the old one or the new one. The whole
    is not changed in one step. Publishing the same day again changes nothing. Other files in the folder are
    left alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = published_files(world, day, first_day, form)
    if isinstance(form, SquareForm):
        depth = form.cut.depth(world, day)
        for _ in range(_published_depth(folder / form.folder) or depth, depth):
            _grow(folder / form.folder, form.first_digit)
    for path, file in files.items():
        _replace(folder / path, file)
    _remove_others(folder / form.folder, frozenset(folder / path for path in files))


def _image_file(form: Form, tile: DrawnTile, first_day: date) -> PublishedFile:
    return PublishedFile(form.bytes_of(tile), _epoch(first_day, tile.drawn))


def _epoch(first_day: date, day: int) -> int:
    return int(datetime.combine(first_day + timedelta(days=day - 1), _DRAWN_AT).timestamp())


def _published_depth(layer: Path) -> int:
    """Returns how many digits the longest path of a square has; 0 where nothing is published."""
    return max((len(path.relative_to(layer).parts) for path in layer.rglob("*.png")), default=0)


def _grow(layer: Path, first_digit: int) -> None:
    """Moves every tile one level down. The files keep their times."""
    for quarter, within in _MOVES.items():
        digit, inner = str(first_digit + quarter), str(first_digit + within)
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
    """Removes the tiles that vanished from the map, and the folders that are empty then."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if not path.is_dir():
            if path not in kept:
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
