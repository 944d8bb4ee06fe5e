"""The states that processes share: the port, and its implementation for one machine."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from tileharvest.errors import QueueError
from tileharvest.queue.locks import locks_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.politeness.rate_limit import Host
    from tileharvest.queue.locks import Locks
    from tileharvest.queue.map_table import MapTable

    Result = TypeVar("Result")
    State = TypeVar("State", Host, MapTable)

_logger = logging.getLogger(__name__)

_PATIENCE: Final = 30.0
"""Seconds to wait while another process writes. A write takes some 50 microseconds, and longer only if the
process was stopped just then, or if the disk does not answer."""
_MOMENT: Final = 0.001
"""Seconds between two attempts to write."""

_ALONE: Final = "0-alone"

_TABLE: Final = "CREATE TABLE IF NOT EXISTS hosts (name TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID"


class SharedStates(Protocol):
    """States that all processes share: a `Host` for each host, and one `MapTable`. It may be opened again
    after it was closed.

    Callers give times by their own clock, in seconds since 1970."""

    @property
    def process(self) -> str:
        """The name of the process that has opened this. No other process has the same name."""
        ...

    def ahead(self, name: str) -> float:
        """Returns the seconds by which the clock that counts for a state is ahead of the caller's clock, as
        far as is known."""
        ...

    def open(self) -> None:
        """Begins to take part. Raises QueueError if nothing can be kept."""
        ...

    async def change(
        self,
        kind: type[State],
        name: str,
        now: float,
        step: Callable[[State, float], Result],
        *,
        patience: float | None = None,
    ) -> Result:
        """Calls the step with the state of this name and the present time by the state's clock, keeps what
        the step has changed, and returns the step's result. A state that was never kept is `kind()`. The
        processes that have ended are removed from the state before.

        No other change comes between. If another process was faster, the step is called again with the state
        that this process has kept: so a step must change nothing but the state. Raises QueueError if the
        state cannot be changed within `patience` seconds, or for None within the usual time."""
        ...

    def close(self) -> None:
        """Ends the part of this process, which counts no more, as if it had been killed. Closing twice is
        harmless."""
        ...


class _StateTable:
    """The table of states in a file. The file is opened when its connection is first asked for.

    All users of a file in a process share one connection. To open a connection takes as long as three steps,
    and with connections of their own each user would read anew what the others have written.
    """

    def __init__(self, file: Path | None) -> None:
        """Without a file the table is in memory."""
        self.file = file or Path("hosts.sqlite")
        self._place: Path | str = file or ":memory:"
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        """The inode of the file that is open."""
        self.users = 0

    @property
    def connection(self) -> sqlite3.Connection:
        """Raises sqlite3.Error."""
        if self._connection is None:
            self._connection = _connected(self._place)
            self._inode = _inode_of(self.file)
        return self._connection

    def use(self) -> None:
        """Counts one more user. If another file has taken the place of the open one, the connection is closed
        and will be opened anew: else this process would not see what others write into the new file."""
        self.users += 1
        if _inode_of(self.file) != self._inode:
            self.close()

    def close(self) -> None:
        """Closes the connection, which is opened again when it is asked for. Closing twice is harmless."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_TABLES: Final[dict[Path, _StateTable]] = {}
"""The tables that this process uses, by their files."""


class StateFile:
    """`SharedStates` in a file that all processes of one machine share, or in memory for a process alone.

    Each process holds a lock in the same folder, by which the others know that it is alive. The system
    releases the lock when the process ends, however it ends. A process that is stopped keeps its lock,
    because it may go on at any time. Nothing is forced to the disk: a power cut ends all processes, and may
    cost a rest, a gap or a number of failures. A file that cannot be read is begun anew. A step takes some 90
    microseconds, and 10 more for each other process in the state.
    """

    def __init__(self, folder: Path | None = None, *, patience: float = _PATIENCE) -> None:
        """Touches nothing yet. Without a folder the states are in memory, and are forgotten at `close`."""
        self._folder = folder
        self._patience = patience
        self._table = _StateTable(None)
        self._locks: Locks | None = None
        """The locks of the processes that use the folder. None for states in memory."""
        self.process = ""

    def open(self) -> None:
        """Makes the folder if it does not exist. Raises QueueError, and RuntimeError if this is open."""
        if self.process:
            raise RuntimeError("the states are open already")
        if self._folder is None:
            self.process = _ALONE
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            process = f"{os.getpid()}-{secrets.token_hex(8)}"
            self._locks = locks_in(self._folder)
            self._locks.take(process)
        except OSError as error:
            raise QueueError(
                f"{self._folder}, in which harvests of this machine share limits and maps, cannot be written"
                f" ({error.strerror}); nothing was changed; make it writable, or name another data folder"
            ) from error
        self.process = process
        file = self._folder / "hosts.sqlite"
        self._table = _TABLES.setdefault(file, _StateTable(file))
        self._table.use()

    def ahead(self, name: str) -> float:
        return 0.0

    async def change(
        self,
        kind: type[State],
        name: str,
        now: float,
        step: Callable[[State, float], Result],
        *,
        patience: float | None = None,
    ) -> Result:
        if not self.process:
            raise RuntimeError("the states are not open")
        try:
            connection = await self._begun(self._patience if patience is None else patience)
            try:
                known = self._settled(connection, kind, name, now)
                result = step(known, now)
                connection.execute(
                    "INSERT OR REPLACE INTO hosts VALUES (?, ?)", (name, msgspec.json.encode(known))
                )
                connection.execute("COMMIT")
                return result
            finally:
                # A step that has raised changes nothing.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise QueueError(
                f"{self._table.file}, in which harvests of this machine share limits and maps, cannot be read"
                f" or written ({error}); nothing was lost; make it readable and writable, then run again"
            ) from error

    def close(self) -> None:
        table, self._table = self._table, _StateTable(None)
        table.users -= 1
        if table.users <= 0:
            table.close()
            _TABLES.pop(table.file, None)
        if self._locks is not None:
            self._locks.drop(self.process)
            self._locks = None
        self.process = ""

    async def _begun(self, patience: float) -> sqlite3.Connection:
        """Begins a transaction, and returns its connection. The event loop goes on while another process
        writes. Raises QueueError when patience ends."""
        end = time.monotonic() + patience
        while True:
            try:
                connection = self._table.connection
                connection.execute("BEGIN EXCLUSIVE")
                connection.execute(_TABLE)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() > end:
                    raise QueueError(
                        f"another process holds {self._table.file} for too long, it may have been stopped; no"
                        " request was lost; let it go on or end it, then run again"
                    ) from None
                await asyncio.sleep(_MOMENT)
            except sqlite3.DatabaseError as error:
                _say_unreadable(self._table.file, error)
                self._table.close()
                # Another process may have deleted it first.
                self._table.file.unlink(missing_ok=True)
            else:
                return connection

    def _settled(self, connection: sqlite3.Connection, kind: type[State], name: str, now: float) -> State:
        row = connection.execute("SELECT state FROM hosts WHERE name = ?", (name,)).fetchone()
        known = decoded(kind, row[0] if row else b"", self._table.file)
        others = [one for one in known.heard if one != self.process]
        locks = self._locks
        known.settle(now, [one for one in others if locks and not locks.is_taken(one)])
        return known


def decoded(kind: type[State], content: bytes, place: object) -> State:
    """Returns the state that was kept at a place, or a new one if nothing was kept or it cannot be read."""
    if content:
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _say_unreadable(place, error)
    return kind()


def _inode_of(file: Path) -> int:
    try:
        return file.stat().st_ino
    except OSError:
        return 0


def _connected(file: Path | str) -> sqlite3.Connection:
    # isolation_level=None: sqlite3 begins no transactions by itself. timeout=0: `_begun` asks again.
    connection = sqlite3.connect(file, timeout=0, isolation_level=None)
    # A journal of another kind than PERSIST would be made and deleted in each step, or lost by a kill.
    connection.executescript("PRAGMA journal_mode = PERSIST; PRAGMA synchronous = OFF")
    return connection


def _say_unreadable(place: object, error: Exception) -> None:
    _logger.warning("%s cannot be read (%s); it is begun anew, and no request is lost", place, error)
