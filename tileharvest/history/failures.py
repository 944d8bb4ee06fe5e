"""Turns what a database says of itself into one line for a person: what happened, and what to do."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import SQLAlchemyError

from tileharvest.errors import HistoryError
from tileharvest.history.server_failures import server_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNREADABLE: Final = (
    "the history {place} cannot be read ({said}); it was not changed: restore it from a backup, or move"
    " it away to start a new history; the images in the store are unharmed"
)
_FULL: Final = (
    "disk full: the history {place} could not be written; nothing recorded was lost; free space and run again"
)
_LOCKED: Final = (
    "the history {place} is locked by another program for too long; nothing recorded was lost;"
    " let the other program end and run again"
)
_NOT_ALLOWED: Final = (
    "the history {place} cannot be written here ({said}); nothing was changed;"
    " make the file and its folder writable, or name another place"
)
_NOT_OPENED: Final = (
    "the history {place} cannot be opened ({said}); nothing was changed;"
    " make sure that its folder exists and is writable, or name another place"
)

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

_OTHER: Final = "the history {place} failed ({said}); nothing recorded was lost; run again, or check the disk"


@contextmanager
def as_history_errors(place: str) -> Iterator[None]:
    """Raises HistoryError, naming the place, for whatever the database or its folder refuses inside."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise (server_failure(error, place) or HistoryError(_line(error, place))) from error
    except OSError as error:
        raise HistoryError(_NOT_OPENED.format(place=place, said=error.strerror or error)) from error


def _line(error: Exception, place: str) -> str:
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlite_errorcode", None)
    said = " ".join(str(cause).split())
    if code is None:
        return _OTHER.format(place=place, said=said)
    form = _FULL if code in _FULL_CODES else _BY_CODE.get(code & 0xFF, _OTHER)
    return form.format(place=place, said=said)
