"""Turns what SQLite or the file system says of a queue into one line for a person."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tileharvest.errors import QueueError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AFRESH: Final = "start afresh with -a fresh=1"
"""The way out when a queue cannot be used: the history knows what was harvested, so only requests are
made again."""

_UNREADABLE: Final = (
    "the queue {place} cannot be read ({said}); it was not deleted, and the history is unharmed: "
    + AFRESH
    + ", or move the file away"
)
_FULL: Final = (
    "disk full: the queue {place} could not be written; no request in it was lost; free space and run again"
)
_LOCKED: Final = (
    "the queue {place} is locked by another program for too long; no request in it was lost;"
    " let the other program end and run again"
)
_NOT_ALLOWED: Final = (
    "the queue {place} cannot be written here ({said}); no request in it was lost;"
    " make the file and its folder writable, or name another place"
)
_NOT_OPENED: Final = (
    "the queue {place} cannot be opened ({said}); no request in it was lost;"
    " make sure that its folder exists and is writable, or name another place"
)
_OTHER: Final = "the queue {place} failed ({said}); no request in it was lost; run again, or check the disk"

# By SQLite's primary result codes: https://www.sqlite.org/rescode.html
_BY_CODE: Final = {
    sqlite3.SQLITE_PERM: _NOT_ALLOWED,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _NOT_ALLOWED,
    sqlite3.SQLITE_CORRUPT: _UNREADABLE,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: _NOT_OPENED,
    sqlite3.SQLITE_NOTADB: _UNREADABLE,
}
_FULL_CODES: Final = frozenset({sqlite3.SQLITE_IOERR_SHMSIZE})
"""SQLite's extended codes for a disk too full for the shared memory file that lies beside a database."""


@contextmanager
def as_queue_errors(file: Path) -> Iterator[None]:
    """Raises QueueError, naming the file, for whatever SQLite or the file's folder refuses inside."""
    try:
        yield
    except sqlite3.Error as error:
        raise QueueError(_line(error, file)) from error
    except OSError as error:
        raise QueueError(_NOT_OPENED.format(place=file, said=error.strerror or error)) from error


def _line(error: sqlite3.Error, file: Path) -> str:
    # Errors that the sqlite3 module finds by itself have no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    form = _FULL if code in _FULL_CODES else _BY_CODE.get(code & 0xFF, _OTHER)
    return form.format(place=file, said=" ".join(str(error).split()))
