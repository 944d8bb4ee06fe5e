"""The throttle as one map of one process uses it: whether the next request may start."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tileharvest.maps.budgets import PARTS, Budget
from tileharvest.maps.rates import LONGEST, NO_DELAY
from tileharvest.politeness.throttle import HORIZON, Share, Spent
from tileharvest.politeness.waits import HeldError, Hold, HoldReason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from datetime import tzinfo

    from tileharvest.history.costs import CostMeter
    from tileharvest.maps.rates import Delay
    from tileharvest.politeness.rules import Rules
    from tileharvest.politeness.throttle import Throttle

_logger = logging.getLogger(__name__)

LOOK: Final = 1.0
"""Seconds between two calls of `look`. A fleet that a person pauses stops within two seconds."""
_LATE: Final = 0.1
"""Seconds after which a reserved start that was not used is lost. By as much may requests of several workers
be closer than planned."""
_NUMBERS: Final = count()


class _HostPart:
    """What a process has at one host."""

    def __init__(self) -> None:
        self.on_the_way = 0
        self.share, self.share_ends = 0, -inf
        """The requests that may be on the way, and until when."""
        self.last = self.rests_until = -inf
        """When the last request started, and when the host's rest ends."""


class MapThrottle:
    """Whether the requests of a map may start, as its rules, a person, its hosts and its budget say.

    Its owner calls `look` every second, awaits `turn` before requests, counts those that start, and calls
    `left` when they have ended. The throttle calls nobody: whoever wants to know whether to go on reads
    `held`.

    At each host the map has its own concurrency and delay, and the host's, which all of its maps share.
    """

    def __init__(
        self,
        throttle: Throttle,
        name: str,
        rules: Rules,
        cost_meter: CostMeter,
        *,
        lasts: float,
        zone: tzinfo,
    ) -> None:
        """A share that is not extended ends after `lasts` seconds. `zone` is the map's. The meter counts
        requests and bytes, and the time while nothing holds them back."""
        self.host = rules.host
        """The host whose rests hold the map back. The owner changes it if all tiles lie on another one."""
        self.budget = Budget()
        """The budget of the run of all workers of the map. The owner sets it."""
        self._others = Spent()
        """What the other workers had spent of it at the last look."""
        self.lacking: str | None = None
        """The part of the budget that is spent."""
        self._throttle, self._name, self._rules, self._cost_meter = throttle, name, rules, cost_meter
        self._worker = f"{throttle.process}:{next(_NUMBERS)}"
        self._lasts, self._zone, self._clock = lasts, zone, throttle.clock
        self._delay = NO_DELAY
        """The delay of the map at this hour, or that a person has set in its place."""
        self._slowed = self.adapted = 0.0
        """The least seconds between two requests for which robots.txt and refusals have asked, and those that
        suit how fast the host answers, which the owner sets."""
        self.is_ending = False
        """Whether the owner is about to end, so that nothing more may start."""
        self.is_paused, self.down = False, set[str]()
        """Whether a person has paused the map, and the hosts that do not answer. While there are any, nothing
        but probes may start. The owner sets both as soon as it knows."""
        self._quiet_until = -inf
        """When the quiet hours without a rate end that were there at the last look."""
        self._hosts: defaultdict[str, _HostPart] = defaultdict(_HostPart)
        self._is_idle = False
        """Whether this worker has left the places to others that it does not use."""
        self._extending = asyncio.Lock()
        self._freed = asyncio.Event()
        """Set when a place may be free, or when something may hold requests back."""

    async def look(self, *, is_paused: bool = False, rate: Delay | None = None, is_busy: bool = True) -> None:
        """Reads what other workers have written, and writes what this one does. With the first look of the
        first worker the run of the map begins. A person may have paused the map, or set its rate. A worker
        that is not busy leaves its places to others until it asks for one."""
        self.is_paused, self._is_idle = is_paused, not is_busy
        for host in {self.host, *self._hosts}:
            state = self._hosts[host]
            if state.on_the_way or host in (self.host, self._rules.host):
                await self._extend(host)
            elif state.share_ends > self._clock():
                await self._extend(host, lasts=0.0)
        for part, most, so_far in zip(PARTS, self.budget.limits, self.spent, strict=True):
            # Requests are taken one by one.
            if part != "requests" and most is not None and so_far >= most:
                self.lacking = self.lacking or part
        moment = datetime.fromtimestamp(self._clock(), self._zone)
        self._delay = self._rules.gap_at(moment, by_hand=rate)
        quiet_until = self._rules.quiet_until(moment)
        self._quiet_until = -inf if quiet_until is None else quiet_until.timestamp()
        # Time stands still while anything holds requests back.
        (self._cost_meter.resume if self.held is None else self._cost_meter.pause)()

    def end(self) -> None:
        """Lets nothing more start."""
        self.is_ending = True
        self._freed.set()

    async def close(self) -> None:
        """Gives everything back."""
        for host in list(self._hosts):
            await self._extend(host, lasts=0.0)

    # What holds everything back

    @property
    def held(self) -> Hold | None:
        """Why nothing may start now, and until when. None if requests may start.

        Of several reasons the first one in this order counts: a host that is down may be probed unless
        anything else holds, too."""
        if self.lacking is not None or self.is_ending:
            return Hold(HoldReason.ENDING)
        if self.is_paused:
            return Hold(HoldReason.PAUSED)
        now, rests_until = self._clock(), self._hosts[self.host].rests_until
        if self._quiet_until > now:
            return Hold(HoldReason.QUIET, self._quiet_until)
        if rests_until > now:
            return Hold(HoldReason.RESTING, rests_until)
        return Hold(HoldReason.DOWN) if self.down else None

    def rest(self, host: str, seconds: float) -> Coroutine[Any, Any, None]:
        """Lets the host rest, for a day at most. For this map it rests at once, and for all of its maps and
        workers when what this returns was awaited."""
        state, seconds = self._hosts[host], min(seconds, LONGEST)
        state.rests_until = max(state.rests_until, self._clock() + seconds)
        return self._throttle.rest(host, seconds)

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Returns whether this worker may find out whether a host is up again. After True nobody, this worker
        included, gets True until these seconds are over, except for the last `HORIZON` of them."""
        _, is_granted = await self._throttle.reserve(host, {"probe": seconds})
        return is_granted

    def slow_down(self, spacing: float) -> None:
        """Keeps at least these seconds between two requests from now on, the last one included."""
        self._slowed = max(self._slowed, spacing)

    # Places

    def concurrency(self, host: str) -> int:
        """Returns how many requests this process may have on the way at the host."""
        state = self._hosts[host]
        return state.share if self._clock() < state.share_ends else 0

    def left(self, host: str, number: int = 1) -> None:
        """Gives the places of requests back that have ended."""
        self._hosts[host].on_the_way -= number
        self._freed.set()

    async def _extend(self, host: str, *, coming: int = 0, lasts: float | None = None) -> None:
        """Extends the share of this worker at a host, or gives it back if it `lasts` 0 seconds. Exchanges
        what the workers have spent. So many requests are `coming`, and are taken from the budget."""
        state, of_map = self._hosts[host], self._rules.concurrency
        lasts = self._lasts if lasts is None else lasts
        # One after the other: the last share that this worker is given must be the last that others know of.
        async with self._extending:
            # Meanwhile nothing starts in a place that may be given back.
            state.share, ends = min(state.share, state.on_the_way), self._clock() + lasts
            own = Share(self._worker, self._name, state.on_the_way, not self._is_idle and lasts > 0)
            if host == self._rules.host:
                meter = self._cost_meter
                own = replace(own, spent=Spent(meter.requests + coming, meter.received_bytes, meter.worked))
            of_host, _ = self._rules.limits_at(host)
            state.share, rest_ends, others = await self._throttle.share(host, own, of_map, of_host, lasts)
            state.share_ends = ends
            # The others may not know yet of a rest that this worker was asked for. The end of a rest that is
            # over would count again if the clock was set back.
            rest_ends = max(rest_ends, state.rests_until)
            state.rests_until = rest_ends if rest_ends > self._clock() else -inf
        if host == self._rules.host:
            self._others = others
        self._freed.set()

    # Turns

    async def turn(self, host: str, wanted: int = 1) -> int:
        """Returns how many of these requests may start at the host, at least one: each has a place, its turn
        has come, and it was taken from the budget. They must start at once, or lose their turn.

        Returns 0 as soon as anything holds requests back.
        """
        state = self._hosts[host]
        while (held := self.held) is None and (free := self.concurrency(host) - state.on_the_way) <= 0:
            if self._is_idle or state.share_ends <= self._clock():
                self._is_idle = False
                await self._extend(host)
            else:
                self._freed.clear()
                await self._freed.wait()
        if held is not None:
            return 0
        # Where a delay or a rest must be kept, one starts at a time.
        is_paced = state.rests_until > self._clock() or bool(self._limits(host))
        number, granted = 1 if is_paced else min(wanted, free), 0
        state.on_the_way += number
        try:
            if not is_paced or await self._has_start(host):
                most = self.budget.requests
                granted = number if most is None else await self._granted(number, most)
        finally:
            self.left(host, number - granted)
        if granted:
            state.last = self._clock()
        return granted

    @asynccontextmanager
    async def place(self, host: str, *, waits: bool = True) -> AsyncIterator[None]:
        """Lets one request be on the way while the block runs, when its turn has come. Unless the request
        `waits`, raises HeldError when anything holds requests back."""
        while not await self.turn(host):
            if not waits:
                raise HeldError
            await asyncio.sleep(LOOK)
        try:
            yield
        finally:
            self.left(host)

    async def _has_start(self, host: str) -> bool:
        """Returns True when a start at the host has come, and False as soon as anything holds requests
        back."""
        state, chance = self._hosts[host], random.random()  # noqa: S311 - no secret
        while self.held is None:
            limits = self._limits(host, chance)
            start, is_granted = await self._throttle.reserve(host, limits)
            if not is_granted:
                # Not longer than until the next look.
                await asyncio.sleep(min(LOOK, max(0.0, start - HORIZON - self._clock())))
                continue
            spacing = max(limits.values(), default=0.0)
            # If the last start lies ahead, the clock was set back.
            state.last = min(state.last, self._clock())
            # The last start may have come late, and other requests may start meanwhile.
            while 0 < (wait := max(start, state.last + spacing) - self._clock()) <= HORIZON + _LATE:  # noqa: ASYNC110
                await asyncio.sleep(wait)
            now = self._clock()
            if wait <= 0 and now <= start + _LATE and self.held is None:
                _logger.debug("a request of map '%s' starts at %s", self._name, start)
                return True
        return False

    def _limits(self, host: str, chance: float = 1.0) -> dict[str, float]:
        """Returns the least seconds between two starts at the host, by the names of its limit and of the
        map's. `chance` is a random number from 0 to 1, by which random delays are drawn."""
        _, of_host = self._rules.limits_at(host)
        of_map = max(self._delay.draw(chance), self._slowed, self.adapted)
        spacings = {"host": of_host.draw(chance), f"map {self._name}": of_map}
        return {name: spacing for name, spacing in spacings.items() if spacing}

    # The budget

    @property
    def spent(self) -> Spent:
        """What the run has spent: this worker until now, and the others until the last look."""
        others, meter = self._others, self._cost_meter
        return Spent(
            others.requests + meter.requests,
            others.received_bytes + meter.received_bytes,
            others.seconds + meter.worked,
        )

    def count_bytes(self, number: int) -> None:
        """Counts the bytes of a body that has come."""
        self._cost_meter.received_bytes += number
        most = self.budget.received_bytes
        if most is not None and self.spent.received_bytes >= most:
            self.lacking = self.lacking or "bytes"

    async def _granted(self, number: int, most: int) -> int:
        """Takes requests from a budget of so many. Returns how many there were. One that does not start goes
        back with the next look."""
        await self._extend(self._rules.host, coming=number)
        left = most - self.spent.requests
        if left <= 0:
            self.lacking = self.lacking or "requests"
        return min(number, max(0, left))
