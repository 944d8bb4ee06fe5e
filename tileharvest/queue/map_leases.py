"""Map leases: how workers share the maps, on one machine or on any number of them."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tileharvest.queue.port import SILENT
from tileharvest.queue.sqlite.queue import LOCK_TIMEOUT, queue_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS map_leases (
        map TEXT PRIMARY KEY, worker TEXT NOT NULL, until REAL NOT NULL, failures INTEGER NOT NULL
    ) WITHOUT ROWID"""
_ACQUIRE: Final = """
    INSERT INTO map_leases VALUES (?1, ?2, ?3, 0)
    ON CONFLICT (map) DO UPDATE SET worker = ?2, until = ?3 WHERE until <= ?4 OR until > ?4 + 86400
    RETURNING failures"""
"""No map is left alone for a day: if it says so, the clock was set back since."""
_EXTEND: Final = "UPDATE map_leases SET until = ? WHERE worker = ?"
_RELEASE: Final = "DELETE FROM map_leases WHERE map = ? AND worker = ?"
_FAIL: Final = (
    "UPDATE map_leases SET worker = '', until = ?3, failures = failures + 1 WHERE map = ?1 AND worker = ?2"
)
_TAKEN: Final = "SELECT map FROM map_leases WHERE worker NOT IN ('', ?) AND until > ?"


@dataclass(frozen=True, slots=True)
class MapLease:
    """A map that a worker is at."""

    map: str
    failures: int
    """How often in a row its harvest has failed before, at any worker."""


class MapLeases(Protocol):
    """Which worker is at which map. Workers that start and end at any time share the maps by this.

    Guarantee: if several workers ask for a map that nobody is at, one of them gets it. The lease lasts until
    it is released, or until its worker was silent for `SILENT` seconds. Nobody gets a map that has failed
    before its time has come. A lease keeps nobody from harvesting a map without one: it only spreads the
    work. Times are in seconds since 1970. All methods raise QueueError.
    """

    async def open(self) -> None:
        """Becomes a worker."""
        ...

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        """Returns a lease on the first of these maps that nobody is at and that may be tried now."""
        ...

    async def taken(self, names: Sequence[str], now: float) -> Sequence[str]:
        """Returns the maps among these that other workers are at and that this worker may join, in order."""
        ...

    async def extend(self, now: float) -> None:
        """Lets all leases of this worker last. Call it several times within `SILENT` seconds."""
        ...

    async def release(self, name: str, now: float) -> None:
        """Ends the lease of a map whose harvest is done, or which this worker leaves."""
        ...

    async def fail(self, name: str, again: float, now: float) -> None:
        """Ends the lease of a map whose harvest has failed. The map cannot be acquired before `again`."""
        ...

    async def close(self, now: float) -> None:
        """Releases all leases. Closing twice is harmless."""
        ...


class LocalMapLeases:
    """`MapLeases` of one machine, as rows in a file. A map counts as leased, too, if another process works on
    its queue without a lease; nobody can join it, because such a queue has one worker."""

    def __init__(self, file: Path, is_worked_on: Callable[[str], bool]) -> None:
        self._file = file
        self._is_worked_on = is_worked_on
        self._worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        await asyncio.to_thread(self._connect)

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        return await asyncio.to_thread(self._acquire, names, now)

    async def taken(self, names: Sequence[str], now: float) -> Sequence[str]:
        return ()

    async def extend(self, now: float) -> None:
        await self._do(_EXTEND, now + SILENT, self._worker)

    async def release(self, name: str, now: float) -> None:
        await self._do(_RELEASE, name, self._worker)

    async def fail(self, name: str, again: float, now: float) -> None:
        await self._do(_FAIL, name, self._worker, again)

    async def close(self, now: float) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with queue_errors(f"{self._file}"):
                connection.execute("DELETE FROM map_leases WHERE worker = ?", (self._worker,))
                connection.close()

    async def _do(self, statement: str, *values: object) -> None:
        await asyncio.to_thread(self._rows, statement, *values)

    # From here on in a thread.

    def _connect(self) -> None:
        with queue_errors(f"{self._file}"):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self._file, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute(_TABLE)

    def _rows(self, statement: str, *values: object) -> list[tuple[int]]:
        if self._connection is None:
            raise RuntimeError("the map leases are not open")
        with queue_errors(f"{self._file}"):
            return self._connection.execute(statement, values).fetchall()

    def _acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        for name in names:
            if self._is_worked_on(name):
                continue
            for (failures,) in self._rows(_ACQUIRE, name, self._worker, now + SILENT, now):
                return MapLease(name, failures)
        return None
