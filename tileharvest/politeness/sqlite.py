"""The throttle of the processes of one computer, in a file, or of one process, in memory."""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from tileharvest.errors import QueueError
from tileharvest.politeness.lock import Lock
from tileharvest.politeness.throttle import HostState, Throttle

if TYPE_CHECKING:
    from pathlib import Path

_logger = logging.getLogger(__name__)

_PATIENCE: Final = 30.0
"""Seconds to wait while another process writes. A write takes some 50 microseconds, and longer only if the
process was stopped just then, or if the disk does not answer."""


class SqliteThrottle(Throttle):
    """`Throttle` in the file `throttle.sqlite` of a folder, or in memory without a folder.

    Each process holds a lock in the same folder, by which the others know that it is alive. The system
    releases the lock when the process ends, however it ends. Nothing is forced to the disk: a power cut ends
    all processes, and may cost a rest or a budget's count. A file that cannot be read is begun anew.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Touches nothing yet."""
        self._folder = folder
        self.clock = time.time
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

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._lock is not None:
            self._lock.drop()

    async def _do(self, act: str, host: str, *given: Any) -> tuple[float, Any]:
        connection = self._connection
        if connection is None:
            raise RuntimeError("the throttle is not open")
        try:
            # A block that raises rolls back, and any other commits.
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                state = HostState()
                # A state that cannot be read is begun anew: no request is lost.
                with suppress(msgspec.MsgspecError, ValueError):
                    for (kept,) in connection.execute("SELECT state FROM hosts WHERE host = ?", (host,)):
                        state = msgspec.msgpack.decode(kept, type=HostState)
                now = self.clock()
                if act == "share":
                    for worker, one in state.shares.items():
                        if one.ends > now and not self._is_alive(worker):
                            state.shares[worker] = replace(one, ends=now)
                answer = getattr(state, act)(now, *given)
                row = host, msgspec.msgpack.encode(state)
                connection.execute("INSERT OR REPLACE INTO hosts VALUES (?, ?)", row)
        except sqlite3.Error as error:
            raise QueueError(
                f"{self._folder}/throttle.sqlite, in which harvests of this machine share limits, cannot be"
                f" read or written ({error}); nothing was lost; make it readable and writable, then run again"
            ) from error
        return now, answer

    def _is_alive(self, worker: str) -> bool:
        """Returns whether the process of a worker runs."""
        process = worker.partition(":")[0]
        return self._folder is None or process == self.process or Lock(self._folder, process).is_taken()


def _connected(file: Path | str) -> sqlite3.Connection:
    # isolation_level=None: sqlite3 begins no transactions by itself.
    connection = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS hosts (host TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID"
    )
    # Another process that makes the same file may be doing this now, for which SQLite does not wait. The file
    # remembers it.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    return connection
