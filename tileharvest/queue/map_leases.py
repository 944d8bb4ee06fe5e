"""Map leases: how workers share the maps, on one machine or on any number of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from tileharvest.queue.map_table import MapLease, MapTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileharvest.queue.locks import Locks
    from tileharvest.queue.redis.link import RedisLink
    from tileharvest.queue.shared_states import SharedStates

    Result = TypeVar("Result")

NAME: Final = "/map leases"
"""The name of the state. No host has such a name, because a slash ends the host of an address. A redirect may
lead to a host whose name has a space."""

GRACE: Final = 1.0
"""Seconds for which a worker that ends waits for steps that are under way. They take milliseconds, unless
Redis is away."""


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
        """Becomes a worker."""
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
        await self._end(name, now, None)

    async def fail(self, name: str, again: float, now: float) -> None:
        """Ends the lease of a map whose harvest has failed. The map cannot be acquired before `again`. Only
        the seconds from `now` until then count, as clocks may differ."""
        await self._end(name, now, again - now)

    async def close(self, now: float) -> None:
        """Releases all leases. Waits at most `GRACE` seconds for a Redis that is away. Closing twice is
        harmless."""
        self._held.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE), self._turn:
                pass
        try:
            if process := self._states.process:
                await self._states.change(
                    MapTable, NAME, now, lambda table, now: table.part(process), patience=0.0
                )
        finally:
            self._states.close()
            if self._link is not None:
                await self._link.close()

    async def _end(self, name: str, now: float, pause: float | None) -> None:
        """Ends a lease. After a failure the map is left alone for `pause` seconds; None says that it is done.

        Until then the other steps of this worker keep the lease: else another worker might acquire the map
        before it is known to have failed."""

        def step(table: MapTable, worker: str, now: float) -> None:
            table.end(worker, name, None if pause is None else now + pause)

        try:
            await self._change(now, step)
        finally:
            self._held.discard(name)

    async def _change(self, now: float, step: Callable[[MapTable, str, float], Result]) -> Result:
        """Makes a step on the table, after telling it at which maps this worker is, and returns its result. A
        lease that is the result is held from then on. So the table never keeps a lease for long of which this
        worker knows nothing because the call was cut off."""

        def told(table: MapTable, now: float) -> Result:
            table.tell(self._states.process, self._held, now)
            return step(table, self._states.process, now)

        async with self._turn:
            result = await self._states.change(MapTable, NAME, now, told)
            if isinstance(result, MapLease):
                self._held.add(result.map)
            return result
