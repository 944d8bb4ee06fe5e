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
        self._held: dict[str, int] = {}
        """By the names that are held the open file in which they are. Where that was deleted, and there is
        another one now, what is taken later is in the other one."""
        self._alone = Lock()

    def take(self, name: str) -> bool:
        """Returns whether it was free; then it is held. Raises OSError if the file cannot be written."""
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
        """Let go of one that this process holds. That is harmless when it holds it not."""
        with self._alone:
            file = self._held.pop(name, None)
            if file is not None:
                _ask(file, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, name)
                self._close_unused(file)

    def is_taken(self, name: str) -> bool:
        """Returns whether a process holds it, this one included; False where the file cannot be read.

        True where this process may open no more files: who cannot look must not call others dead.
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
        """Returns the open file that lies at the path; None where none of what is held is in that."""
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
    """Returns the locks in a folder's file `locks`. All of a process that name one folder share them. Raises
    QueueError where the system is not Linux, which alone has such locks in this form."""
    if sys.platform != "linux":
        raise QueueError(
            f"TileHarvest needs Linux, and this is {sys.platform}, which has no such locks for {folder};"
            " nothing was changed; run it on Linux, for example in a container",
            exit_status=ExitStatus.USAGE,
        )
    file = folder / "locks"
    return _LOCKS.setdefault((file, os.getpid()), Locks(file))


_LOCKS: Final[dict[tuple[Path, int], Locks]] = {}
"""By file and process: one that was forked would hold what the other one holds."""


def _ask(file: int, command: int, kind: int, name: str) -> int:
    """Returns the kind of lock that the system answers."""
    # 62 bits: the largest offset has 63, and no two names are to fall on one.
    offset = int.from_bytes(sha1(name.encode(), usedforsecurity=False).digest()[:8]) >> 2
    asked = struct.pack(_FORM, kind, os.SEEK_SET, offset, 1, 0)
    answered: int = struct.unpack(_FORM, fcntl.fcntl(file, command, asked))[0]
    return answered
