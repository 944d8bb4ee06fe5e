"""Map leases in Redis: `SET NX PX` for each map."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from tileharvest.queue.port import SILENT
from tileharvest.queue.redis.link import RedisLink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MS: Final = 1000
_NOBODY: Final = b"nobody"
"""The holder of a map that is left alone for a while."""


class RedisMapLeases:
    """The same as `LocalMapLeases`, for all workers that share a Redis. Any number of workers may join the
    one that has a map's lease: a queue in Redis has any number of workers."""

    def __init__(
        self, parameters: Mapping[str, Any], *, silent: float = SILENT, patience: float = 5.0
    ) -> None:
        """Touches nothing yet. `parameters` are those of `connect`."""
        self._link = RedisLink(parameters, "the list of map leases", patience)
        self._silent = silent
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
        holders = [await self._ask("get", _key(name)) for name in names]
        free = (None, self._worker, _NOBODY)
        return [name for name, holder in zip(names, holders, strict=True) if holder not in free]

    async def extend(self) -> None:
        for name in list(self._held):
            # A lease that was lost by silence is taken again, unless another worker has it by now.
            await self._take(name)

    async def release(self, name: str, pause: float = 0.0) -> None:
        self._held.discard(name)
        if not await self._has(name):
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

    async def _has(self, name: str) -> bool:
        return bool(await self._ask("get", _key(name)) == self._worker)

    async def _take(self, name: str) -> bool:
        """Takes or extends the lease of a map. Returns whether this worker has it then."""
        last = int(self._silent * _MS)
        if await self._ask("set", _key(name), self._worker, nx=True, px=last):
            return True
        return await self._has(name) and bool(await self._ask("pexpire", _key(name), last))

    async def _ask(self, command: str, *words: Any, **options: Any) -> Any:
        return await self._link.attempt(lambda client: getattr(client, command)(*words, **options))


def _key(name: str) -> str:
    return f"tileharvest:map lease:{{{name}}}"
