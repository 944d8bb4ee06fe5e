"""Map leases: which worker is at which map, on one machine or on any number of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from tileharvest.queue.locks import Locks
    from tileharvest.queue.redis.link import RedisLink
    from tileharvest.queue.shared_states import SharedStates

    Result = TypeVar("Result")

NAME: Final = "map leases"
"""The name of the state. No host has such a name, because it has a space."""

_FORGOTTEN: Final = 24 * 3600
"""Seconds after which failures are forgotten if nobody has tried the map again."""


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
    """All maps that workers are at, or that have failed. Pure: the time is an argument.

    A step calls `settle` first, and then other methods. Its changes are kept together or not at all.
    """

    maps: dict[str, _Map] = {}
    heard: dict[str, float] = {}
    """The workers, each with the time when it was last heard of."""
    writer: str = ""
    """A random text of the last step that was kept, which tells its state from all others."""

    def settle(self, now: float, ended: Collection[str]) -> None:
        """Forgets the workers that have `ended`, and failures of long ago."""
        for worker in ended:
            self.part(worker)
        for name, one in list(self.maps.items()):
            if not one.workers and one.again + _FORGOTTEN <= now:
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

    def end(self, name: str, again: float | None) -> None:
        """Notes how the harvest of a map has ended at a worker that is at the map no more. If `again` is a
        time, it has failed; otherwise it is done. This does not count if other workers go on."""
        if not self.is_taken(name):
            failures = self.maps.pop(name, _Map()).failures
            if again is not None:
                self.maps[name] = _Map([], failures + 1, again)

    def _come(self, worker: str, name: str) -> MapLease:
        found = self.maps.setdefault(name, _Map())
        if worker not in found.workers:
            found.workers.append(worker)
        return MapLease(name, found.failures)


class MapLeases:
    """Which worker is at which map. Workers that start and end at any time share the maps by this.

    Guarantee: if several workers ask for a map that nobody is at, one of them gets it. The lease holds until
    it is released or failed, or until its worker is killed. The others know of a kill at once on one machine,
    and after 30 seconds of silence elsewhere. Nobody gets a map that has failed before its time has come. On
    one machine a map counts as leased, too, if another process works on its queue without a lease.

    A lease is no lock: it keeps nobody from harvesting a map without one. It only spreads the work, because
    the queue of a map works with any number of workers. All leases are one small state, and a call is one
    step on it. Times are in seconds since 1970. All methods raise QueueError.
    """

    def __init__(
        self, states: SharedStates, *, link: RedisLink | None = None, queues: Locks | None = None
    ) -> None:
        """`link` is the link of states in Redis, which is opened and closed here. `queues` has the locks of
        queues in files: each queue has one worker at most, so nobody can join. Touches nothing yet."""
        self._states = states
        self._link = link
        self._queues = queues
        self._held: set[str] = set()
        """The maps that this worker is at."""
        self._turn = asyncio.Lock()
        """Held during a step, so that each step knows what the one before has brought."""

    async def open(self) -> None:
        """Becomes a worker. The others hear of it when it has its first lease."""
        if self._link is not None:
            await self._link.open()
        self._states.open()

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        """Returns a lease on the first of these maps that nobody is at and that may be tried now, or None if
        there is no such map."""

        def step(table: MapTable, worker: str, now: float) -> MapLease | None:
            queues = self._queues
            free = (name for name in names if queues is None or not queues.is_taken(name))
            return table.acquire(worker, free, now)

        return await self._change(now, step) if names else None

    async def taken(self, names: Sequence[str], now: float) -> Sequence[str]:
        """Returns the maps among these that other workers are at and that this worker may join, in order."""
        if self._queues is not None:
            return ()

        def step(table: MapTable, worker: str, now: float) -> list[str]:
            return [name for name in names if name not in self._held and table.is_taken(name)]

        return await self._change(now, step)

    async def join(self, name: str, now: float) -> MapLease | None:
        """Joins the others at a map, and returns the lease. Returns None if nobody is at the map any more, or
        if nobody can join."""
        if self._queues is not None:
            return None
        return await self._change(now, lambda table, worker, now: table.join(worker, name))

    async def extend(self, now: float) -> None:
        """Gives a sign of life, which lets all leases of this worker last, also those that it has lost by
        silence."""
        await self._change(now, lambda table, worker, now: None)

    async def release(self, name: str, now: float) -> None:
        """Ends the lease of a map whose harvest is done, or which this worker leaves. The map may be acquired
        again at once."""
        self._held.discard(name)
        await self._change(now, lambda table, worker, now: table.end(name, None))

    async def fail(self, name: str, again: float, now: float) -> None:
        """Ends the lease of a map whose harvest has failed. The map cannot be acquired before `again`. Only
        the seconds from `now` until then count, as clocks may differ."""
        self._held.discard(name)
        left = again - now
        await self._change(now, lambda table, worker, now: table.end(name, now + left))

    async def close(self, now: float) -> None:
        """Releases all leases. Does not wait for a Redis that is away. Closing twice is harmless."""
        self._held.clear()
        try:
            if self._states.process:
                await self._change(now, lambda table, worker, now: table.part(worker), patience=0.0)
        finally:
            self._states.close()
            if self._link is not None:
                await self._link.close()

    async def _change(
        self,
        now: float,
        step: Callable[[MapTable, str, float], Result],
        patience: float | None = None,
    ) -> Result:
        """Makes a step on the table, after telling it at which maps this worker is, and returns its result. A
        lease that is the result is held from then on. So the table never keeps a lease for long of which this
        worker knows nothing because the call was cut off."""

        def told(table: MapTable, now: float) -> Result:
            table.tell(self._states.process, self._held, now)
            return step(table, self._states.process, now)

        async with self._turn:
            result = await self._states.change(MapTable, NAME, now, told, patience=patience)
            if isinstance(result, MapLease):
                self._held.add(result.map)
            return result
