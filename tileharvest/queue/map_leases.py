"""Map leases: which worker is at which map. The port, and the leases of one machine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from tileharvest.errors import QueueError
from tileharvest.queue.locks import locks_in
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tileharvest.queue.port import Worker

_KEPT: Final = 4096
"""Bytes that are read of a lease's file. It needs some fifty."""


@dataclass(frozen=True, slots=True)
class MapLease:
    """A map that a worker is at."""

    map: str
    failures: int
    """How often its harvest has failed in a row before, at whatever worker."""


class MapLeases(Protocol):
    """Who is at which map, so that workers that start and end at any time share the maps among them.

    Guarantee: of all workers that ask for a map that nobody is at, one gets it. The lease holds until it is
    released or failed, or until its worker was killed, which the others know at once on one machine, and
    after 30 seconds of silence elsewhere. A map that failed is nobody's until its time has come.

    A lease is no lock: whoever harvests a map without one is not kept from it. It only spreads the work, as
    the map's queue stands any number of workers. Times are in seconds since 1970. Raises QueueError.
    """

    async def open(self) -> None:
        """Become a worker. Nobody is told of it before it has a lease."""
        ...

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        """Returns a lease on the first of these maps that nobody is at, and that may be tried by now. Returns
        None where there is none."""
        ...

    async def taken(self, names: Sequence[str], now: float) -> Sequence[str]:
        """Returns those of these maps that other workers are at and that this one may join, in order."""
        ...

    async def join(self, name: str, now: float) -> MapLease | None:
        """Come to a map that others are at. Returns None where nobody is any more, or none can come."""
        ...

    async def extend(self, now: float) -> None:
        """Give a sign of life: let all leases of this worker last."""
        ...

    async def release(self, name: str, now: float) -> None:
        """The map's harvest is done, or this worker leaves it. It may be acquired again at once."""
        ...

    async def fail(self, name: str, again: float, now: float) -> None:
        """The map's harvest has failed. It is not to be acquired before `again`."""
        ...

    async def notes(self, name: str, segment: str) -> Mapping[str, str]:
        """Returns the remarks of the segment in a map's queue, which is not opened for that. Reads only."""
        ...

    async def workers(self, name: str) -> tuple[Sequence[Worker], float]:
        """Returns the workers of a map's queue, and the present time by its clock. Reads only."""
        ...

    async def close(self) -> None:
        """Release all. Closing twice is harmless."""
        ...


class LocalMapLeases:
    """`MapLeases` of the processes of one machine: each holds a lock for each of its maps.

    The system lets go of a lock when its process ends, however it ends. A map that has failed has a file that
    says how often. What cannot be read in it is taken for nothing: a map is then tried too early. A map
    whose queue another process works on without a lease counts as leased. Such a queue has one worker, so
    nobody can join it.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the queues. Touches nothing yet."""
        self._folder = folder
        self._locks = locks_in(folder)
        self._held: set[str] = set()

    async def open(self) -> None:
        """Makes the folder if there is none."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._error(error) from error

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        for name in names:
            if name in self._held or self._locks.is_taken(name):
                continue
            failures = self._lock(name, now)
            if failures is not None:
                return MapLease(name, failures)
        return None

    async def taken(self, names: Sequence[str], now: float) -> Sequence[str]:
        return ()

    async def join(self, name: str, now: float) -> MapLease | None:
        return None

    async def extend(self, now: float) -> None:
        """Locks last by themselves."""

    async def release(self, name: str, now: float) -> None:
        try:
            self._file_of(name).unlink(missing_ok=True)
        except OSError as error:
            raise self._error(error) from error
        finally:
            self._let_go(name)

    async def fail(self, name: str, again: float, now: float) -> None:
        failures, _ = self._read(name)
        try:
            file = self._file_of(name)
            # Beside it first: where that fails, the number so far is kept. Who writes has the map's lock.
            new = file.with_name(f"{file.name}.new")
            new.write_bytes(msgspec.json.encode((failures + 1, again)))
            new.replace(file)
        except OSError as error:
            raise self._error(error) from error
        finally:
            self._let_go(name)

    async def notes(self, name: str, segment: str) -> Mapping[str, str]:
        """There are none where there is no queue, and it gets none."""
        file = self._folder / f"{name}.sqlite"
        return await asyncio.to_thread(SqliteQueue(file).glance, segment) if file.is_file() else {}

    async def workers(self, name: str) -> tuple[Sequence[Worker], float]:
        """None are told: nobody shares such a queue."""
        return (), 0.0

    async def close(self) -> None:
        for name in list(self._held):
            self._let_go(name)

    def _lock(self, name: str, now: float) -> int | None:
        """Returns how often the map has failed, or None where it is another's or not to be tried yet."""
        try:
            if not self._locks.take(_lock_of(name)):
                return None
        except OSError as error:
            raise self._error(error) from error
        failures, again = self._read(name)
        if again <= now:
            self._held.add(name)
            return failures
        self._locks.drop(_lock_of(name))
        return None

    def _let_go(self, name: str) -> None:
        self._held.remove(name)
        self._locks.drop(_lock_of(name))

    def _read(self, name: str) -> tuple[int, float]:
        """Returns how often the map has failed, and until when it is left alone."""
        try:
            with self._file_of(name).open("rb") as file:
                return msgspec.json.decode(file.read(_KEPT), type=tuple[int, float])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 0, 0.0

    def _file_of(self, name: str) -> Path:
        return self._folder / f"{name}.lease"

    def _error(self, error: OSError) -> QueueError:
        return QueueError(
            f"{self._folder}, in which workers of this machine share their maps, cannot be written"
            f" ({error.strerror}); nothing was lost; make it writable, or name another data folder"
        )


def _lock_of(name: str) -> str:
    """Returns the name of the lock. No map is called so, and each map's name is that of its worker's lock."""
    return f"lease of {name}"
