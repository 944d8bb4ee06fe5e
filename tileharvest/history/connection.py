"""Connections to the history's database: its address, its tables, the settings of each connection, and a
line of text for each error.

A line says what happened, that nothing was lost, and what to do next.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import create_engine, event, func, insert, inspect, make_url, select
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from tileharvest.errors import ConfigurationError, HistoryError
from tileharvest.history.schema import REVISION, metadata, revisions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import URL, ClauseElement, Connection, Engine

    from tileharvest.history.schema import Row


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
    """Turns errors of SQLAlchemy, of SQLite, and of the database's folder into HistoryError, which names the
    place.

    It is a PassingError if another attempt may succeed: if a connection was lost or cannot be made, or if
    PostgreSQL has broken off a transaction because of others.
    """
    try:
        yield
    except OSError as error:
        raise HistoryError(_NOT_WRITABLE.format(place=place, said=error.strerror or error)) from error
    except (SQLAlchemyError, sqlite3.Error) as error:
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
        raise kind(line.format(place=place, said=said)) from error


UNREADABLE: Final = (
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
    sqlite3.SQLITE_CORRUPT: UNREADABLE,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: _NOT_WRITABLE,
    sqlite3.SQLITE_NOTADB: UNREADABLE,
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


LOCK_TIMEOUT: Final = 30.0
"""Seconds to wait for another program's transaction. Our transactions take milliseconds. A backup of a large
history may take some seconds on a slow disk."""

_POSTGRESQL: Final = "postgresql+psycopg"
_EXAMPLE: Final = (
    "write for example sqlite:///data/history.sqlite, or postgresql://user:password@host/database"
)

STATEMENT_TIMEOUT: Final = 300
"""Seconds that a statement may take on a server. A look through a million tiles takes seconds there. The
search for damage has no such bound."""

IDLE_TIMEOUT: Final = 15
"""Seconds that a transaction on a server may wait for its program's next statement. A program that takes
longer was frozen or cut off. Others wait twice as long for its locks."""

_SECRETS: Final = ("password", "passfile", "sslpassword", "sslkey")
"""Parts of an address's query that are left out of messages."""


_TURN: Final = int.from_bytes(b"tileharv")
"""The number of our advisory lock in PostgreSQL. Other programs in the same database are unlikely to use
it."""

CONNECTING: Final = 10
"""Seconds in which a server must take a connection."""
_KEEPING: Final = {
    "connect_timeout": CONNECTING,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""How long a server may be silent before it counts as gone. All are seconds, except for the last, which is
milliseconds."""


def parse_address(text: str) -> URL:
    """Returns the address of a history. For PostgreSQL it names the driver, psycopg.

    Raises ConfigurationError if the text names no database that this program can use.
    """
    try:
        url = make_url(text)
        if url.drivername in {"postgresql", "postgres"}:
            url = url.set(drivername=_POSTGRESQL)
    except (ArgumentError, ValueError):
        # The error may have the password.
        raise ConfigurationError(f"the history's address names no database: {_EXAMPLE}") from None
    if url.drivername not in ("sqlite", _POSTGRESQL):
        raise ConfigurationError(f"the history can be SQLite or PostgreSQL, not {url.drivername}: {_EXAMPLE}")
    if url.drivername == "sqlite" and url.host:
        raise ConfigurationError(f"the history's file is named behind three slashes, or four: {_EXAMPLE}")
    if url.drivername == "sqlite" and url.database in {None, "", ":memory:"}:
        raise ConfigurationError(f"a history in memory would be lost: {_EXAMPLE}")
    return url


def file_of(url: URL) -> Path | None:
    """Returns the database's file, or None if the database is on a server."""
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def place_of(url: URL) -> str:
    """Returns the name of a history in messages: the file's path, or the address without its password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.difference_update_query(_SECRETS).render_as_string(hide_password=True)


def connect(
    url: URL, lock_timeout: float = LOCK_TIMEOUT, *, read_only: bool = False, durable: bool = True
) -> Engine:
    """Returns an engine for the database. It opens no connection yet.

    With `read_only` the file is never created, and every statement that writes is refused. `durable` says
    whether a file's committed transactions must survive a power loss.
    """
    file = file_of(url)
    if file is None:
        return _connect_server(url, lock_timeout, read_only=read_only)
    return _connect_file(url, file, lock_timeout, read_only=read_only, durable=durable)


def _connect_server(url: URL, lock_timeout: float, *, read_only: bool) -> Engine:
    # The parameters of the address take precedence.
    patience = {name: seconds for name, seconds in _KEEPING.items() if name not in url.query}
    # The pool tries each connection before it is used, as a restart of the server has closed those in the
    # pool. No column is an hstore, for which the dialect would ask each server.
    engine = create_engine(url, connect_args=patience, pool_pre_ping=True, use_native_hstore=False)
    # The pool writes a traceback for each cursor that breaks with its connection. We say that in one line.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    settings = {
        "statement_timeout": f"{STATEMENT_TIMEOUT}s",
        "lock_timeout": f"{lock_timeout:.3f}s",
        "idle_in_transaction_session_timeout": f"{IDLE_TIMEOUT}s",
        "default_transaction_read_only": "on" if read_only else "off",
        # PostgreSQL assumes that layer, x and y are independent of each other, and expects 400 times as many
        # rows in an area as there are. With its defaults it then compiles a look-up of 0.3 ms, which took 92
        # ms, or starts processes for it, which took 9 ms, or scans the table.
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "random_page_cost": "1.1",
    }

    def connected(connection: Any, _: object) -> None:
        # These are not options of the address, because a pooler before the server may refuse such options.
        connection.autocommit = True
        connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))
        connection.autocommit = False

    event.listen(engine, "connect", connected, insert=True)
    return engine


def _connect_file(url: URL, file: Path, lock_timeout: float, *, read_only: bool, durable: bool) -> Engine:
    mode = "rw" if read_only else "rwc"
    uri = f"{file.absolute().as_uri()}?mode={mode}"

    def opened() -> sqlite3.Connection:
        # The pool hands a connection to one thread at a time, so SQLite's own check is not needed.
        # isolation_level=None: sqlite3 begins no transactions by itself, the history does.
        connection = sqlite3.connect(
            uri, uri=True, timeout=lock_timeout, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA foreign_keys = ON")
        # FULL: in WAL mode NORMAL may lose the last commits in a power loss.
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        connection.execute(f"PRAGMA query_only = {'ON' if read_only else 'OFF'}")
        return connection

    return create_engine(url, creator=opened)


class BlockStatement:
    """A statement that every block needs. SQLAlchemy writes its text once, and the driver executes it,
    because SQLAlchemy would take several times as long for that as the database.

    Parameters and results are as the driver has them: masks have a sign, and in a file days are text.
    """

    def __init__(self, in_file: ClauseElement, on_server: ClauseElement | None = None) -> None:
        """`on_server` is given if the statement is another one in PostgreSQL."""
        self._statements = {"sqlite": in_file, "postgresql": in_file if on_server is None else on_server}
        self._texts: dict[str, str] = {}

    def execute(self, connection: Connection, its: Row | Sequence[Row]) -> Any:
        """Returns a cursor with the result. Of several rows each is written."""
        if (kind := connection.dialect.name) not in self._texts:
            dialect = SQLiteDialect_pysqlite(paramstyle="named") if kind == "sqlite" else connection.dialect
            self._texts[kind] = str(self._statements[kind].compile(dialect=dialect))
        if kind == "sqlite" and isinstance(its, dict):
            driver: Any = connection.connection.dbapi_connection
            return driver.execute(self._texts[kind], its)
        return connection.exec_driver_sql(self._texts[kind], its)


def write_ahead(engine: Engine) -> None:
    """Sets the mode in which readers go on while one transaction writes. The mode stays set in the file."""
    with engine.connect() as connection:
        # SQLAlchemy would begin a transaction, in which SQLite cannot change the mode.
        driver: Any = connection.connection.dbapi_connection
        while True:
            try:
                driver.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
            else:
                return
            # Changing the mode never waits for a lock. Beginning to write does, and fails after the timeout.
            driver.execute("BEGIN IMMEDIATE")
            driver.execute("ROLLBACK")


def is_history(connection: Connection, place: str) -> bool:
    """Returns whether the database holds a history. Raises HistoryError for one of another revision."""
    revision: str | None = None
    if inspect(connection).has_table(revisions.name):
        revision = connection.execute(select(revisions)).scalar()
    if revision is None or revision == REVISION:
        return revision is not None
    of, what = "a newer", "update TileHarvest"
    # Revisions are numbers of four digits, so they sort as text.
    if revision < REVISION:
        of, what = "an older", "name another place for a new history, as this one cannot be read"
    raise HistoryError(
        f"the history {place} was written by {of} TileHarvest (revision {revision}); nothing was changed;"
        f" {what}"
    )


def make_tables(connection: Connection, place: str) -> None:
    """Creates the tables in the given transaction, unless they are there.

    Several programs may call this at once: the first does the work. Raises HistoryError, and changes nothing,
    if the database belongs to another program, or the history is of another revision.
    """
    if connection.dialect.name == "postgresql":
        # In a file the writer's lock is enough.
        connection.execute(select(func.pg_advisory_xact_lock(_TURN)))
    if is_history(connection, place):
        return
    if tables := inspect(connection).get_table_names():
        raise HistoryError(
            f"{place} is a database of another program (it holds the table '{tables[0]}');"
            " nothing was changed; name another place for the history"
        )
    metadata.create_all(connection)
    connection.execute(insert(revisions).values(version_num=REVISION))
