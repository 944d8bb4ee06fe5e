"""The throttle of the processes of one computer, in a file, or of one process, in memory."""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import QueueError
from tileharvest.politeness.lock import Lock
from tileharvest.politeness.throttle import (
    HORIZON,
    REST,
    Limit,
    Reservation,
    Share,
    Spent,
    reserve,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_logger = logging.getLogger(__name__)

_PATIENCE: Final = 30.0
"""Seconds to wait while another process writes. A write takes some 50 microseconds, and longer only if the
process was stopped just then, or if the disk does not answer."""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS times (host TEXT, name TEXT, at REAL NOT NULL,
    PRIMARY KEY (host, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workers (host TEXT, worker TEXT, map TEXT NOT NULL, places INTEGER NOT NULL,
    busy INTEGER NOT NULL, until REAL NOT NULL, PRIMARY KEY (host, worker)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spent (host TEXT, map TEXT, requests INTEGER NOT NULL, bytes INTEGER NOT NULL,
    seconds REAL NOT NULL, PRIMARY KEY (host, map)) WITHOUT ROWID;
"""
_SPEND: Final = """
INSERT INTO spent VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET requests = requests + excluded.requests,
    bytes = bytes + excluded.bytes, seconds = max(seconds, excluded.seconds)
RETURNING requests, bytes, seconds
"""


class SqliteThrottle:
    """`Throttle` in the file `throttle.sqlite` of a folder, or in memory without a folder.

    Each process holds a lock in the same folder, by which the others know that it is alive. The system
    releases the lock when the process ends, however it ends. Nothing is forced to the disk: a power cut ends
    all processes, and may cost a rest or a budget's count. A file that cannot be read is begun anew.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Touches nothing yet."""
        self._folder = folder
        self.clock: Callable[[], float] = time.time
        self._connection: sqlite3.Connection | None = None
        self._lock: Lock | None = None
        self.process = f"{os.getpid()}-{secrets.token_hex(8)}"

    async def open(self) -> None:
        self._connection = _connected(":memory:") if self._folder is None else self._opened(self._folder)

    async def reserve(
        self, host: str, number: int, limits: Sequence[Limit], horizon: float = HORIZON
    ) -> Reservation:
        with self._transaction() as execute:
            times = dict(execute("SELECT name, at FROM times WHERE host = ?", host))
            reservation, changed = reserve(times, limits, number, self.clock(), horizon)
            for name, at in changed.items():
                execute("INSERT OR REPLACE INTO times VALUES (?, ?, ?)", host, name, at)
            return reservation

    async def rest(self, host: str, seconds: float) -> None:
        later = "INSERT INTO times VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)"
        with self._transaction() as execute:
            execute(later, host, REST, self.clock() + seconds)

    async def share(self, host: str, own: Share, of_map: int, of_host: int, lasts: float) -> int:
        with self._transaction() as execute:
            now = self.clock()
            rows = execute("SELECT worker, map, places, busy, until FROM workers WHERE host = ?", host)
            alive = [Share(*row) for *row, until in rows if until > now and self._is_alive(row[0])]
            for gone in {row[0] for row in rows} - {one.worker for one in alive}:
                execute("DELETE FROM workers WHERE host = ? AND worker = ?", host, gone)
            if not any(one.map == own.map for one in alive):
                execute("DELETE FROM spent WHERE host = ? AND map = ?", host, own.map)
            others = [one for one in alive if one.worker != own.worker]
            number = share(own, others, of_map, of_host, now)
            row = own._replace(places=max(own.places, number))
            execute("INSERT OR REPLACE INTO workers VALUES (?, ?, ?, ?, ?, ?)", host, *row, now + lasts)
            return number

    async def leave(self, host: str, worker: str) -> None:
        with self._transaction() as execute:
            execute("DELETE FROM workers WHERE host = ? AND worker = ?", host, worker)

    async def spend(self, host: str, name: str, spent: Spent) -> Spent:
        with self._transaction() as execute:
            return Spent(*execute(_SPEND, host, name, *spent)[0])

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._lock is not None:
            self._lock.drop()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Gives a function that executes a statement and returns its rows. Raises QueueError."""
        connection = self._connection
        if connection is None:
            raise RuntimeError("the throttle is not open")

        def execute(statement: str, *values: object) -> list[Any]:
            return connection.execute(statement, values).fetchall()

        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield execute
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise QueueError(
                f"{self._folder}/throttle.sqlite, in which harvests of this machine share limits, cannot be"
                f" read or written ({error}); nothing was lost; make it readable and writable, then run again"
            ) from error

    def _opened(self, folder: Path) -> sqlite3.Connection:
        """Takes the lock of this process, and returns a connection to the file."""
        file = folder / "throttle.sqlite"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(folder, self.process)
            self._lock.take()
            return _connected(file)
        except (OSError, sqlite3.OperationalError) as error:
            if self._lock is not None:
                self._lock.drop()
            raise QueueError(
                f"{folder}, in which harvests of this machine share limits, cannot be written ({error});"
                " nothing was changed; make it writable, or name another data folder"
            ) from error
        except sqlite3.DatabaseError as error:
            _logger.warning("%s cannot be read (%s); it is begun anew, and no request is lost", file, error)
            # Another process may have deleted it first.
            file.unlink(missing_ok=True)
            return _connected(file)

    def _is_alive(self, worker: str) -> bool:
        """Returns whether the process of a worker runs."""
        process = worker.partition(":")[0]
        return self._folder is None or process == self.process or Lock(self._folder, process).is_taken()


def _connected(file: Path | str) -> sqlite3.Connection:
    # isolation_level=None: sqlite3 begins no transactions by itself.
    connection = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None)
    connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {_TABLES}")
    return connection
