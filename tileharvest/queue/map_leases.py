"""Map leases: which worker is at which map. The port, and the leases of one machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from tileharvest.errors import QueueError
from tileharvest.queue.locks import locks_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_KEPT: Final = 4096
"""The most bytes that are read of a lease's file, which has some fifty."""

_FORGOTTEN: Final = 24 * 3600
"""Seconds after which failures are forgotten if nobody has tried the map again."""


class Failures(msgspec.Struct):
    """The failures of a map's harvest in a row, and what follows from them for its lease. Pure."""

    failures: int = 0
    again: float = 0.0
    """The time until which the map is left alone."""

    def may_be_tried(self, now: float) -> bool:
        """Returns whether a worker may lease the map if nobody is at it."""
        return self.again <= now

    def is_forgotten(self, now: float) -> bool:
        """Returns whether these failures count no more, because they were too long ago."""
        return self.again + _FORGOTTEN <= now

    def fail(self, again: float) -> None:
        """Counts one more failure. The map is left alone until `again`."""
        self.failures, self.again = self.failures + 1, again


@dataclass(frozen=True, slots=True)
class MapLease:
    """A map that a worker is at."""

    map: str
    failures: int
    """How often in a row its harvest has failed before, at any worker."""


class MapLeases(Protocol):
    """Which worker is at which map. Workers that start and end at any time share the maps by this.

    Guarantee: if several workers ask for a map that nobody is at, one of them gets it. The lease holds until
    it is released or failed, or until its worker is killed. The others know of a kill at once on one machine,
    and after 30 seconds of silence elsewhere. Nobody gets a map that has failed before its time has come.

    A lease is no lock: it keeps nobody from harvesting a map without one. It only spreads the work, because
    the queue of a map works with any number of workers. Times are in seconds since 1970. All methods raise
    QueueError.
    """

    async def open(self) -> None:
        """Becomes a worker. The others hear of it when it has its first lease."""
        ...

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        """Returns a lease on the first of these maps that nobody is at and that may be tried now, or None if
        there is no such map."""
        ...

    async def taken(self, names: Sequence[str], now: float) -> Sequence[str]:
        """Returns the maps among these that other workers are at and that this worker may join, in order."""
        ...

    async def join(self, name: str, now: float) -> MapLease | None:
        """Joins the others at a map, and returns the lease. Returns None if nobody is at the map any more, or
        if nobody can join."""
        ...

    async def extend(self, now: float) -> None:
        """Gives a sign of life, which lets all leases of this worker last."""
        ...

    async def release(self, name: str, now: float) -> None:
        """Ends the lease of a map whose harvest is done, or which this worker leaves. The map may be acquired
        again at once."""
        ...

    async def fail(self, name: str, again: float, now: float) -> None:
        """Ends the lease of a map whose harvest has failed. The map cannot be acquired before `again`."""
        ...

    async def close(self) -> None:
        """Releases all leases. Closing twice is harmless."""
        ...


class LocalMapLeases:
    """`MapLeases` of the processes of one machine. A process holds a lock for each of its maps.

    The system releases a lock when its process ends, however it ends. A map that has failed has a file that
    says how often, and until when it is left alone. A file that cannot be read counts as no file: the map is
    then tried too early. A map counts as leased, too, if another process works on its queue without a lease.
    Such a queue has one worker at most, so nobody can join.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is the folder of the queues. Touches nothing yet."""
        self._folder = folder
        self._locks = locks_in(folder)
        self._held: dict[str, Failures] = {}
        """The maps of this worker, each with its failures before."""

    async def open(self) -> None:
        """Makes the folder if it does not exist."""
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
        failed = self._held[name]
        failed.fail(again)
        try:
            file = self._file_of(name)
            # A new file first: if writing fails, the old number is kept. Only the map's lease writes it.
            new = file.with_name(f"{file.name}.new")
            new.write_bytes(msgspec.json.encode((failed.failures, failed.again)))
            new.replace(file)
        except OSError as error:
            raise self._error(error) from error
        finally:
            self._let_go(name)

    async def close(self) -> None:
        for name in list(self._held):
            self._let_go(name)

    def _lock(self, name: str, now: float) -> int | None:
        """Locks the map, and returns how often it has failed. Returns None, and keeps no lock, if another
        worker has the map or if it is not to be tried yet."""
        try:
            if not self._locks.take(_lock_of(name)):
                return None
        except OSError as error:
            raise self._error(error) from error
        failed = self._read(name, now)
        if failed.may_be_tried(now):
            self._held[name] = failed
            return failed.failures
        self._locks.drop(_lock_of(name))
        return None

    def _let_go(self, name: str) -> None:
        del self._held[name]
        self._locks.drop(_lock_of(name))

    def _read(self, name: str, now: float) -> Failures:
        """Returns the failures of the map that count by now."""
        try:
            with self._file_of(name).open("rb") as file:
                failed = Failures(*msgspec.json.decode(file.read(_KEPT), type=tuple[int, float]))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Failures()
        return Failures() if failed.is_forgotten(now) else failed

    def _file_of(self, name: str) -> Path:
        return self._folder / f"{name}.lease"

    def _error(self, error: OSError) -> QueueError:
        return QueueError(
            f"{self._folder}, in which workers of this machine share their maps, cannot be written"
            f" ({error.strerror}); nothing was lost; make it writable, or name another data folder"
        )


def _lock_of(name: str) -> str:
    """Returns the name of the lock of a map's lease. No map has such a name: the lock of a queue's worker is
    named by its map."""
    return f"lease of {name}"
