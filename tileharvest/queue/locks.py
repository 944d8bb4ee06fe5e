"""Locks between the processes of one machine: many in one file."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from contextlib import suppress
from hashlib import sha1
from threading import Lock
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ExitStatus, QueueError

if TYPE_CHECKING:
    from pathlib import Path

_FORM: Final = "hhqqi"
"""The form of Linux's `struct flock`: kind, from where, offset, length, process."""


class Locks:
    """Locks by name, all in one file. A process holds a lock until it drops it or ends.

    The system releases a lock when its process ends, however it ends, so a file that stays behind locks
    nobody out. Each name locks a byte of its own, far behind the end of the file, which stays empty (Linux's
    locks of open files). Hundreds of locks therefore need one open file only, and looking at a lock does not
    take it. The locks work between the containers of one machine, and on a network file system that has such
    locks.
    """

    def __init__(self, file: Path) -> None:
        """Touches nothing yet. The file's folder must be there when one is taken."""
        self._path = file
        self._held: dict[str, int] = {}
        """The names of the locks that are held, each with its open file. If the file was deleted and another
        one has taken its place, later locks are in the new file."""
        self._alone = Lock()

    def take(self, name: str) -> bool:
        """Takes the lock if it is free. Returns whether it was free. Raises OSError if the file cannot be
        written."""
        with self._alone:
            if name in self._held:
                return False
            file = self._open_one()
            if file is None:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _ask(file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, name)
                self._held[name] = file
            except BlockingIOError:
                return False
            finally:
                self._close_unused(file)
            return True

    def drop(self, name: str) -> None:
        """Releases a lock of this process. Does nothing if this process does not hold the lock."""
        with self._alone:
            file = self._held.pop(name, None)
            if file is not None:
                _ask(file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, name)
                self._close_unused(file)

    def is_taken(self, name: str) -> bool:
        """Returns whether any process holds the lock, this one included. Returns False if the file cannot be
        read.

        Returns True if this process may open no more files: if it cannot look, it must not call others dead.
        """
        with self._alone:
            if name in self._held:
                return True
            file = None
            try:
                file = self._open_one()
                if file is None:
                    file = os.open(self._path, os.O_RDONLY)
                return _ask(file, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, name) != fcntl.F_UNLCK
            except OSError as error:
                return error.errno in (errno.EMFILE, errno.ENFILE)
            finally:
                if file is not None:
                    self._close_unused(file)

    def _open_one(self) -> int | None:
        """Returns the open file that lies at the path now, or None if no lock is held in it."""
        with suppress(FileNotFoundError):
            there = self._path.stat()
            for file in set(self._held.values()):
                if os.path.samestat(os.fstat(file), there):
                    return file
        return None

    def _close_unused(self, file: int) -> None:
        if file not in self._held.values():
            os.close(file)


def locks_in(folder: Path) -> Locks:
    """Returns the locks in the file `locks` of a folder. All callers of a process share the locks of a
    folder.

    Raises QueueError on any other system than Linux, which alone has such locks in this form."""
    if sys.platform != "linux":
        raise QueueError(
            f"TileHarvest needs Linux, and this is {sys.platform}, which has no such locks for {folder};"
            " nothing was changed; run it on Linux, for example in a container",
            exit_status=ExitStatus.USAGE,
        )
    file = folder / "locks"
    return _LOCKS.setdefault((file, os.getpid()), Locks(file))


_LOCKS: Final[dict[tuple[Path, int], Locks]] = {}
"""The locks by file and process. The process is in the key because a forked process would otherwise seem to
hold the locks of its parent."""


def _ask(file: int, command: int, kind: int, name: str) -> int:
    """Returns the kind of lock that the system answers."""
    # 62 bits: the largest offset has 63, and no two names are to fall on one.
    offset = int.from_bytes(sha1(name.encode(), usedforsecurity=False).digest()[:8]) >> 2
    asked = struct.pack(_FORM, kind, os.SEEK_SET, offset, 1, 0)
    answered: int = struct.unpack(_FORM, fcntl.fcntl(file, command, asked))[0]
    return answered
