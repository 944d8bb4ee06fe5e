"""The maps that this worker is at, beside other workers that share them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Final

from tileharvest.commands.settings import ask_history
from tileharvest.commands.terminal import first_of, say, write_error
from tileharvest.errors import TileHarvestError
from tileharvest.harvest.due import first_day, leaves_room
from tileharvest.harvest.settings import harvest_for
from tileharvest.history.past import pasts
from tileharvest.maps.settings import described_map
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.orders import Orders
from tileharvest.queue.requests import PUSHED
from tileharvest.queue.settings import lease_seconds, map_leases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.queue.map_leases import MapLease

LOOK: Final = 5.0
"""Seconds between two looks whether others have left a map, and between two signs of life. A worker that was
killed is known to be gone after six of them."""

_JOINED_AT_ONCE: Final = 16
"""Maps of others at which a worker with nothing to do looks, in one look. Each costs a few calls."""

_MOST_NAMED: Final = 10
"""Maps that a line names."""

_FRESH: Final = 1.0
"""Seconds for which it is believed which harvests are complete."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class SharedMaps:
    """Takes maps that nobody is at, and tells the other workers which ones this one is at.

    Where nobody else is left to take, it joins others at a map whose limits leave room that they do not fill.
    Only what asks raises: what cannot be told now is told by this worker's silence.
    """

    def __init__(self, settings: BaseSettings, clock: Callable[[], datetime] = utc_now) -> None:
        """Touches nothing yet."""
        self._settings = settings
        self._clock = clock
        self._leases = map_leases(settings)
        self._signs: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begins to give signs of life. Raises QueueError."""
        await self._leases.open()
        self._signs = asyncio.ensure_future(self._give_signs())

    async def close(self) -> None:
        """Leaves all maps to others. Closing twice is harmless."""
        if self._signs is not None:
            self._signs.cancel()
        with suppress(TileHarvestError):
            await self._leases.close()

    async def take(self, names: Sequence[str]) -> MapLease | None:
        """Returns a lease on one of these maps, the first one that is free. Returns None where there is none.

        Raises TileHarvestError.
        """
        now = self._clock().timestamp()
        lease = await self._leases.acquire(names, now)
        if lease is not None:
            return lease
        for name in (await self.taken(names))[:_JOINED_AT_ONCE]:
            if await self._has_room(name):
                lease = await self._leases.join(name, now)
                if lease is not None:
                    return lease
        return None

    async def taken(self, names: Sequence[str]) -> Sequence[str]:
        """Returns those that other workers share with whoever comes. Raises QueueError."""
        return await self._leases.taken(names, self._clock().timestamp())

    async def orders(self, name: str) -> Orders:
        """Returns what a person has told a map. Raises QueueError."""
        return Orders.read(await self._leases.notes(name, PUSHED))

    async def release(self, name: str) -> None:
        """The map's harvest is done, or left to others."""
        with suppress(TileHarvestError):
            await self._leases.release(name, self._clock().timestamp())

    async def fail(self, name: str, again: datetime) -> None:
        """The map's harvest has failed, and is to be tried again then."""
        with suppress(TileHarvestError):
            await self._leases.fail(name, again.timestamp(), self._clock().timestamp())

    async def _give_signs(self) -> None:
        pause = min(LOOK, lease_seconds(self._settings) / 6)
        while True:
            await asyncio.sleep(pause)
            with suppress(TileHarvestError):
                await self._leases.extend(self._clock().timestamp())

    async def _has_room(self, name: str) -> bool:
        workers, present = await self._leases.workers(name)
        rules = rules_for(self._settings, described_map(self._settings, name))
        gap = rules.gap.at_least(rules.host_gap)
        return leaves_room(
            limit=1 / gap.mean if gap else None,
            concurrency=min(rules.concurrency, rules.host_concurrency or rules.concurrency),
            rates=[one.rate for one in workers],
            since=min((present - one.started for one in workers), default=0.0),
        )


class SharedHarvests:
    """Harvests of several maps that this worker was asked for, and other workers perhaps, too."""

    def __init__(
        self, settings: BaseSettings, arguments: Mapping[str, str], complete: Callable[[Harvest], None]
    ) -> None:
        """`arguments` are those of the spiders. `complete` is called with each harvest that nobody needs to
        begin, as that of its segment is complete."""
        self._settings = settings
        self._arguments = arguments
        self._say_complete = complete
        self._maps = SharedMaps(settings)
        self._releasing: set[asyncio.Task[None]] = set()

    async def free(self, names: Sequence[str]) -> AsyncIterator[str]:
        """Yields the maps that this worker is to harvest, in this order as far as they are free.

        It waits for the maps that others are at, as they may leave them or be killed. Where workers cannot
        share their maps all are yielded: each harvest meets the same error, and says what comes of it.
        """
        left = list(names)
        try:
            await self._maps.open()
            async for name in self._taken(left):
                yield name
        except TileHarvestError as error:
            write_error(str(error))
        for name in left:
            yield name

    def release(self, name: str) -> None:
        """The harvest has ended, or the map is passed over."""
        task = asyncio.ensure_future(self._maps.release(name))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def close(self) -> None:
        """Leaves what this worker has to others, also what it was about to leave."""
        for task in list(self._releasing):
            await cancel(task)
        await self._maps.close()

    async def _taken(self, left: list[str]) -> AsyncIterator[str]:
        """Takes the maps from the list, one after the other."""
        looked, has_said = -inf, False
        while True:
            if (now := asyncio.get_running_loop().time()) - looked >= _FRESH:
                looked = now
                complete = await asyncio.to_thread(complete_harvests, self._settings, self._arguments, left)
                for harvest in complete:
                    left.remove(harvest.description.name)
                    self._say_complete(harvest)
            if not left:
                return
            lease, others = await self._maps.take(left), await self._maps.taken(left)
            # A map that has failed elsewhere is not leased for a while, but a person wants it now.
            name = next((one for one in left if one not in others), None) if lease is None else lease.map
            if name is not None:
                left.remove(name)
                yield name
                continue
            if not has_said:
                say(f"waiting for other workers, who are at {first_of(left, _MOST_NAMED)}")
                has_said = True
            await asyncio.sleep(LOOK)


def complete_harvests(
    settings: BaseSettings, arguments: Mapping[str, str], names: Sequence[str]
) -> list[Harvest]:
    """Returns the harvests of these maps that are complete. One look into the history serves all of them.

    `arguments` are those of the spiders. Raises HistoryError.
    """
    asked = {name: harvest_for(settings, {**arguments, "map": name}) for name in names}
    segments = {name: (one.segment.name, first_day(one.segment)) for name, one in asked.items()}
    known = ask_history(settings, lambda history: pasts(history, segments, ())) or {}
    return [one for name, one in asked.items() if name in known and known[name].is_complete]


def is_once_for_all(settings: BaseSettings, name: str, arguments: Mapping[str, str]) -> bool:
    """Returns whether a harvest of a command, of which this map is one, is to be made once in its segment,
    whoever makes it. It is not where each start asks for everything."""
    if {"dry", "fresh", "stay"} & arguments.keys():
        return False
    return harvest_for(settings, {**arguments, "map": name}).segment.ends is not None
