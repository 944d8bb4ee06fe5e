"""A cache on disk for pictures that take long to make. It may be deleted at any time; they are then made
again."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_DIGEST: Final = hashlib.sha256().digest_size
"""The bytes at a file's beginning by which the rest is checked."""
_KEPT_SHARE: Final = 0.9
"""The share of the room that is still used after files were deleted. Deleting more than is needed saves the
next puts from deleting again."""


class DiskCache:
    """Keeps bytes by keys, in files below one folder. Several threads and several processes may use a folder.

    No method raises an error. A file that cannot be read counts as missing, and a file that cannot be written
    (the disk is full, or the folder may not be written) is made again the next time. A damaged file is
    deleted. When more than `most_bytes` are kept, the files that were not read for the longest time are
    deleted. Each process counts for itself, so several may keep more together until one of them counts anew.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Creates and reads nothing. `most_bytes` of 0 keeps nothing."""
        self._folder = folder
        self._most = most_bytes
        self._left = 0
        """The bytes for which there is about room, as far as this process knows. It counts before it first
        puts."""

    def get(self, key: str) -> bytes | None:
        """Returns the bytes that were put under this key, or None."""
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
                # The time of a file says when it was last read. Not every file system notes that itself.
                os.utime(file)
            else:
                file.unlink()
        return body if is_whole else None

    def put(self, key: str, body: bytes) -> None:
        """Keeps the bytes until others need the room."""
        size = _DIGEST + len(body)
        if size > self._most:
            return
        file = self._file(key)
        # There is no fsync. A power cut may take the file, or leave half of it, and `get` notices that.
        part = file.with_name(f".{token_hex(8)}.unfinished")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(hashlib.sha256(body).digest() + body)
            part.replace(file)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            return
        self._left -= size
        if self._left < 0:
            self._make_room()

    def _file(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._folder / name[:2] / name

    def _make_room(self) -> None:
        """Deletes the files that were not read for the longest time, unfinished ones of killed writers among
        them, if too much is kept. Then counts what is left."""
        found: list[tuple[int, int, Path]] = []
        for file in self._folder.glob("??/*"):
            with suppress(OSError):
                state = file.stat()
                found.append((state.st_mtime_ns, state.st_size, file))
        kept = sum(size for _, size, _ in found)
        most = self._most if kept <= self._most else self._most * _KEPT_SHARE
        for _, size, file in sorted(found):
            if kept <= most:
                break
            # One that cannot be deleted still takes its room.
            with suppress(OSError):
                file.unlink(missing_ok=True)
                kept -= size
        self._left = self._most - kept
