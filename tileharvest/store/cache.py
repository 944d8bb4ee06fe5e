"""A cache on disk, for what takes long to make. It may be deleted at any time: all is then made again."""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DIGEST: Final = hashlib.sha256().digest_size
"""Bytes at a file's beginning that tell whether the rest is whole."""
_KEPT_SHARE: Final = 0.9
"""What is left when room is made: so that not every file that is put away has to be paid with another one."""


class DiskCache:
    """Bytes by keys, in files below one folder. May be used by several threads, and by several processes.

    Nothing here fails: what cannot be read is not there, and what cannot be written, because the disk is full
    or the folder is not ours to write, is made again the next time. A damaged file is deleted. When more than
    `most_bytes` are kept, those that were not asked for longest are deleted. Several processes count for
    themselves, so they may keep more together until one of them counts anew.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Creates and reads nothing. With 0 bytes nothing is kept."""
        self._folder = folder
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: int | None = None
        """Bytes in the folder as far as this process knows; None until it has counted."""

    def get(self, key: str) -> bytes | None:
        """Returns what was put there, or None."""
        if not self._most:
            return None
        file = self._file(key)
        try:
            whole = file.read_bytes()
        except OSError:
            return None
        digest, body = whole[:_DIGEST], whole[_DIGEST:]
        is_whole = digest == hashlib.sha256(body).digest()
        with suppress(OSError):
            if is_whole:
                # The time of a file tells when it was asked for last: not every file system notes reading.
                os.utime(file)
            else:
                file.unlink()
        return body if is_whole else None

    def put(self, key: str, body: bytes) -> None:
        """Keeps the bytes, at least until others need the room."""
        size = _DIGEST + len(body)
        if size > self._most:
            return
        file = self._file(key)
        # No fsync: a power loss may take it, or leave half of it, which is noticed.
        part = file.with_name(f".{token_hex(8)}.unfinished")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(hashlib.sha256(body).digest() + body)
            part.replace(file)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            return
        with self._lock:
            if self._kept is not None:
                self._kept += size
            if self._kept is None or self._kept > self._most:
                self._kept = self._make_room()

    def _file(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._folder / name[:2] / name

    def _make_room(self) -> int:
        """Deletes what was not asked for longest, if too much is kept. Returns how many bytes are left."""
        found = sorted(self._files())
        kept = sum(size for _, size, _ in found)
        if kept <= self._most:
            return kept
        for _, size, file in found:
            if kept <= self._most * _KEPT_SHARE:
                break
            try:
                file.unlink(missing_ok=True)
            except OSError:
                continue  # It still takes its room.
            kept -= size
        return kept

    def _files(self) -> Iterator[tuple[int, int, Path]]:
        """Yields time, size and path of each file, those of killed writers included."""
        for file in self._folder.glob("??/*"):
            with suppress(OSError):
                state = file.stat()
                yield state.st_mtime_ns, state.st_size, file
