"""Locks between the processes of one machine. The system releases them when their process ends."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from hashlib import sha1
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ExitStatus, QueueError

if TYPE_CHECKING:
    from pathlib import Path

_FORM: Final = "hhqqi"
"""The form of the system's `struct flock`: kind, whence, start, length, pid."""


class Lock:
    """A lock that one process at most holds. It belongs to an open file, so that two parts of one process
    exclude each other as two processes do (`F_OFD_SETLK`, fcntl(2)).

    All locks of a folder are bytes of its file `locks`, so that thousands of them leave one file behind.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Raises QueueError on any other system than Linux, which alone has such locks in this form."""
        if sys.platform != "linux":
            raise QueueError(
                f"TileHarvest needs Linux, and this is {sys.platform}, which has no such locks for {folder};"
                " nothing was changed; run it on Linux, for example in a container",
                exit_status=ExitStatus.USAGE,
            )
        self._path = folder / "locks"
        # 62 bits: the largest place in a file has 63, and no two names are to fall on one.
        place = int.from_bytes(sha1(name.encode(), usedforsecurity=False).digest()[:8]) >> 2
        self._asked = struct.pack(_FORM, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        self._file: int | None = None

    def take(self) -> bool:
        """Takes the lock if it is free, and returns whether it was free. Raises OSError if the file cannot be
        written."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, self._asked)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def drop(self) -> None:
        """Releases the lock. Dropping twice is harmless."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def is_taken(self) -> bool:
        """Returns whether anybody holds the lock. If that cannot be found out, somebody may."""
        try:
            with self._path.open("rb") as file:
                answered = fcntl.fcntl(file, fcntl.F_OFD_GETLK, self._asked)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return bool(struct.unpack(_FORM, answered)[0] != fcntl.F_UNLCK)
