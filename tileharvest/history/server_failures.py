"""Turns what PostgreSQL says of itself into one line for a person, and tells what will pass by itself."""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy.exc import DBAPIError

from tileharvest.errors import HistoryError
from tileharvest.history.errors import PassingError

_AWAY: Final = (
    "the history {place} cannot be reached ({said}); nothing recorded was lost;"
    " make sure that its server runs and can be reached from here, and run again"
)
_LOGIN: Final = (
    "the history {place} refuses the login ({said}); nothing was changed;"
    " correct the user and the password in its address"
)
_NO_DATABASE: Final = (
    "the history {place} has no database yet ({said}); nothing was changed;"
    " create it there, with createdb for example, or correct its name in the address"
)
_NOT_ALLOWED: Final = (
    "the history {place} cannot be written by this user ({said}); nothing was changed; let the user create"
    " tables there, for example by making it the owner of the database"
)
_READ_ONLY: Final = (
    "the history {place} cannot be written here ({said}); nothing was changed;"
    " name the server that takes writes, not a copy of it"
)
_LOCKED: Final = (
    "the history {place} is locked by another program for too long; nothing recorded was lost;"
    " let the other program end and run again"
)
_FULL: Final = (
    "disk full: the history {place} could not be written; nothing recorded was lost; free space on its server"
    " and run again"
)
_COLLIDED: Final = (
    "the history {place} was written by others at the same time ({said}); nothing recorded was lost;"
    " run again"
)
_OTHER: Final = (
    "the history {place} failed ({said}); nothing recorded was lost; run again, or look into its server's log"
)

# By SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
_BY_STATE: Final = {
    "25006": _READ_ONLY,  # read_only_sql_transaction
    "28000": _LOGIN,  # invalid_authorization_specification
    "28P01": _LOGIN,  # invalid_password
    "3D000": _NO_DATABASE,  # invalid_catalog_name
    "42501": _NOT_ALLOWED,  # insufficient_privilege
    "53100": _FULL,  # disk_full
    "55P03": _LOCKED,  # lock_not_available
}
_PASSING_STATES: Final = {
    "25P03": _AWAY,  # idle_in_transaction_session_timeout: this process was frozen meanwhile
    "40001": _COLLIDED,  # serialization_failure
    "40P01": _COLLIDED,  # deadlock_detected
    "53300": _AWAY,  # too_many_connections
    "57P01": _AWAY,  # admin_shutdown
    "57P02": _AWAY,  # crash_shutdown
    "57P03": _AWAY,  # cannot_connect_now
    "57P05": _AWAY,  # idle_session_timeout
}
_REFUSALS: Final = (
    (re.compile("permission denied for database"), _NOT_ALLOWED),
    (re.compile('FATAL: +database ".*" does not exist'), _NO_DATABASE),
    (re.compile("no password supplied|authentication failed|pg_hba.conf|FATAL: +role "), _LOGIN),
)
"""What is said when a connection is refused for a reason that stays: it comes without a SQLSTATE. If a
server says it in another language than English, it counts as away."""


def server_failure(error: Exception, place: str) -> HistoryError | None:
    """What a failure of PostgreSQL is raised as; None for one of another database.

    PassingError where it is worth trying again: a connection that was lost or cannot be made, and a
    transaction that PostgreSQL has broken off because of others.
    """
    cause = getattr(error, "orig", None)
    if not isinstance(error, DBAPIError) or cause is None or not hasattr(cause, "sqlstate"):
        return None
    state: str | None = cause.sqlstate
    said = " ".join(str(cause).split())
    form, passing = _form(error, state, said)
    return (PassingError if passing else HistoryError)(form.format(place=place, said=said))


def _form(error: DBAPIError, state: str | None, said: str) -> tuple[str, bool]:
    if state in _BY_STATE:
        return _BY_STATE[state], False
    if state in _PASSING_STATES:
        return _PASSING_STATES[state], True
    # A statement that fails has a state; a connection that fails has none.
    if state is None or error.connection_invalidated:
        refusal = next((form for said_so, form in _REFUSALS if said_so.search(said)), None)
        return (_AWAY, True) if refusal is None else (refusal, False)
    return _OTHER, False
