"""A queue of one worker that keeps the pace of its map, and of its host together with the maps beside it."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Protocol

from tileharvest.errors import QueueError
from tileharvest.politeness.host import Process, stand, take_starts
from tileharvest.queue.hosts import HostFiles, HostMemory
from tileharvest.queue.pace import Amount, Granted, Worked
from tileharvest.queue.port import Changes, RequestQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from tileharvest.maps.budgets import Budget
    from tileharvest.politeness.pace import Pace
    from tileharvest.queue.hosts import Hosts
    from tileharvest.queue.port import Counts, Exchange, Failure, Lease

_logger = logging.getLogger(__name__)


class LocalQueue(RequestQueue, Protocol):
    """One that has a single worker."""

    async def has_waiting(self) -> bool:
        """Whether something is left that was due at the last exchange. Cheap."""
        ...


class Paced:
    """A `PacedQueue` around a queue that only this worker has.

    Other maps of the same host, in other processes of this machine, are known by their hosts' files. Without
    a pace everything is as the queue inside has it; with one that has no gap, while nobody else asks the
    host, an exchange costs some 30 microseconds more and leases what is wanted. What the queue inside offers
    besides the port, as `discard`, is there too. The purse ends with this object.
    """

    def __init__(
        self,
        queue: LocalQueue,
        hosts_folder: Path | None,
        map_name: str,
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        """Without a folder nothing is known of other processes, and nothing of former ones. `clock` gives
        seconds since 1970, as callers do; `random` numbers from 0 to 1. Touches nothing yet."""
        self._queue = queue
        self._hosts: Hosts = HostMemory() if hosts_folder is None else HostFiles(hosts_folder)
        self._map_name = map_name
        self._clock = clock
        self._random = random
        self._pace: Pace | None = None
        self._own: Process | None = None
        """None while it is not open, or has no pace."""
        self._is_open = False
        self._held_until: float | None = None
        self._purse: Purse | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "_queue":
            # Before `__init__`, as when it is copied: there is nothing to ask yet.
            raise AttributeError(name)
        return getattr(self._queue, name)

    async def open(self, now: float) -> None:
        await self._queue.open(now)
        try:
            self._hosts.open()
            self._is_open = True
            await self._begin(now)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Closing twice is harmless."""
        self._own, self._is_open, self._held_until = None, False, None
        try:
            await self._queue.close()
        finally:
            self._hosts.close()

    async def set_pace(self, pace: Pace) -> None:
        """May be set before the queue is open. Raises ValueError for another host."""
        if self._pace is not None and pace.host != self._pace.host:
            raise ValueError(
                f"'{pace.host}' is not the host of map '{self._map_name}', '{self._pace.host}' is"
            )
        self._pace = pace
        if self._is_open:
            await self._begin(self._clock())

    async def rest(self, host: str, seconds: float) -> float:
        """Raises ValueError for what is no time."""
        if not host or not isfinite(seconds):
            raise ValueError(f"host '{host}' cannot rest for {seconds} s")
        now = self._clock()
        if seconds <= 0:
            return max(0.0, (await self._hosts.look(host, now)).rests_until - now)
        return await self._hosts.change(host, now, lambda known: known.rest(now + seconds)) - now

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Once only for who has claimed it, too. Raises ValueError for what is no time."""
        if not host or not (isfinite(seconds) and seconds > 0):
            raise ValueError(f"a probe of host '{host}' cannot take {seconds} s")
        now = self._clock()
        return await self._hosts.change(host, now, lambda known: known.claim_probe(now, seconds))

    async def open_purse(self, budget: Budget) -> None:
        self._purse = Purse(budget)

    async def grant(self, wanted: Amount, returned: Amount) -> Granted:
        """Everything without a purse."""
        return Granted(self._purse is None or self._purse.grant(wanted, returned))

    async def worked(self, seconds: float) -> Worked:
        return Worked(seconds, is_spent=self._purse is not None and seconds >= self._purse.seconds)

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        pace, own = self._pace, self._own
        if pace is None or own is None:
            return await self._queue.exchange(changes, wanted, now)
        work = partial(stand, own=own, pace=pace, in_flight=changes.in_flight, wanted=wanted, now=now)
        standing = await self._hosts.change(pace.host, now, work)
        answer = await self._queue.exchange(changes, standing.allowed, now)
        leases, next_start = answer.leases, standing.next_start
        if leases and standing.has_gap:
            leases, next_start = await self._started(leases, own, now)
        if wanted > 0:
            is_short = len(leases) < len(answer.leases)
            if len(answer.leases) == standing.allowed < wanted:
                is_short = is_short or await self._queue.has_waiting()
            again = standing.ask_again(next_start, now, has_some=bool(leases))
            self._held_until = again if is_short else None
        # Else nobody was turned away now, but whoever was before is to come again.
        return replace(
            answer,
            leases=leases,
            held_until=self._held_until,
            rests_until=standing.rests_until,
            share=standing.share,
        )

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        return await self._queue.extend(leases, now)

    async def counts(self, now: float) -> Counts:
        return await self._queue.counts(now)

    async def failures(self) -> Sequence[Failure]:
        return await self._queue.failures()

    async def clear_failures(self) -> int:
        return await self._queue.clear_failures()

    def fingerprints(self, segment: str) -> AsyncIterator[Sequence[bytes]]:
        return self._queue.fingerprints(segment)

    async def forget(self, segment: str) -> None:
        await self._queue.forget(segment)

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        return await self._queue.forget_others(kept, current)

    async def note(self, segment: str, key: str, value: str | None = None) -> str | None:
        return await self._queue.note(segment, key, value)

    async def notes(self, segment: str) -> Mapping[str, str]:
        return await self._queue.notes(segment)

    async def _begin(self, now: float) -> None:
        """Let the pace hold, for the others of the host too as far as it is the host's."""
        pace = self._pace
        if pace is None:
            return
        if self._own is None:
            self._own = Process(self._hosts.process, self._map_name, pace.concurrency)
        self._own.concurrency = pace.concurrency
        await self._hosts.change(pace.host, now, lambda known: known.limit(pace))

    async def _started(
        self, leases: Sequence[Lease], own: Process, now: float
    ) -> tuple[Sequence[Lease], float]:
        """The leases, each with its start, and when the next request may start."""
        assert self._pace is not None
        take = partial(
            take_starts, own=own, pace=self._pace, number=len(leases), now=now, random=self._random
        )
        try:
            starts, next_start = await self._hosts.change(self._pace.host, now, take)
        except QueueError as error:
            # What was told has been done and is not to be told again, so this exchange must not fail; the
            # next one will, unless it was for a moment only.
            _logger.warning("%s", error)
            await self._queue.exchange(Changes(returned=leases), 0, now)
            return (), now
        return [replace(lease, start=start) for lease, start in zip(leases, starts, strict=True)], next_start


class Purse:
    """What one worker may spend of a budget."""

    def __init__(self, budget: Budget) -> None:
        self.seconds = inf if budget.seconds is None else budget.seconds
        self._left = [budget.requests, budget.received_bytes]
        self._held = [0, 0]

    def grant(self, wanted: Amount, returned: Amount) -> bool:
        """Whether all of it is granted, else none of it. More than was granted cannot be returned; less than
        nothing can, by who has spent more than was granted."""
        for place, amount in enumerate((returned.requests, returned.received_bytes)):
            self._spend(place, -min(amount, self._held[place]))
        amounts = (wanted.requests, wanted.received_bytes)
        is_granted = all(
            not amount or left is None or amount <= left
            for amount, left in zip(amounts, self._left, strict=True)
        )
        if is_granted:
            for place, amount in enumerate(amounts):
                self._spend(place, amount)
        return is_granted

    def _spend(self, place: int, amount: int) -> None:
        left = self._left[place]
        if left is not None:
            self._left[place] = left - amount
        self._held[place] += amount
