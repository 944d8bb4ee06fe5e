"""Map leases: how workers share the maps, on one machine or on any number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tileharvest.politeness.lock import Lock
from tileharvest.queue.sqlite.queue import file_stem, queue_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_LONGEST: Final = 86_400.0
"""Seconds: longer than any time for which a map is left alone, unless the clock was set back."""


@dataclass(frozen=True, slots=True)
class MapLease:
    """A map that a worker is at."""

    map: str
    failures: int
    """How often in a row its harvest has failed before, at any worker."""


class MapLeases(Protocol):
    """Which worker is at which map. Workers that start and end at any time share the maps by this.

    Guarantee: if several workers ask for a map that nobody is at, one of them gets it. The lease lasts until
    it is released, or until its worker is gone: at once on one machine, and over Redis when it was silent for
    `SILENT` seconds. A map that has failed is left alone until its time has come. A lease keeps nobody from
    harvesting a map without one: it only spreads the work. Times are in seconds since 1970. All methods raise
    QueueError.
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
    """`MapLeases` of one machine, as locks of the system, which end with their process. A map counts as
    leased, too, if another process works on its queue without a lease; nobody can join it, because such a
    queue has one worker. Each process knows only what has failed at itself."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the queues."""
        self._folder = folder
        self._held: dict[str, Lock] = {}
        self._failed: dict[str, tuple[int, float]] = {}
        """By map: how often in a row it has failed, and before when it is left alone."""

    async def open(self) -> None:
        pass

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        for name in names:
            failures, again = self._failed.get(name, (0, now))
            lock = Lock(self._folder, f"map {name}")
            is_left_alone = 0 < again - now < _LONGEST
            is_worked_on = Lock(self._folder, file_stem(name)).is_taken()
            if name not in self._held and not is_left_alone and not is_worked_on:
                with queue_errors(f"{self._folder}"):
                    is_free = lock.take()
                if is_free:
                    self._held[name] = lock
                    return MapLease(name, failures)
        return None

    async def taken(self, names: Sequence[str], now: float) -> Sequence[str]:
        return ()

    async def extend(self, now: float) -> None:
        pass

    async def release(self, name: str, now: float) -> None:
        if name in self._held:
            self._held.pop(name).drop()
            self._failed.pop(name, None)

    async def fail(self, name: str, again: float, now: float) -> None:
        if name in self._held:
            self._held.pop(name).drop()
            self._failed[name] = self._failed.get(name, (0, now))[0] + 1, again

    async def close(self, now: float) -> None:
        for name in list(self._held):
            await self.release(name, now)
