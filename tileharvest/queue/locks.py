"""Locks between the processes of one machine: many in one file."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from functools import cache
from hashlib import sha1
from threading import Lock
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ExitStatus, QueueError

if TYPE_CHECKING:
    from pathlib import Path

_FORM: Final = "hhqqi"
"""Of Linux's `struct flock`: kind, from where, offset, length, process."""


class Locks:
    """Locks by name, all in one file. Who takes one holds it until it is dropped or the process has ended.

    The system lets go of them when the process ends, however it ends, so a file that stays behind locks
    nobody out. Each name locks a byte of its own, far behind the end of the file, which stays empty (Linux's
    locks of open files). So hundreds of locks need one open file, and to look at one takes it from nobody.
    They work between the containers of one machine; on a network file system as far as that has such locks.
    """

    def __init__(self, file: Path) -> None:
        """Touches nothing yet. The file's folder must be there when one is taken."""
        self._path = file
        self._file: int | None = None
        """Open while any is held."""
        self._held: set[str] = set()
        self._alone = Lock()

    def take(self, name: str) -> bool:
        """Returns whether it was free; then it is held. Raises OSError if the file cannot be written."""
        with self._alone:
            if name in self._held:
                return False
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _ask(self._file, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, name)
                self._held.add(name)
            except BlockingIOError:
                return False
            finally:
                self._close_unused()
            return True

    def drop(self, name: str) -> None:
        """Let go of one that this process holds. That is harmless when it holds it not."""
        with self._alone:
            if name in self._held and self._file is not None:
                self._held.remove(name)
                _ask(self._file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, name)
                self._close_unused()

    def is_taken(self, name: str) -> bool:
        """Returns whether a process holds it, this one included; False where the file cannot be read."""
        if name in self._held:
            return True
        try:
            file = os.open(self._path, os.O_RDONLY)
        except OSError:
            return False
        try:
            return _ask(file, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, name) != fcntl.F_UNLCK
        except OSError:
            return False
        finally:
            os.close(file)

    def _close_unused(self) -> None:
        if not self._held and self._file is not None:
            os.close(self._file)
            self._file = None


def locks_in(folder: Path) -> Locks:
    """Returns the locks in a folder's file `locks`. All of a process that name one folder share them. Raises
    QueueError where the system is not Linux, which alone has such locks in this form."""
    if sys.platform != "linux":
        raise QueueError(
            f"TileHarvest needs Linux, and this is {sys.platform}, which has no such locks for {folder};"
            " nothing was changed; run it on Linux, for example in a container",
            exit_status=ExitStatus.USAGE,
        )
    return _locks(folder / "locks", os.getpid())


@cache
def _locks(file: Path, _: int) -> Locks:
    """For each process: one that was forked would hold what the other one holds."""
    return Locks(file)


def _ask(file: int, command: int, kind: int, name: str) -> int:
    """Returns the kind of lock that the system answers."""
    # 62 bits: the largest offset has 63, and no two names are to fall on one.
    offset = int.from_bytes(sha1(name.encode(), usedforsecurity=False).digest()[:8]) >> 2
    asked = struct.pack(_FORM, kind, os.SEEK_SET, offset, 1, 0)
    answered: int = struct.unpack(_FORM, fcntl.fcntl(file, command, asked))[0]
    return answered
