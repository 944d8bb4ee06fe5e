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
from tileharvest.politeness.throttle import HORIZON, REST, Reservation, Share, Spent, reserve, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_logger = logging.getLogger(__name__)

_PATIENCE: Final = 30.0
"""Seconds to wait while another process writes. A write takes some 50 microseconds, and longer only if the
process was stopped just then, or if the disk does not answer."""

_TABLES: Final = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS times (host TEXT, name TEXT, at REAL NOT NULL,
    PRIMARY KEY (host, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shares (host TEXT, worker TEXT, map TEXT NOT NULL, places INTEGER NOT NULL,
    busy INTEGER NOT NULL, requests INTEGER NOT NULL, bytes INTEGER NOT NULL, seconds REAL NOT NULL,
    until REAL NOT NULL, PRIMARY KEY (host, worker)) WITHOUT ROWID;
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
        self.process = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._lock = None if folder is None else Lock(folder, self.process)
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        if self._folder is None or self._lock is None:
            self._connection = _connected(":memory:")
            return
        file = self._folder / "throttle.sqlite"
        try:
            self._lock.take()
            self._connection = _connected(file)
        except (OSError, sqlite3.OperationalError) as error:
            self._lock.drop()
            raise QueueError(
                f"{self._folder}, in which harvests of this machine share limits, cannot be written"
                f" ({error}); nothing was changed; make it writable, or name another data folder"
            ) from error
        except sqlite3.DatabaseError as error:
            _logger.warning("%s cannot be read (%s); it is begun anew, and no request is lost", file, error)
            # Another process may have deleted it first.
            file.unlink(missing_ok=True)
            self._connection = _connected(file)

    async def reserve(
        self, host: str, number: int, limits: Mapping[str, float], horizon: float = HORIZON
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

    async def share(
        self, host: str, own: Share, of_map: int, of_host: int, lasts: float
    ) -> tuple[int, Spent]:
        with self._transaction() as execute:
            now, others, runs = self.clock(), [], False
            for _, worker, name, places, is_busy, *spent, until in execute(
                "SELECT * FROM shares WHERE host = ?", host
            ):
                is_alive = until > now and self._is_alive(worker)
                runs = runs or (is_alive and name == own.map)
                if worker != own.worker:
                    held = places if is_alive else 0
                    others.append(Share(worker, name, held, bool(is_busy and is_alive), Spent(*spent)))
            if not runs:
                execute("DELETE FROM shares WHERE host = ? AND map = ?", host, own.map)
                others = [one for one in others if one.map != own.map]
            number, spent_by_others = share(own, others, of_map, of_host, now)
            row = (own.worker, own.map, max(own.places, number), own.is_busy, *own.spent, now + lasts)
            execute("INSERT OR REPLACE INTO shares VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", host, *row)
            return number, spent_by_others

    async def leave(self, host: str, worker: str) -> None:
        with self._transaction() as execute:
            execute("UPDATE shares SET until = 0 WHERE host = ? AND worker = ?", host, worker)

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
        try:
            # A block that raises rolls back, and any other commits.
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                yield lambda statement, *values: connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise QueueError(
                f"{self._folder}/throttle.sqlite, in which harvests of this machine share limits, cannot be"
                f" read or written ({error}); nothing was lost; make it readable and writable, then run again"
            ) from error

    def _is_alive(self, worker: str) -> bool:
        """Returns whether the process of a worker runs."""
        process = worker.partition(":")[0]
        return self._folder is None or process == self.process or Lock(self._folder, process).is_taken()


def _connected(file: Path | str) -> sqlite3.Connection:
    # isolation_level=None: sqlite3 begins no transactions by itself.
    connection = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None)
    connection.executescript(_TABLES)
    return connection
