"""The database of a queue in a file or in memory: its tables, its version, and how it is opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from tileharvest.errors import QueueError
from tileharvest.queue.sentences import sentence

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = 2
"""The version of the tables, kept as SQLite's user_version. A queue of the first version gets checksums when
it is opened."""

_FIRST: Final = 1

APPLICATION: Final = 0x54485175
"""SQLite's application_id, "THQu", which tells our files from those of other programs."""

LOCK_TIMEOUT: Final = 30.0
"""Seconds to wait for another process. Transactions last milliseconds. Only dropping a segment of a million
requests takes some seconds on a slow disk."""

_PAGE: Final = 2048
"""Bytes of a page. Fingerprints fall anywhere in their table, so each new one rewrites a page. With a million
of them half of SQLite's usual 4,096 is 10 to 40 % faster, and 1,024 is slower again (measured)."""

_CACHE: Final = 8 << 20
"""Bytes of pages that SQLite keeps in memory. A queue does not need more."""

_WRITTEN_AHEAD: Final = 32 << 20
"""Bytes of the write-ahead log before SQLite works it into the file, which writes a page once that has
changed often. With 4 MB a queue of a million is a quarter slower, with 64 MB hardly faster (measured)."""

_ATTEMPTS: Final = 100
"""The most attempts to be alone in a new file that several processes open at once. Each attempt waits for the
lock, so this many are never needed. The bound keeps a process from trying for ever."""

CHECKSUM: Final = 4
"""Bytes of the checksum at the end of each body in the tables. The other columns of the requests need none:
they stand in indexes, too, with which SQLite compares them."""

_SURELY_NEW: Final = """
    CREATE TABLE IF NOT EXISTS surely_new (
        id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, number INTEGER NOT NULL, fingerprints BLOB NOT NULL
    )"""
"""The log of fingerprints that a filter has called new and that are not in `seen` yet. A row has those of a
batch, in MessagePack. Some queues of the first version lack this table."""

_TABLES: Final = (
    # Ids rise in the order in which segments were opened. AUTOINCREMENT: an id is never used again.
    """CREATE TABLE segments (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, done INTEGER NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE remarks (
        segment INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (segment, key)
    ) WITHOUT ROWID""",
    """CREATE TABLE seen (
        segment INTEGER NOT NULL, fingerprint BLOB NOT NULL, PRIMARY KEY (segment, fingerprint)
    ) WITHOUT ROWID""",
    _SURELY_NEW,
    # `due` is set while an entry is delayed, `until` while it is leased, never both. An id that came again
    # would let the holder of an old lease finish another's request. The segment has no index, because it is
    # looked for only when a segment is dropped.
    """CREATE TABLE requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT, segment INTEGER NOT NULL, priority INTEGER NOT NULL,
        attempt INTEGER NOT NULL, due REAL, until REAL, body BLOB NOT NULL
    )""",
    """CREATE TABLE failures (
        id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, segment TEXT NOT NULL,
        priority INTEGER NOT NULL, attempts INTEGER NOT NULL, reason TEXT NOT NULL, failed REAL NOT NULL
    )""",
    # This is the order of the lanes, first in first out among equals. The indexes are partial, so that what
    # is leased or delayed does not slow down the search for what waits, and the other way round.
    "CREATE INDEX waiting ON requests (priority DESC, id) WHERE due IS NULL AND until IS NULL",
    "CREATE INDEX delayed ON requests (due) WHERE due IS NOT NULL",
    "CREATE INDEX leased ON requests (until) WHERE until IS NOT NULL",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


def connect(file: Path | None) -> sqlite3.Connection:
    """Returns a connection to the queue in a file, or without a file to one in memory, which ends with the
    connection. A missing file is created with its folder. A queue of the first version is upgraded.

    Raises QueueError for a file of another version or another program, which is not changed. Raises
    sqlite3.Error and OSError for a file that cannot be opened. One thread after another may use the
    connection.
    """
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    place = ":memory:" if file is None else file
    # isolation_level=None: sqlite3 begins no transactions by itself.
    connection = sqlite3.connect(place, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        if _is_empty(connection):
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            _write_ahead(connection)
            _create(connection)
        _add_checksums(connection)
        _refuse_others(connection, file)
        _adjust(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def rows_in(file: Path, statement: str, *values: object) -> list[Any]:
    """Returns the rows that a statement finds in the queue of an existing file, or none if the file is empty.
    This takes a third of the time of `connect`, which matters with thousands of files.

    Makes and changes nothing. Raises QueueError for a file of another version or another program, and
    sqlite3.Error for a file that cannot be read.
    """
    # Not read-only: SQLite would then leave its two files beside the database behind.
    place = f"{file.absolute().as_uri()}?mode=rw"
    look = sqlite3.connect(place, timeout=LOCK_TIMEOUT, isolation_level=None, uri=True)
    with closing(look) as connection:
        if _is_empty(connection):
            return []
        _refuse_others(connection, file)
        return connection.execute(statement, values).fetchall()


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT EXISTS (SELECT 1 FROM sqlite_master)").fetchone()[0]


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have been faster.
    if _is_empty(connection):
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")


def summed(segment: str, body: bytes) -> bytes:
    """Returns the body of a request as the tables have it, with a checksum of segment and body at its end."""
    return body + crc32(body, crc32(segment.encode())).to_bytes(CHECKSUM)


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Upgrades a queue of the first version to this one. Does nothing to any other."""
    if _mark(connection) != (APPLICATION, _FIRST):
        return
    connection.create_function("summed", 2, summed, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have been faster.
    if _mark(connection) == (APPLICATION, _FIRST):
        segment = "(SELECT name FROM segments WHERE segments.id = requests.segment)"
        connection.execute(f"UPDATE requests SET body = summed({segment}, body)")  # noqa: S608
        connection.execute("UPDATE failures SET body = summed(segment, body)")
        connection.execute(_SURELY_NEW)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _mark(connection: sqlite3.Connection) -> tuple[int, int]:
    """Returns the application_id of a file, and the version of its tables."""
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return application, version


def _refuse_others(connection: sqlite3.Connection, file: Path | None) -> None:
    application, version = _mark(connection)
    if application != APPLICATION:
        raise QueueError(sentence("foreign file", "", str(file)))
    if version not in (_FIRST, VERSION):
        raise QueueError(sentence("format", f"the queue {file}", f"{version}, this one's {VERSION}"))


def _adjust(connection: sqlite3.Connection) -> None:
    # NORMAL flushes only when the log is worked into the file. A SIGKILL takes nothing, because the system
    # has what was written. A power cut can take whole commits from the end. That is harmless: results are
    # durable in the history before their lease is finished, and a request and its children come and go in one
    # commit, so at worst work is offered again. FULL would cost a flush per batch.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = {-_CACHE // 1024}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_WRITTEN_AHEAD // _PAGE}")
    # The log of one very large transaction does not stay.
    connection.execute(f"PRAGMA journal_size_limit = {2 * _WRITTEN_AHEAD}")
    # Some systems build SQLite so that it overwrites what is deleted with zeros.
    connection.execute("PRAGMA secure_delete = OFF")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Lets readers and a writer work at once. The file remembers this."""
    for _ in range(_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        else:
            return
        # To change the mode does not wait for a lock, so a write waits for it here.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")
