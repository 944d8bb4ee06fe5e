"""The folder of a published map, which holds the time machine as files and needs no server."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tileharvest.errors import ConfigurationError, TileHarvestError, program
from tileharvest.export.published_lists import NAMED, PublishedLists, block_count, list_named
from tileharvest.export.published_page import index_page, published_files
from tileharvest.export.target import writing_to
from tileharvest.pictures.pixels import UNREADABLE, picture_of
from tileharvest.pictures.threads import open_threads
from tileharvest.store.files import sync

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import Watch
    from tileharvest.store.port import TileStore

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
_WAITING: Final = 64
"""The images that are written together."""
_OURS: Final = re.compile(
    r"images/[0-9a-f]{2}/(?P<image>[0-9a-f]{16})\.(?:png|jpg|webp)|lists/[0-9a-f]{2}/(?P<list>[0-9a-f]{16})\.js"
    r"|(?:images|lists)/[0-9a-f]{2}/\.[0-9a-f]{16}\.[a-z]+\.unfinished"
)
"""The paths that only this program gives to files, and only in published folders. No other file is
removed."""
_PAGE: Final = re.compile(r"[0-9a-f]{16}")

Layers: TypeAlias = "Sequence[tuple[Excerpt, Sequence[int]]]"
"""The layers that are published, each with its zooms. There is at least one."""


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


def publish(
    layers: Layers, described: Mapping[str, Any], folder: Path, store: TileStore, watch: Watch
) -> Published:
    """Writes a map into a folder. Files that are there already are not written again. `described` has the
    map's `name`, `url` and `note`.

    The index is replaced last, in one step. If the writing ends before that, the folder works as it did, and
    also holds new files that nothing names yet. Files that the new index no longer names are removed at the
    end. Raises TileHarvestError, whose message says what of the map is there.
    """
    with writing_to(folder, *_NOT_PUBLISHED), _taken(folder, layers[0][0].map.name):
        publication, files = _Publication(folder, store), published_files()
        watch.expects(sum(block_count(excerpt, zooms) for excerpt, zooms in layers))
        with open_threads(_AT_ONCE, "publish") as pool:
            name = publication.write_data(layers, described, watch, pool)
        for path, body in files.items():
            publication.write_new(path, body)
        # All files that the index names must be on the disk before the index is.
        sync(publication.unsynced)
        publication.write(NO_JEKYLL, b"")
        publication.write(INDEX, index_page(files, name))
        # What stays behind because of an error or a signal is removed when somebody publishes again.
        with suppress(OSError, TileHarvestError):
            publication.sweep(next(iter(files)).split("/")[1])
        return publication.published


@contextmanager
def _taken(folder: Path, map_name: str) -> Iterator[None]:
    """Makes the folder ours, and locks it until the block ends: nobody else can publish into it meanwhile.

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
        yield


class _Publication:
    """The writing of a map into a folder."""

    def __init__(self, folder: Path, store: TileStore) -> None:
        self._folder = folder
        self._store = store
        self._lists: set[str] = set()
        self._images: set[int] = set()
        """The names of the images. As numbers a million of them take 60 MB."""
        self._made: set[str] = set()
        """The folders that are there."""
        self.unsynced: list[str] = []
        self.published = Published()

    def write_data(self, layers: Layers, described: Mapping[str, Any], watch: Watch, pool: Executor) -> str:
        """Writes all images and lists. Returns the name of the list that names all others."""
        excerpt, _ = layers[0]
        every = [day for day in excerpt.map.days if day <= excerpt.last]
        waiting: list[str] = []

        def write_waiting() -> None:
            for _ in pool.map(self._write_image, waiting):
                pass
            waiting.clear()

        def name_image(sha1: str, extension: str) -> None:
            number, name = int(sha1[:NAMED], 16), f"{sha1}.{extension}"
            if number not in self._images:
                self._images.add(number)
                if not self._is_there(_image_path(name)):
                    waiting.append(name)
                if len(waiting) >= _WAITING:
                    write_waiting()

        lists = PublishedLists(every, self._write_list, name_image)
        made, plain_layers = {}, []
        for one, zooms in layers:
            name, plain = one.layer.name, one.layer.as_plain()
            made[name] = lists.layer(one, zooms, watch)
            kept = {zoom: first for zoom, first in plain["zooms"].items() if zoom in made[name]["zooms"]}
            plain_layers.append({**plain, "zooms": kept})
        write_waiting()
        shown = [day for day in every if day >= excerpt.first]
        name = self._write_list(
            {
                "map": {
                    **described,
                    "renderer": excerpt.map.renderer,
                    "unfinished": [day.isoformat() for day in excerpt.map.unfinished if day in shown],
                    "layers": plain_layers,
                },
                "every": [day.isoformat() for day in every],
                "days": [day.isoformat() for day in shown],
                "layers": made,
            }
        )
        self.published.layers = list(made)
        self.published.images, self.published.lists = len(self._images), len(self._lists)
        return name

    # --------------------------------------------------------------------------------------- files

    def _write_list(self, value: object) -> str:
        name, script = list_named(value)
        self._lists.add(name)
        if self.write_new(f"lists/{name[:2]}/{name}.js", script):
            self.published.new_lists += 1
        return name

    def _write_image(self, name: str) -> None:
        try:
            body = picture_of(self._store.named(name))
        except UNREADABLE:
            self.published.missing += 1
            return
        self.write(_image_path(name), body)
        self.published.new_images += 1

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
        if folder not in self._made:
            os.makedirs(folder, exist_ok=True)
            self._made.add(folder)
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
    return f"images/{sha1[:2]}/{sha1[:NAMED]}.{extension}"
