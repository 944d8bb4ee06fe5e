"""A store of plain files: `ab/<sha1>.png` below one folder."""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from tileharvest.errors import StoreError
from tileharvest.store.port import (
    MissingImageError,
    expect_bytes_of,
    expect_image_name,
    expect_intact,
)
from tileharvest.tiles.versions import is_image_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tileharvest.tiles.versions import Image

_UNFINISHED: Final = ".unfinished"
LEFTOVER_AGE: Final = 3600.0
"""Seconds after which an unfinished file must be a killed writer's. Writing one takes a second at most; an
hour allows for clocks that differ between the computers that share a folder."""

_MOST_REMEMBERED: Final = 65_536
"""How many images are remembered whose folder entry is on the disk; about 8 MB of names."""


class FileStore:
    """A `TileStore` in a folder, which `put` creates if it is missing.

    Write order: a temporary file in the same folder, fsync, rename, fsync of the folder. Opening deletes the
    temporary files that killed writers left more than an hour ago. For that it reads the names of all files,
    which takes about a second for a million. On Windows a folder cannot be synced: a power loss may take the
    last images with it, a SIGKILL cannot.
    """

    def __init__(
        self, root: Path, clock: Callable[[], float] = time.time, *, read_only: bool = False
    ) -> None:
        """`clock` gives seconds since 1970, as the times of files do.

        A store that is opened read only takes no images, deletes nothing and costs nothing to open.
        """
        self._root = root
        self._read_only = read_only
        self._durable: set[str] = set()
        if not read_only:
            self._delete_leftovers(clock() - LEFTOVER_AGE)

    def put(self, image: Image, body: bytes) -> bool:
        if self._read_only:
            raise StoreError(f"the store {self._root} was opened to be read only; nothing was written")
        expect_bytes_of(image, body)
        target = self.path(image)
        with _store_errors(self._root):
            new = _size(target) != image.size
            if not new and target.name in self._durable:
                return False
            if new:
                self._create_folder(target.parent)
                _write(target, body)
            # Also for a file that is there: its writer may have been killed before this step.
            _sync_folder(target.parent)
        if len(self._durable) >= _MOST_REMEMBERED:
            self._durable.clear()
        self._durable.add(target.name)
        return new

    def named(self, name: str) -> bytes:
        expect_image_name(name)
        target = self._path(name)
        body = _read(target)
        expect_intact(target, name, body)
        return body

    def held(self) -> Iterator[tuple[str, int]]:
        with _store_errors(self._root):
            for file in self._root.glob("??/*"):
                if is_image_name(file.name) and file.parent.name == file.name[:2]:
                    yield file.name, file.stat().st_size

    def path(self, image: Image) -> Path:
        """Returns where the image is, or would be."""
        return Path(self._path(image.file_name))

    def _path(self, name: str) -> str:
        # As text: to put a Path together takes as long as to read a small image.
        return f"{self._root}/{name[:2]}/{name}"

    def _create_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        missing = [folder, *(parent for parent in folder.parents if not parent.exists())]
        folder.mkdir(parents=True, exist_ok=True)
        for created in missing:
            _sync_folder(created.parent)

    def _delete_leftovers(self, before: float) -> None:
        # A reader may not be allowed to list or delete them; then they do no harm.
        with suppress(OSError):
            for leftover in self._root.glob(f"??/.*{_UNFINISHED}"):
                with suppress(OSError):
                    if leftover.stat().st_mtime < before:
                        leftover.unlink()


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return None


def _read(file: str) -> bytes:
    try:
        with open(file, "rb", buffering=0) as opened:  # noqa: PTH123 - twice as fast as Path.read_bytes
            return opened.read()
    except FileNotFoundError as error:
        raise MissingImageError(f"image {file} is missing: restore it from a backup") from error
    except OSError as error:
        raise StoreError(f"image {file} cannot be read: {error.strerror}") from error


def _write(target: Path, body: bytes) -> None:
    temporary = target.with_name(f".{target.name}.{token_hex(8)}{_UNFINISHED}")
    try:
        with temporary.open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _store_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(_line(error, root)) from error


def _line(error: OSError, root: Path) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return (
            f"disk full: the store {root} took no image; nothing recorded was lost; free space and run again"
        )
    return (
        f"the store {root} cannot be written or read ({error.strerror}); nothing recorded was lost;"
        " make the folder and what is in it writable and run again"
    )
