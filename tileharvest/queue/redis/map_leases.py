"""The map leases of all workers that share a Redis: one key for all maps."""

from __future__ import annotations

import os
import secrets
import socket
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from tileharvest.queue.map_leases import Failures, MapLease
from tileharvest.queue.port import SILENT
from tileharvest.queue.redis.calls import swap
from tileharvest.queue.redis.link import RedisLink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Result = TypeVar("Result")

KEY: Final = b"tileharvest:map-leases"

_REMEMBERED: Final = 7 * 24 * 3600
"""Seconds for which Redis keeps the key after the last sign of life."""

_NOTHING: Final = b"\0"
"""A value that the key never holds. To swap it for itself changes nothing, and returns what the key holds."""


class _Map(Failures):
    """A map that workers are at, or that has failed."""

    workers: dict[str, float] = msgspec.field(default_factory=dict)
    """The workers that are at the map, each with the time until which its lease lasts."""


class MapTable(msgspec.Struct):
    """All maps that a worker is at, or that have failed. Pure: the time is an argument."""

    maps: dict[str, _Map] = msgspec.field(default_factory=dict)
    writer: str = ""
    """A random text of each writer, by which a call whose answer was lost recognises its own state."""

    def settle(self, now: float) -> None:
        """Forgets workers whose leases have ended, and failures of long ago."""
        for name, one in list(self.maps.items()):
            one.workers = {worker: until for worker, until in one.workers.items() if until > now}
            if not one.workers and one.is_forgotten(now):
                del self.maps[name]

    def acquire(self, worker: str, names: Sequence[str], now: float, until: float) -> MapLease | None:
        """Leases the first free map to the worker, or returns None if none is free."""
        for name in names:
            found = self.maps.get(name, _Map())
            if not found.workers and found.may_be_tried(now):
                return self._come(worker, name, found, until)
        return None

    def join(self, worker: str, name: str, until: float) -> MapLease | None:
        """Leases a map to the worker that others are at, or returns None if nobody is."""
        found = self.maps.get(name, _Map())
        return self._come(worker, name, found, until) if found.workers else None

    def is_taken(self, name: str) -> bool:
        return name in self.maps and bool(self.maps[name].workers)

    def extend(self, worker: str, names: Sequence[str], until: float) -> None:
        """Lets the worker's leases last, also those that it has lost by silence, because it is at the
        maps."""
        for name in names:
            self._come(worker, name, self.maps.get(name, _Map()), until)

    def leave(self, worker: str, names: Sequence[str], again: float | None = None) -> None:
        """Ends the worker's leases on these maps. If `again` is a time, their harvests have failed; otherwise
        they are done. A failure does not count if other workers go on."""
        for name in names:
            found = self.maps.get(name, _Map())
            found.workers.pop(worker, None)
            if found.workers:
                continue
            if again is None:
                self.maps.pop(name, None)
            else:
                found.fail(again)

    def _come(self, worker: str, name: str, found: _Map, until: float) -> MapLease:
        found.workers[worker] = until
        self.maps[name] = found
        return MapLease(name, found.failures)


class RedisMapLeases:
    """`MapLeases` for workers on any number of machines.

    Redis' clock counts. All leases are one small value in Redis. A step is made here on that value, and is
    kept if no other worker was faster. This mostly takes two calls. A sign of life takes as many, at whatever
    number of maps.
    """

    def __init__(
        self, parameters: Mapping[str, Any], *, silent: float = SILENT, server_clock: bool = True
    ) -> None:
        """`parameters` are those of `connection.connect`. A worker that was not heard of for `silent` seconds
        is gone. With `server_clock=False`, for tests, the times that callers give count as Redis' time.
        Touches nothing yet."""
        self._link = RedisLink(parameters, "the list of map leases", silent)
        self._silent = silent
        self._server_clock = server_clock
        self._held: set[str] = set()
        """The maps on which Redis may have a lease of this worker."""
        self._left: set[str] = set()
        """The maps that this worker has left. It gives no sign of life for them, so their leases end even if
        Redis never hears of it."""
        self.worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"

    async def open(self) -> None:
        """Connects to Redis. Raises ConfigurationError for settings that cannot be used."""
        await self._link.open()

    async def acquire(self, names: Sequence[str], now: float) -> MapLease | None:
        if not names:
            return None

        def step(table: MapTable, now: float) -> MapLease | None:
            return table.acquire(self.worker, names, now, now + self._silent)

        return self._had(await self._change(now, step))

    async def taken(self, names: Sequence[str], now: float) -> Sequence[str]:
        """Returns the maps that others are at. Only reads, in one call."""
        _, found, moment = await self._swap(_NOTHING, _NOTHING)
        table = _decoded(found)
        table.settle(moment if self._server_clock else now)
        return [name for name in names if name not in self._held and table.is_taken(name)]

    async def join(self, name: str, now: float) -> MapLease | None:
        def step(table: MapTable, now: float) -> MapLease | None:
            return table.join(self.worker, name, now + self._silent)

        return self._had(await self._change(now, step))

    async def extend(self, now: float) -> None:
        """Gives a sign of life. Makes no call if this worker is at no map."""

        def step(table: MapTable, now: float) -> None:
            # Looked up in each attempt, because a map may have been left since the last one.
            table.extend(self.worker, sorted(self._held - self._left), now + self._silent)

        if self._held - self._left:
            await self._change(now, step)

    async def release(self, name: str, now: float) -> None:
        self._left.add(name)
        await self._change(now, lambda table, now: table.leave(self.worker, [name]))
        # Only now: `close` leaves the maps of calls that were cut off.
        self._held.discard(name)

    async def fail(self, name: str, again: float, now: float) -> None:
        """Ends a lease with a failure. Only the seconds from `now` to `again` count, as clocks may differ."""
        self._left.add(name)
        await self._change(
            now, lambda table, its_now: table.leave(self.worker, [name], its_now + again - now)
        )
        self._held.discard(name)

    async def close(self) -> None:
        held, self._held = sorted(self._held), set()
        try:
            if held:
                await self._change(0.0, lambda table, now: table.leave(self.worker, held), patience=0.0)
        finally:
            await self._link.close()

    def _had(self, lease: MapLease | None) -> MapLease | None:
        if lease is not None:
            self._held.add(lease.map)
            self._left.discard(lease.map)
        return lease

    async def _change(
        self, now: float, step: Callable[[MapTable, float], Result], patience: float | None = None
    ) -> Result:
        """Makes the step on what Redis has, and returns its result. The step may be made more than once, so
        it must change nothing but the table."""
        _, found, moment = await self._swap(_NOTHING, _NOTHING, patience)
        while True:
            table, moment = _decoded(found), moment if self._server_clock else now
            table.settle(moment)
            result = step(table, moment)
            table.writer = secrets.token_hex(4)
            is_kept, found, moment = await self._swap(found, msgspec.json.encode(table), patience)
            if is_kept:
                return result

    async def _swap(
        self, before: bytes, after: bytes, patience: float | None = None
    ) -> tuple[bool, bytes, float]:
        """Returns whether `after` is kept in place of `before`, the value that there is now, and Redis'
        time."""
        return await self._link.attempt(
            lambda client: swap(client, KEY, before, after, _REMEMBERED), patience
        )


def _decoded(content: bytes) -> MapTable:
    """Returns the table, or an empty one if the content cannot be read: it only spreads the work."""
    try:
        return msgspec.json.decode(content, type=MapTable) if content else MapTable()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MapTable()
