"""The errors of a history, and the line of text for each error of a database.

A line says what happened, that nothing was lost, and what to do next.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tileharvest.errors import HistoryError

if TYPE_CHECKING:
    from collections.abc import Iterator


class HarvestEndedError(HistoryError):
    """This process or another one has ended the harvest. Nothing was written."""

    reason: str | None = None
    """The word with which it ended, such as `finished`."""

    @classmethod
    def of(cls, harvest: int, reason: str) -> Self:
        error = cls(
            f"harvest {harvest} has ended already ({reason}), perhaps because another one of the same map was"
            " begun; nothing was changed; run again"
        )
        error.reason = reason
        return error


class PassingError(HistoryError):
    """An error that may be over soon, such as that of a server which is restarted. The call may be repeated.

    Nothing was changed, with one exception: if the connection was lost during a commit, nobody knows whether
    the commit took effect.
    """


def no_history(place: str) -> HistoryError:
    """Returns the error for a place without a history."""
    return HistoryError(f"there is no history at {place} yet: the first harvest begins it")


@contextmanager
def as_history_errors(place: str) -> Iterator[None]:
    """Turns errors of the database and of its folder into HistoryError, which names the place."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise history_error(error, place) from error
    except OSError as error:
        raise HistoryError(_NOT_WRITABLE.format(place=place, said=error.strerror or error)) from error


def damage_error(found: str, place: str) -> HistoryError:
    """Returns the error that says what is damaged in a history."""
    return HistoryError(_UNREADABLE.format(place=place, said=" ".join(found.split())))


def history_error(error: Exception, place: str) -> HistoryError:
    """Returns the HistoryError for an error of SQLAlchemy or SQLite.

    It is a PassingError if another attempt may succeed: if a connection was lost or cannot be made, or if
    PostgreSQL has broken off a transaction because of others.
    """
    cause = getattr(error, "orig", None) or error
    said = " ".join(str(cause).split())
    if isinstance(error, DBAPIError) and hasattr(cause, "sqlstate"):
        line = _of_postgresql(error, cause.sqlstate)
    else:
        code = getattr(cause, "sqlite_errorcode", None) or 0
        # The full disk has no room for the shared memory file beside the database.
        is_full = code == sqlite3.SQLITE_IOERR_SHMSIZE
        line = _FULL if is_full else _BY_CODE.get(code & 0xFF, _OTHER)
    kind: type[HistoryError] = PassingError if line is _SERVER else HistoryError
    return kind(line.format(place=place, said=said))


_UNREADABLE: Final = (
    "the history {place} is damaged or no history ({said}); it was not changed: restore it from a backup, or"
    " move it away to start a new history; the images in the store are unharmed"
)
_FULL: Final = (
    "disk full: the history {place} could not be written; nothing recorded was lost; free space and run again"
)
_LOCKED: Final = (
    "the history {place} is locked by another program for too long; nothing recorded was lost;"
    " let the other program end and run again"
)
_NOT_WRITABLE: Final = (
    "the history {place} cannot be opened or written here ({said}); nothing was changed;"
    " make sure that its folder exists and that this user may write there, or name another place"
)
_SERVER: Final = (
    "the history {place} cannot be reached, or its server refuses it ({said}); nothing recorded was lost;"
    " make sure that the server runs, and that user, password and database are right, and run again"
)
_OTHER: Final = (
    "the history {place} failed ({said}); nothing recorded was lost; run again, or check the disk or the"
    " server's log"
)

# By SQLite's primary result codes: https://www.sqlite.org/rescode.html
_BY_CODE: Final = {
    sqlite3.SQLITE_PERM: _NOT_WRITABLE,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _NOT_WRITABLE,
    sqlite3.SQLITE_CORRUPT: _UNREADABLE,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: _NOT_WRITABLE,
    sqlite3.SQLITE_NOTADB: _UNREADABLE,
}
# By SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
_BY_STATE: Final = {
    "25006": _NOT_WRITABLE,  # read_only_sql_transaction
    "42501": _NOT_WRITABLE,  # insufficient_privilege
    "53100": _FULL,  # disk_full
    "55P03": _LOCKED,  # lock_not_available
}
_PASSING_STATES: Final = re.compile("25P03|40001|40P01|53300|57P0[1-5]")
"""A transaction that waited too long for its program or was broken off for another one; too many connections;
and a server that is stopped or starts."""


def _of_postgresql(error: DBAPIError, state: str | None) -> str:
    """Returns the text of the line, with fields to be filled in."""
    # A statement that fails has a state; a connection that fails has none.
    if state is None or _PASSING_STATES.fullmatch(state):
        return _SERVER
    return _BY_STATE.get(state) or (_SERVER if error.connection_invalidated else _OTHER)
