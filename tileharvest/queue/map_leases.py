"""Map leases: how workers share the maps, on one machine or on any number of them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from tileharvest.politeness.lock import Lock
from tileharvest.queue.port import SILENT
from tileharvest.queue.sqlite.queue import file_stem, queue_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MS: Final = 1000
_NOBODY: Final = b"nobody"
"""The holder of a map that is left alone for a while."""


class LocalMapLeases:
    """Which worker of one machine is at which map, by locks of the system, which end with their process.

    Guarantee: if several workers ask for a map that nobody is at, one of them gets it. The lease lasts until
    it is released, or until its worker is gone: at once on one machine, and over Redis when it was silent for
    `SILENT` seconds. A lease keeps nobody from harvesting a map without one: it only spreads the work. All
    methods raise QueueError.

    A map counts as leased here, too, if another process works on its queue without a lease.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the queues."""
        self._folder = folder
        self._held: dict[str, Lock] = {}

    async def open(self) -> None:
        """Becomes a worker."""

    async def acquire(self, names: Sequence[str]) -> str | None:
        """Leases the first of these maps that nobody is at, and returns it, or None if there is none."""
        for name in names:
            lock = Lock(self._folder, f"map {name}")
            if name not in self._held and not Lock(self._folder, file_stem(name)).is_taken():
                with queue_errors(f"{self._folder}"):
                    is_free = lock.take()
                if is_free:
                    self._held[name] = lock
                    return name
        return None

    async def extend(self) -> None:
        """Lets all leases of this worker last. Call it several times within `SILENT` seconds."""

    async def release(self, name: str, pause: float = 0.0) -> None:
        """Ends the lease of a map. Over Redis no worker gets the map before the pause, in seconds, is over.
        Here the worker itself must leave it alone."""
        if name in self._held:
            self._held.pop(name).drop()

    async def close(self) -> None:
        """Releases all leases. Closing twice is harmless."""
        for name in list(self._held):
            await self.release(name)


class RedisMapLeases:
    """The same for all workers that share a Redis: `SET NX PX` for each map. Any number of workers may join
    the one that has a map's lease, because a queue in Redis has any number of workers."""

    def __init__(self, link: Any, silent: float = SILENT) -> None:
        """`link` is a `RedisLink` that is not open."""
        self._link = link
        self._silent = int(silent * _MS)
        self._worker = secrets.token_hex(8).encode()
        self._held: set[str] = set()

    async def open(self) -> None:
        await self._link.open()

    async def acquire(self, names: Sequence[str]) -> str | None:
        for name in names:
            if name not in self._held and await self._take(name):
                self._held.add(name)
                return name
        return None

    async def taken(self, names: Sequence[str]) -> Sequence[str]:
        """Returns the maps among these that other workers are at and that this worker may join, in order."""
        holders = [await self._ask("get", _key(name)) for name in names]
        free = (None, self._worker, _NOBODY)
        return [name for name, holder in zip(names, holders, strict=True) if holder not in free]

    async def extend(self) -> None:
        for name in list(self._held):
            # A lease that was lost by silence is taken again, unless another worker has it by now.
            await self._take(name)

    async def release(self, name: str, pause: float = 0.0) -> None:
        self._held.discard(name)
        if await self._ask("get", _key(name)) != self._worker:
            return
        if pause > 0:
            await self._ask("set", _key(name), _NOBODY, px=max(1, int(pause * _MS)))
        else:
            await self._ask("delete", _key(name))

    async def close(self) -> None:
        try:
            for name in list(self._held):
                await self.release(name)
        finally:
            await self._link.close()

    async def _take(self, name: str) -> bool:
        """Takes or extends the lease of a map. Returns whether this worker has it then."""
        if await self._ask("set", _key(name), self._worker, nx=True, px=self._silent):
            return True
        is_own = await self._ask("get", _key(name)) == self._worker
        return is_own and bool(await self._ask("pexpire", _key(name), self._silent))

    async def _ask(self, command: str, *words: Any, **options: Any) -> Any:
        return await self._link.attempt(lambda client: getattr(client, command)(*words, **options))


def _key(name: str) -> str:
    return f"tileharvest:map lease:{{{name}}}"
