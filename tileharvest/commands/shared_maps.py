"""The maps that this worker takes, when other workers share them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError
from tileharvest.maps.settings import described_map
from tileharvest.queue.cancellation import cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.queue.map_table import MapLease
    from tileharvest.queue.port import Worker

LOOK: Final = 5.0
"""Seconds between two looks for maps that others have left, and between two signs of life. A killed worker
counts as gone after six times as long."""

_JOINED_AT_ONCE: Final = 16
"""The most maps of others that an idle worker looks at in one look."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class SharedMaps:
    """Leases maps for this worker, so that other workers leave them alone.

    If no map is free, the worker joins others at a map without a rate. Methods
    that ask raise TileHarvestError. Methods that only tell raise nothing: if the queue does not hear that a
    map was released, it learns so from this worker's silence.
    """

    def __init__(self, settings: BaseSettings, clock: Callable[[], datetime] = utc_now) -> None:
        """Opens nothing yet."""
        from tileharvest.queue.settings import map_leases

        self._settings = settings
        self._clock = clock
        self._leases = map_leases(settings)
        self._signs: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Opens the leases and begins to give signs of life. Raises QueueError."""
        await self._leases.open()
        self._signs = asyncio.ensure_future(self._give_signs())

    async def close(self) -> None:
        """Releases all maps. May be called twice."""
        if self._signs is not None:
            await cancel(self._signs)
        with suppress(TileHarvestError):
            await self._leases.close(self._clock().timestamp())

    async def take(self, names: Sequence[str]) -> MapLease | None:
        """Returns a lease on the first of these maps that is free or has room, or None if there is none.

        Raises TileHarvestError.
        """
        now = self._clock().timestamp()
        lease = await self._leases.acquire(names, now)
        if lease is not None:
            return lease
        if others := (await self.taken(names))[:_JOINED_AT_ONCE]:
            from tileharvest.queue.settings import workers_of_all

            for name, workers in (await workers_of_all(self._settings, others)).items():
                if self._has_room(name, workers):
                    lease = await self._leases.join(name, now)
                    if lease is not None:
                        return lease
        return None

    async def taken(self, names: Sequence[str]) -> Sequence[str]:
        """Returns those of the maps that other workers hold. Raises QueueError."""
        return await self._leases.taken(names, self._clock().timestamp())

    async def release(self, name: str) -> None:
        """Releases a map whose harvest is done or left to others."""
        with suppress(TileHarvestError):
            await self._leases.release(name, self._clock().timestamp())

    async def fail(self, name: str, again: datetime) -> None:
        """Releases a map whose harvest has failed. No worker takes it before `again`."""
        with suppress(TileHarvestError):
            await self._leases.fail(name, again.timestamp(), self._clock().timestamp())

    async def _give_signs(self) -> None:
        from tileharvest.queue.settings import lease_seconds

        pause = min(LOOK, lease_seconds(self._settings) / 6)
        while True:
            await asyncio.sleep(pause)
            with suppress(TileHarvestError):
                await self._leases.extend(self._clock().timestamp())

    def _has_room(self, name: str, workers: Sequence[Worker]) -> bool:
        from tileharvest.politeness.settings import rules_for

        rules = rules_for(self._settings, described_map(self._settings, name))
        # With a rate, one worker alone keeps the site as busy as it may be.
        if rules.gap.at_least(rules.host_gap):
            return False
        return 0 < len(workers) < min(rules.concurrency, rules.host_concurrency or rules.concurrency)
