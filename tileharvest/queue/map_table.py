"""The table of map leases: which worker is at which map, and which maps have failed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_FORGOTTEN: Final = 24 * 3600
"""Seconds after which failures are forgotten if nobody has tried the map again. No pause after a failure is
as long: one that seems to be is of a clock that was set back."""


@dataclass(frozen=True, slots=True)
class MapLease:
    """A map that a worker is at."""

    map: str
    failures: int
    """How often in a row its harvest has failed before, at any worker."""


class _Map(msgspec.Struct):
    """A map that workers are at, or whose harvest has failed."""

    workers: list[str] = []
    failures: int = 0
    """The number of failures in a row."""
    again: float = 0.0
    """The time until which the map is left alone if nobody is at it."""


class MapTable(msgspec.Struct):
    """All maps that workers are at, or that have failed. The time is an argument.

    A step calls `settle` first, and then other methods. Its changes are kept together or not at all.
    """

    maps: dict[str, _Map] = {}
    heard: dict[str, float] = {}
    """The workers, each with the time when it was last heard of."""
    writer: str = ""
    """A random text of the last step that was kept, which tells its state from all others."""

    def settle(self, now: float, ended: Collection[str]) -> None:
        """Forgets the workers that have `ended`, and failures of long ago or of a clock that was set back."""
        for worker in ended:
            self.part(worker)
        for name, one in list(self.maps.items()):
            if not one.workers and abs(now - one.again) >= _FORGOTTEN:
                del self.maps[name]

    def seen_by_others(self, worker: str, every: float) -> bytes:
        """Returns what the other workers can see of this table, as a text to compare with another one. The
        time when this worker was last heard of is rounded down to a multiple of `every` seconds."""
        heard = {one: at // every if one == worker else at for one, at in self.heard.items()}
        return msgspec.json.encode((self.maps, heard))

    def tell(self, worker: str, names: Collection[str], now: float) -> None:
        """Notes that the worker is alive, and that it is at these maps and at no others."""
        self.heard[worker] = now
        for name, one in list(self.maps.items()):
            if worker in one.workers and name not in names:
                one.workers.remove(worker)
                if not one.workers and not one.failures:
                    del self.maps[name]
        for name in names:
            self._come(worker, name)

    def part(self, worker: str) -> None:
        """Removes a worker that has ended. This is no failure of its maps."""
        self.tell(worker, (), 0.0)
        del self.heard[worker]

    def acquire(self, worker: str, names: Iterable[str], now: float) -> MapLease | None:
        """Leases the first map to the worker that nobody is at and that may be tried now. Returns None if
        there is none."""
        for name in names:
            found = self.maps.get(name)
            if found is None or (not found.workers and found.again <= now):
                return self._come(worker, name)
        return None

    def join(self, worker: str, name: str) -> MapLease | None:
        """Leases a map to the worker that others are at. Returns None if nobody is."""
        return self._come(worker, name) if self.is_taken(name) else None

    def is_taken(self, name: str) -> bool:
        """Returns whether any worker is at the map."""
        return name in self.maps and bool(self.maps[name].workers)

    def end(self, worker: str, name: str, again: float | None) -> None:
        """Ends the worker's lease on a map, and notes how the harvest has ended. If `again` is a time, it has
        failed; otherwise it is done. This does not count if other workers go on."""
        found = self.maps.get(name, _Map())
        found.workers = [one for one in found.workers if one != worker]
        if not found.workers:
            self.maps.pop(name, None)
            if again is not None:
                self.maps[name] = _Map([], found.failures + 1, again)

    def _come(self, worker: str, name: str) -> MapLease:
        found = self.maps.setdefault(name, _Map())
        if worker not in found.workers:
            found.workers.append(worker)
        return MapLease(name, found.failures)
