"""A store of plain files: `ab/<sha1>.png` below one folder."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from tileharvest.errors import StoreError
from tileharvest.store.port import (
    HeldImage,
    MissingImageError,
    expect_bytes_of,
    expect_image_name,
    expect_intact,
)
from tileharvest.tiles.versions import is_image_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tileharvest.tiles.versions import Image

_UNFINISHED: Final = ".unfinished"
LEFTOVER_AGE: Final = 3600.0
"""The age in seconds at which an unfinished file must belong to a killed writer. Writing a file takes a
second at most. An hour allows for different clocks of the computers that share a folder."""

_FEW: Final = 8
"""The number of files or folders below which each is synced by itself. To sync the whole file system takes
about as long as that, and also writes what other programs have changed."""

_SYNCED_WHOLE: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
"""The file systems on which `syncfs` promises as much as `fsync`, by their numbers in Linux's magic.h: ext,
XFS, Btrfs, F2FS, tmpfs. On others it does not; a FUSE program does not even learn of it."""

_REPORTS_ERRORS: Final = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (5, 8)
"""Whether `syncfs` raises for what could not be written. Before Linux 5.8 it did not."""

_STATFS_BYTES: Final = 256
"""More bytes than Linux's `struct statfs` has. Its first number names the file system."""

_C_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)


class FileStore:
    """A `TileStore` in a folder, which `put` creates if it is missing.

    The write order is: temporary files in the same folders, their sync, the renames, a sync of the folders.
    For many images together the whole file system is synced instead, if that promises as much. Killed writers
    leave temporary files, which `remove` deletes.
    """

    def __init__(self, root: Path) -> None:
        """Touches nothing."""
        self._root = root
        self._place = str(root)

    def put(self, images: Mapping[Image, bytes]) -> set[Image]:
        for image, body in images.items():
            expect_bytes_of(image, body)
        if not images:
            return set()
        with _store_errors(self._root):
            places = {self.path(image.file_name): image for image in images}
            # Those of files that were there, too: their writer may have been killed before this step.
            folders = {place.rpartition("/")[0] for place in places}
            for folder in folders:
                if not os.path.isdir(folder):
                    _create_folder(Path(folder))
            with _opened(self._root) as descriptor:
                new = {place: image for place, image in places.items() if _size(place) != image.size}
                _write({place: images[image] for place, image in new.items()}, descriptor)
                sync(folders, descriptor)
        return set(new.values())

    def named(self, name: str) -> bytes:
        expect_image_name(name)
        target = self.path(name)
        body = _read(target)
        expect_intact(target, name, body)
        return body

    def held(self) -> Iterator[HeldImage]:
        with _store_errors(self._root):
            for file in self._root.glob("??/*"):
                if is_image_name(file.name) and file.parent.name == file.name[:2]:
                    # A clean-up may remove some meanwhile.
                    with suppress(FileNotFoundError):
                        state = file.stat()
                        yield HeldImage(file.name, state.st_size, state.st_mtime)

    def remove(self, names: Sequence[str]) -> None:
        with _store_errors(self._root):
            for name in names:
                expect_image_name(name)
                Path(self.path(name)).unlink(missing_ok=True)
            before = time.time() - LEFTOVER_AGE
            for leftover in self._root.glob(f"??/.*{_UNFINISHED}"):
                with suppress(FileNotFoundError):
                    if leftover.stat().st_mtime < before:
                        leftover.unlink()

    def path(self, name: str) -> str:
        """Returns where the image of this file name is, or would be. To make a Path would take as long as
        reading a small image."""
        return f"{self._place}/{name[:2]}/{name}"


def _create_folder(folder: Path) -> None:
    missing = [folder, *(parent for parent in folder.parents if not parent.exists())]
    folder.mkdir(parents=True, exist_ok=True)
    for created in missing:
        _sync(str(created.parent))


@contextmanager
def _opened(place: Path | str) -> Iterator[int]:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync(places: Collection[str], descriptor: int) -> None:
    """Makes these files or folders durable.

    The descriptor is of anything on their file system, and was opened before they were written: `syncfs`
    raises for what could not be written since then.
    """
    if len(places) >= _FEW and _is_synced_whole(descriptor):
        _sync_file_system(descriptor)
        return
    for place in places:
        _sync(place)


def _sync_file_system(descriptor: int) -> None:
    if _C_LIBRARY.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _is_synced_whole(descriptor: int) -> bool:
    """Returns whether a sync of the whole file system of this open file promises as much as one of the
    file."""
    state = ctypes.create_string_buffer(_STATFS_BYTES)
    is_known = _REPORTS_ERRORS and _C_LIBRARY.fstatfs(descriptor, state) == 0
    return is_known and ctypes.c_long.from_buffer(state).value & 0xFFFFFFFF in _SYNCED_WHOLE


def _write(bodies: Mapping[str, bytes], descriptor: int) -> None:
    """Writes the files. Each has a temporary name until all of them are on the disk."""
    unnamed: dict[str, str] = {}
    ending = f".{token_hex(8)}{_UNFINISHED}"
    try:
        for place, body in bodies.items():
            folder, _, name = place.rpartition("/")
            temporary = f"{folder}/.{name}{ending}"
            unnamed[temporary] = place
            _write_new(temporary, body)
        sync(unnamed, descriptor)
        for temporary, place in unnamed.items():
            os.replace(temporary, place)
    except BaseException:
        for temporary in unnamed:
            with suppress(OSError):
                os.unlink(temporary)
        raise


def _write_new(file: str, body: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        # A disk that gets full takes a part of the bytes, and refuses only the rest.
        while body:
            body = body[os.write(descriptor, body) :]
    finally:
        os.close(descriptor)


def _size(file: str) -> int | None:
    try:
        return os.stat(file).st_size
    except FileNotFoundError:
        return None


def _read(file: str) -> bytes:
    try:
        with open(file, "rb", buffering=0) as opened:
            return opened.read()
    except FileNotFoundError as error:
        raise MissingImageError(f"image {file} is missing: restore it from a backup") from error
    except OSError as error:
        raise StoreError(f"image {file} cannot be read: {error.strerror}") from error


def _sync(place: str) -> None:
    """Makes a file's bytes, or a folder's names, durable."""
    with _opened(place) as descriptor:
        os.fsync(descriptor)


@contextmanager
def _store_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        line = (
            f"the store {root} cannot be written or read ({error.strerror}); nothing recorded was lost;"
            " make the folder and what is in it writable and run again"
        )
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            line = (
                f"disk full: the store {root} took no image; nothing recorded was lost; free space and run"
                " again"
            )
        raise StoreError(line) from error
