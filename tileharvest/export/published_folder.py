"""The folder of a published map, which holds the time machine as files and needs no server.

The stories of its tiles are in lists. A list is JSON, compressed by gzip, in a script that hands it over: a
page that was opened by a double click may load scripts and nothing else. A list is named by its content. So a
list that is there already is never written again, and a page finds its own lists until its index is replaced.
`docs/export.md` describes the lists, and `published/api.js` reads them.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import shutil
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tileharvest.errors import ConfigurationError, TileHarvestError, program
from tileharvest.export.published_page import index_page, published_files
from tileharvest.export.target import writing_to
from tileharvest.history.changes import block_places, certainty, changes_below, events
from tileharvest.history.recorded_versions import version_rows
from tileharvest.history.schema import BLOCK_LEVELS
from tileharvest.pictures.pixels import UNREADABLE, picture_of
from tileharvest.pictures.threads import open_threads
from tileharvest.store.files import sync
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from concurrent.futures import Executor
    from datetime import date
    from pathlib import Path

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import Watch
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.events import Event

MARK: Final = "tileharvest.json"
"""The file that marks a folder of ours. It is written first, and names the map of the folder."""
INDEX: Final = "index.html"
NO_JEKYLL: Final = ".nojekyll"
"""The file that makes GitHub Pages send the other files as they are."""
_NOT_PUBLISHED: Final = (
    "was not published, and what was there before works as it did",
    "free space, and publish again, which goes on from here",
    "name a folder that can be written, or publish again, which goes on from here",
)
"""The end of an error's line: what was kept, and what to do."""
_AT_ONCE: Final = 4
"""Threads that read and write images."""
_OURS: Final = re.compile(
    r"images/[0-9a-f]{2}/(?P<image>[0-9a-f]{16})\.(?:png|jpg|webp)|lists/[0-9a-f]{2}/(?P<list>[0-9a-f]{16})\.js"
    r"|(?:images|lists)/[0-9a-f]{2}/\.[0-9a-f]{16}\.[a-z]+\.unfinished"
)
"""The paths that only this program gives to files, and only in published folders. No other file is
removed."""
_NAMED: Final = 16
"""The digits of a list's name, and of an image's in a published folder: 64 bits of their sha1. With a million
images, two have the same name in one map of 37 million."""
_BLOCKS: Final = 3
"""The levels from a square to its blocks: 2^3 = 8 blocks lie along a square's edge."""
_SIDE: Final = 1 << BLOCK_LEVELS + _BLOCKS
"""Tiles along a square's edge."""
_LARGEST: Final = 40_000
"""The most bytes of a square's list. A view has parts of four squares at most, unless its tiles are small. A
square that needs more is divided into its blocks."""
_MOST_EVENTS: Final = 200
"""The most events of a month. The largest are kept."""
_LETTERS: Final = {"png": "p", "jpg": "j", "webp": "w"}
_GONE: Final = f"-{'0' * _NAMED}"
_PAGE: Final = re.compile(r"[0-9a-f]{16}")

Stories: TypeAlias = "dict[str, dict[str, list[Any]]]"
"""The stories of some tiles, by their numbers in the square, row by row from the upper left.

`tiles` has for each tile the days on which it changed, and its images from then on, one behind the other: a
letter for their kind, and their names. `below` has for each tile the days on which deeper tiles below it
changed, and how many. Days are numbers of harvests: the first one, and then the steps to the next."""
Layers: TypeAlias = "Sequence[tuple[Excerpt, Sequence[int]]]"
"""The layers that are published, each with its zooms. There is at least one."""


def _list_named(value: object) -> tuple[str, bytes]:
    """Returns the name of a list with this value, and the script that hands it over."""
    body = msgspec.json.encode(value)
    name = sha1(body, usedforsecurity=False).hexdigest()[:_NAMED]
    return name, b'published("%s","%s")\n' % (name.encode(), b64encode(gzip.compress(body, 6, mtime=0)))


def published_zooms(excerpt: Excerpt) -> list[int]:
    """Returns the zooms that a published page can show, coarsest first: those from the deepest zoom with
    images up to the first zoom without, because no server composes pictures."""
    kept = excerpt.layer.kept_zooms(excerpt.last)
    zooms = [kept[-1]]
    while zooms[0] - 1 in kept:
        zooms.insert(0, zooms[0] - 1)
    return zooms


@dataclass(slots=True)
class Published:
    """The counts of a folder that was published."""

    images: int = 0
    """The number of images that the lists name."""
    new_images: int = 0
    new_lists: int = 0
    lists: int = 0
    """The number of lists that the index leads to, and the index."""
    bytes: int = 0
    """The bytes that were written this time."""
    removed: int = 0
    """The number of removed files of ours that nothing names any more."""
    missing: int = 0
    """The number of images that cannot be read. Their tiles have no picture."""
    layers: list[str] = field(default_factory=list)


def publish(layers: Layers, url: str | None, folder: Path, store: TileStore, watch: Watch) -> Published:
    """Writes a map into a folder. Files that are there already are not written again. `url` is the address of
    the map's site, if it is known.

    The index is replaced last, in one step. If the writing ends before that, the folder works as it did, and
    also holds new files that nothing names yet. Files that the new index no longer names are removed at the
    end. Raises TileHarvestError, whose message says what of the map is there.
    """
    with writing_to(folder, *_NOT_PUBLISHED), _taken(folder, layers[0][0].map.name) as mark:
        files = published_files()
        watch.expects(
            sum(len(block_places(one.history, one.layer.id, zoom)) for one, zooms in layers for zoom in zooms)
        )
        with open_threads(_AT_ONCE, "publish") as pool:
            publication = _Publication(layers, folder, store, watch, pool)
            name = publication.write_data(url)
        for path, body in files.items():
            publication.write_new(path, body)
        # All files that the index names must be on the disk before the index is.
        sync(publication.unsynced, mark)
        publication.write(NO_JEKYLL, b"")
        publication.write(INDEX, index_page(files, name))
        # What stays behind because of an error or a signal is removed when somebody publishes again.
        with suppress(OSError, TileHarvestError):
            publication.sweep(next(iter(files)).split("/")[1])
        return publication.published


@contextmanager
def _taken(folder: Path, map_name: str) -> Iterator[int]:
    """Makes the folder ours, and locks it until the block ends: nobody else can publish into it meanwhile.
    Yields the descriptor of its mark.

    Raises ConfigurationError for a folder with other files or of another map, TileHarvestError if somebody
    else has locked it, and OSError.
    """
    mark, its = folder / MARK, msgspec.json.encode({"map": map_name})
    if folder.exists() and not mark.is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(
            f"{folder} holds files that were not published here; nothing was written: name a folder that is"
            " not there, or is empty"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with mark.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TileHarvestError(
                f"{folder}: another {program()} publish is at work there; this one has written nothing: try"
                " again when that has ended"
            ) from error
        file.seek(0)
        there = file.read()
        # An empty mark is of a run that was stopped before it wrote anything else.
        if there not in (b"", its):
            raise ConfigurationError(
                f"{folder} holds another map, which {MARK} names; nothing was written: publish each map into"
                " a folder of its own"
            )
        if not there:
            file.write(its)
            file.flush()
        yield file.fileno()


@dataclass
class _Publication:
    """The writing of a map into a folder."""

    _layers: Layers
    _folder: Path
    _store: TileStore
    _watch: Watch
    _pool: Executor
    published: Published = field(default_factory=Published)
    unsynced: list[str] = field(default_factory=list)
    _lists: set[str] = field(default_factory=set)
    _images: set[int] = field(default_factory=set)
    """The names of the images. As numbers a million of them take 60 MB."""

    def __post_init__(self) -> None:
        excerpt, _ = self._layers[0]
        self._days = [day for day in excerpt.map.days if day <= excerpt.last]
        """All days with a harvest up to the last published day."""
        self._numbers = {day: number for number, day in enumerate(self._days)}

    def write_data(self, url: str | None) -> str:
        """Writes all images and lists. Returns the name of the list that names all others."""
        (excerpt, _), made, plain_layers = self._layers[0], {}, []
        for one, zooms in self._layers:
            name, plain = one.layer.name, one.layer.as_plain()
            made[name] = self._layer(one, zooms)
            kept = {zoom: first for zoom, first in plain["zooms"].items() if zoom in made[name]["zooms"]}
            plain_layers.append({**plain, "zooms": kept})
        shown = [day for day in self._days if day >= excerpt.first]
        name = self._write_list(
            {
                "map": {
                    "name": excerpt.map.name,
                    "url": url,
                    "renderer": excerpt.map.renderer,
                    "unfinished": [day.isoformat() for day in excerpt.map.unfinished if day in shown],
                    "layers": plain_layers,
                },
                "every": [day.isoformat() for day in self._days],
                "days": [day.isoformat() for day in shown],
                "layers": made,
            }
        )
        self.published.layers = list(made)
        self.published.images, self.published.lists = len(self._images), len(self._lists)
        return name

    def _layer(self, excerpt: Excerpt, zooms: Sequence[int]) -> dict[str, Any]:
        """Writes the lists of a layer's zooms, coarsest first. Returns the layer's part of the index.

        `zooms` has the names of the lists of each zoom's squares, by column and row, `reach` the deepest
        zoom, and the first and last column and row of its tiles on the last day, and `months` the names of
        the lists of events. Raises HistoryError.
        """
        made: dict[str, dict[str, str]] = {}
        reach: list[int] = []
        for zoom in zooms:
            squares, columns, rows = self._zoom(excerpt, zoom)
            if squares:
                made[str(zoom)] = squares
            if columns:
                reach = [zoom, min(columns), max(columns), min(rows), max(rows)]
        first_asked = certainty(excerpt.history, excerpt.layer.id).first_asked
        asked = sorted(str(day) for day in first_asked if excerpt.first <= day <= excerpt.last)
        months = self._months(excerpt, first_asked) if made else {}
        return {"zooms": made, "reach": reach, "months": months, "firstAsked": asked}

    # -------------------------------------------------------------------------------------- tiles

    def _zoom(self, excerpt: Excerpt, zoom: int) -> tuple[dict[str, str], set[int], set[int]]:
        """Writes the lists of a zoom. Returns their names, and the columns and the rows of the tiles that are
        there on the last day."""
        within = None if excerpt.ground is None else excerpt.ground.tiles(zoom, excerpt.layer.factor)
        of_squares = defaultdict(list)
        for x, y in block_places(excerpt.history, excerpt.layer.id, zoom):
            block = Tile(zoom - BLOCK_LEVELS, x, y)
            of_squares[block.ancestor(_BLOCKS)].append(block)
        found: dict[str, str] = {}
        columns, rows = set[int](), set[int]()
        for square, blocks in sorted(of_squares.items()):
            stories: dict[Tile, Stories] = {}
            for block in blocks:
                self._watch.passed()
                area: TileRange | None = TileRange.of(block).at_zoom(zoom)
                if within is not None and area is not None:
                    area = area.intersection(within)
                if area is None:
                    continue
                its, there = self._stories(excerpt, area)
                columns.update(tile.column for tile in there)
                rows.update(tile.row for tile in there)
                if its["tiles"]:
                    stories[block] = its
            if stories:
                found[f"{square.column}_{square.row}"] = self._square(stories)
        return found, columns, rows

    def _square(self, stories: dict[Tile, Stories]) -> str:
        """Writes the list of a square, or those of its blocks and the list that names them."""
        whole: Stories = {"tiles": {}, "below": {}}
        for of_block in stories.values():
            for kind, of_tiles in of_block.items():
                whole[kind] |= of_tiles
        versions = sum(len(days) for days, _ in whole["tiles"].values())
        # A version takes a byte at least.
        if len(stories) == 1 or (versions < _LARGEST and len(_list_named(whole)[1]) <= _LARGEST):
            return self._write_list(whole)
        return self._write_list(
            {
                "blocks": {
                    f"{block.column}_{block.row}": self._write_list(its) for block, its in stories.items()
                }
            }
        )

    def _stories(self, excerpt: Excerpt, area: TileRange) -> tuple[Stories, list[Tile]]:
        """Returns the stories of an area, and the tiles that are there on the last day."""
        of_tiles = defaultdict(list)
        for x, y, day, name, extension in version_rows(excerpt.history, excerpt.layer.id, area, excerpt.last):
            of_tiles[x, y].append((self._numbers[day], name, extension))
        found: Stories = {"tiles": {}, "below": {}}
        there, images = [], list[tuple[str, str]]()
        first = self._numbers[excerpt.first]
        for (x, y), versions in sorted(of_tiles.items()):
            versions.sort()
            # The story begins with the version that was there on the first day, whatever day it is of.
            begin = max(0, bisect_right(versions, first, key=itemgetter(0)) - 1)
            codes = [
                _GONE if name is None else _LETTERS[extension] + name[:_NAMED]
                for _, name, extension in versions[begin:]
            ]
            images += [(name, extension) for _, name, extension in versions[begin:] if name is not None]
            if any(code != _GONE for code in codes):
                tile = Tile(area.zoom, x, y)
                days = _steps([day for day, _, _ in versions[begin:]])
                found["tiles"][_number(tile)] = [days, "".join(codes)]
                if codes[-1] != _GONE:
                    there.append(tile)
        self._write_images(images)
        if found["tiles"]:
            found["below"] = self._below(excerpt, area)
        return found, there

    def _below(self, excerpt: Excerpt, area: TileRange) -> dict[str, list[Any]]:
        """Returns how many deeper tiles changed below each tile of an area, on the published days on which
        the zoom had tiles."""
        first, counts = max(excerpt.first, excerpt.layer.zooms[area.zoom]), {}
        for tile, of_days in sorted(changes_below(excerpt.history, excerpt.layer, area).items()):
            shown = {day: of_days[day] for day in sorted(of_days) if first <= day <= excerpt.last}
            if shown:
                counts[_number(tile)] = [_steps([self._numbers[day] for day in shown]), [*shown.values()]]
        return counts

    # ------------------------------------------------------------------------------------- events

    def _months(self, excerpt: Excerpt, first_asked: AbstractSet[date]) -> dict[str, str]:
        """Writes the events, and returns the names of the lists by month. Each month is clustered by itself,
        so an event is the same in whatever period it is shown."""
        shown = [day for day in self._days if excerpt.first < day <= excerpt.last]
        if excerpt.first == self._days[0]:
            shown.insert(0, excerpt.first)
        made = {}
        for month, days in groupby(shown, key=lambda day: day.isoformat()[:7]):
            of_month = list(days)
            # A month never has too many changes to be clustered.
            found = events(excerpt.history, excerpt.layer, of_month[0], of_month[-1], first_asked)
            kept = [one for event in found if (one := self._event(event, excerpt)) is not None]
            if kept:
                kept.sort(key=lambda one: (-one["tiles"], one["first"]))
                made[month] = self._write_list({"count": len(kept), "events": kept[:_MOST_EVENTS]})
        return made

    def _event(self, event: Event, excerpt: Excerpt) -> dict[str, Any] | None:
        """Returns an event as a value of plain types, or None if it lies outside of the excerpt."""
        ground = Ground.of(event.area, excerpt.layer.factor)
        if excerpt.ground is not None and not ground.touches(excerpt.ground):
            return None
        place = bisect_left(self._days, event.first)
        return {
            "first": event.first.isoformat(),
            "last": event.last.isoformat(),
            "before": self._days[max(0, place - 1)].isoformat(),
            "kind": event.kind,
            "tiles": event.tiles,
            "area": {"zoom": event.area.zoom},
            "ground": [ground.west, ground.south, ground.east, ground.north],
        }

    # --------------------------------------------------------------------------------------- files

    def _write_list(self, value: object) -> str:
        name, script = _list_named(value)
        self._lists.add(name)
        if self.write_new(f"lists/{name[:2]}/{name}.js", script):
            self.published.new_lists += 1
        return name

    def _write_images(self, names: Iterable[tuple[str, str]]) -> None:
        """Writes the images with these names and extensions that are not there yet."""
        new = []
        for name, extension in names:
            if (number := int(name[:_NAMED], 16)) not in self._images:
                self._images.add(number)
                if not self._is_there(_image_path(f"{name}.{extension}")):
                    new.append(f"{name}.{extension}")
        for is_written in self._pool.map(self._write_image, new):
            self.published.new_images += is_written
            self.published.missing += not is_written

    def _write_image(self, name: str) -> bool:
        try:
            body = picture_of(self._store.named(name))
        except UNREADABLE:
            return False
        self.write(_image_path(name), body)
        return True

    def _path(self, path: str) -> str:
        # A text and no Path: to make a Path takes as long as to write a list.
        return f"{self._folder}/{path}"

    def _is_there(self, path: str, size: int | None = None) -> bool:
        """Returns whether a file of this size is there. Without a size any file counts but an empty one,
        which a power cut can leave."""
        try:
            there = os.stat(self._path(path)).st_size
        except FileNotFoundError:
            return False
        return there > 0 if size is None else there == size

    def write_new(self, path: str, body: bytes) -> bool:
        if self._is_there(path, len(body)):
            return False
        self.write(path, body, is_synced=False)
        self.unsynced.append(self._path(path))
        return True

    def write(self, path: str, body: bytes, *, is_synced: bool = True) -> None:
        target = self._path(path)
        folder, name = os.path.split(target)
        os.makedirs(folder, exist_ok=True)
        beside = f"{folder}/.{name}.unfinished"
        try:
            with open(beside, "wb") as file:
                file.write(body)
                file.flush()
                if is_synced:
                    os.fsync(file.fileno())
            os.replace(beside, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise
        self.published.bytes += len(body)

    def sweep(self, page: str) -> None:
        """Removes the files of ours that nothing names. `page` is the name of the folder of the page."""
        for path in self._folder.glob("*/??/*"):
            found = _OURS.fullmatch(path.relative_to(self._folder).as_posix())
            if found is None or found["list"] in self._lists:
                continue
            if found["image"] is None or int(found["image"], 16) not in self._images:
                path.unlink()
                self.published.removed += 1
        for path in (self._folder / "page").iterdir():
            if _PAGE.fullmatch(path.name) and path.name != page:
                shutil.rmtree(path)
                self.published.removed += 1


def _image_path(name: str) -> str:
    """Returns the path of an image with this name in the store."""
    sha1, _, extension = name.partition(".")
    return f"images/{sha1[:2]}/{sha1[:_NAMED]}.{extension}"


def _number(tile: Tile) -> str:
    """Returns the number of a tile in its square."""
    return str(tile.row % _SIDE * _SIDE + tile.column % _SIDE)


def _steps(numbers: Sequence[int]) -> list[int]:
    """Returns the first of the numbers, and the steps to each of the others, which compress better."""
    return [numbers[0], *(after - before for before, after in pairwise(numbers))]
