"""Map leases: which worker is at which map. The port, and the leases of one machine."""

from __future__ import annotations

import asyncio
import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from tileharvest.errors import QueueError
from tileharvest.queue.sqlite.lock import is_locked
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tileharvest.queue.shared_queue import Worker

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
    """`MapLeases` of the processes of one machine: each holds a lock on a file for each of its maps.

    The system lets go of a lock when its process ends, however it ends. The file stays, and says how often
    the map has failed. What cannot be read in it is taken for nothing: a map is then tried too early. A map
    whose queue another process works on without a lease counts as leased. Such a queue has one worker, so
    nobody can join it.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the queues. Touches nothing yet."""
        self._folder = folder
        self._held: dict[str, int] = {}

    async def open(self) -> None:
        """Makes the folder if there is none."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._error(error) from error

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        for name in names:
            if name in self._held or is_locked(self._folder / f"{name}.sqlite.lock"):
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
        self._let_go(name)

    async def fail(self, name: str, again: float, now: float) -> None:
        failures, _ = _read(self._held[name])
        self._let_go(name, msgspec.json.encode((failures + 1, again)))

    async def notes(self, name: str, segment: str) -> Mapping[str, str]:
        """There are none where there is no queue, and it gets none."""
        file = self._folder / f"{name}.sqlite"
        return await asyncio.to_thread(SqliteQueue(file).glance, segment) if file.is_file() else {}

    async def workers(self, name: str) -> tuple[Sequence[Worker], float]:
        """None are told: nobody shares such a queue."""
        return (), 0.0

    async def close(self) -> None:
        for name in list(self._held):
            os.close(self._held.pop(name))

    def _lock(self, name: str, now: float) -> int | None:
        """Returns how often the map has failed, or None where it is another's or not to be tried yet."""
        try:
            file = os.open(self._folder / f"{name}.lease", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise self._error(error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            failures, again = _read(file)
            if again <= now:
                self._held[name] = file
                return failures
        except BlockingIOError:
            pass
        finally:
            if name not in self._held:
                os.close(file)
        return None

    def _let_go(self, name: str, said: bytes = b"") -> None:
        file = self._held.pop(name)
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, said, 0)
        except OSError as error:
            raise self._error(error) from error
        finally:
            os.close(file)

    def _error(self, error: OSError) -> QueueError:
        return QueueError(
            f"{self._folder}, in which workers of this machine share their maps, cannot be written"
            f" ({error.strerror}); nothing was lost; make it writable, or name another data folder"
        )


def _read(file: int) -> tuple[int, float]:
    """Returns what a lease's file says: how often the map has failed, and until when it is left alone."""
    try:
        return msgspec.json.decode(os.pread(file, _KEPT, 0), type=tuple[int, float])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0, 0.0
