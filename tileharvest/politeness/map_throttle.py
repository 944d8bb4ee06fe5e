"""The throttle as one map of one process uses it: whether the next request may start."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final

from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import LONGEST, NO_DELAY, Delay
from tileharvest.politeness.hold import HeldError, Hold, HoldReason
from tileharvest.politeness.throttle import (
    HORIZON,
    PROBE,
    Limit,
    Places,
    Reservation,
    Share,
    Spent,
    spent_part,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from datetime import tzinfo

    from tileharvest.history.costs import CostMeter
    from tileharvest.politeness.rules import Rules
    from tileharvest.politeness.throttle import Throttle

_logger = logging.getLogger(__name__)

LOOK: Final = 1.0
"""Seconds between two calls of `look`. A fleet that a person pauses stops within two seconds."""
NO_PLACE: Final = 300.0
"""Seconds for which a request waits at most for a place at a host that is not the map's own. Otherwise two
maps that redirect to each other's hosts could wait for each other without an end."""
_LATE: Final = 0.1
"""Seconds after which a reserved start that was not used is lost. By as much may requests of several workers
be closer than planned."""
_AGAIN: Final = 0.1
"""Seconds between two questions for a place that others have."""
_NUMBERS: Final = count()


class MapThrottle:
    """Whether the requests of a map may start, as its rules, a person, its hosts and its budget say.

    Its owner calls `look` every second, asks `turn` before each request that `is_free` does not let start at
    once, counts what starts and what comes, and has at most `concurrency` requests on the way: `has_place`
    says whether there may be one more. Nothing is told back: whoever wants to know whether to go on reads
    `held`.
    """

    def __init__(
        self,
        throttle: Throttle,
        process: str,
        name: str,
        rules: Rules,
        cost_meter: CostMeter,
        *,
        lasts: float,
        zone: tzinfo,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`process` is the throttle's name of this process. A share that is not extended ends after `lasts`
        seconds. `zone` is the map's, and `clock` gives seconds since 1970. The
        traffic counts requests and bytes, and the time while nothing holds them back."""
        self.host = rules.host
        """The host in whose limits the map's requests count."""
        self.budget = Budget()
        """The budget of the run of all workers of the map."""
        self.spent = Spent()
        """What all workers had spent of it at the last look."""
        self.lacking: str | None = None
        """The part of the budget that is spent."""
        self.on_the_way = 0
        """The requests of this process that are on the way at the map's host. Its owner counts them, except
        those that have a `place`."""
        self.next_turn: tuple[str, float] | None = None
        """The host at which a request waits for its turn, and until when."""
        self._throttle, self._name, self._cost_meter = throttle, name, cost_meter
        self._worker = f"{process}:{next(_NUMBERS)}"
        self._lasts, self._zone, self._clock = lasts, zone, clock
        self._rules = rules
        self._rate: Delay | None = None
        """The gap that a person has set in place of the map's own."""
        self._slowed = NO_DELAY
        """The gap to which refusals of the host have slowed the map down."""
        self._adapted = NO_DELAY
        """The gap that suits how fast the host answers."""
        self._gaps: dict[str, dict[str, Delay]] = {}
        """By host: its limits that have a gap, by their names, as they were at the last look."""
        self._is_paused = self._is_down = False
        """Whether a person has paused the map, and whether its host does not answer."""
        self._quiet_until = self._rests_until = -inf
        """When the present quiet hours without a rate end, and the rest of the host."""
        self._share, self._share_ends = 0, -inf
        self._is_idle = False
        """Whether this worker has left the places to others that it does not use."""
        self._extending = asyncio.Lock()
        self._reserved: dict[str, Reservation] = {}
        """By host: the starts that are left of the last reservation."""
        self._last: dict[str, float] = {}
        """By host: when the last request started."""
        self._elsewhere: Counter[str] = Counter()
        """By host that is not the map's own: the requests on the way there."""
        self._freed = asyncio.Event()
        """Set when a request has left its place."""
        self._places: dict[str, int] = {}
        """By such a host: the requests that this process may have on the way, as it was told last."""
        self._promised = 0
        """The requests that were taken from the budget, and that have not started yet."""
        self._untold = 0
        """The requests that were made without one from a budget, and that are not told yet. They count if the
        map gets a budget meanwhile."""
        self._told_bytes = 0
        self._seconds_before = 0.0
        """The seconds that the run had taken before this process came."""

    async def open(self, budget: Budget) -> None:
        """Takes part in the run of the map. The run begins now if no other process takes part."""
        self.budget = budget
        await self._extend()
        self._seconds_before = (await self._throttle.spend(*self._run, Spent())).seconds
        await self.look()

    async def look(
        self,
        *,
        is_paused: bool = False,
        rate: Delay | None = None,
        is_busy: bool = True,
    ) -> None:
        """Looks what other workers have told, and tells them of this one. A person may have paused the map,
        or set its rate. A worker that is not busy leaves its places to others until it asks `has_place`."""
        if rate != self._rate:
            # Starts that were reserved at another rate are lost.
            self._rate = rate
            self._reserved.clear()
        self._gaps.clear()
        await self._extend(is_busy=is_busy)
        received = self._cost_meter.received_bytes - self._told_bytes
        self._told_bytes += received
        untold, self._untold = self._untold, 0
        await self._spend(Spent(untold, received, self._seconds_before + self._cost_meter.worked))
        now = self._clock()
        rest = await self._throttle.reserve(self.host, 0, (), now)
        moment = self._moment()
        # The others may not have been told yet of a rest that this worker was asked for.
        ends = max(rest.start, self._rests_until)
        # The end of a rest that is over would count again if the clock was set back.
        self._rests_until = ends if ends > now else -inf
        quiet_until = self._rules.quiet_until(moment) if self._rules.gap_at(moment) is None else None
        self._quiet_until = -inf if quiet_until is None else quiet_until.timestamp()
        self.pause(is_paused=is_paused)

    async def close(self) -> None:
        """Gives everything back."""
        await self._throttle.spend(*self._run, Spent(self._untold - self._promised, 0, 0.0))
        self._promised = self._untold = 0
        for host in {self.host, self._rules.host, *self._places}:
            await self._throttle.leave(host, self._worker)

    def obey(self, rules: Rules) -> None:
        """Keeps other rules from now on."""
        self._rules = rules
        self._gaps.clear()

    async def ask_at(self, host: str) -> None:
        """Lets the map's requests count at this host from now on, because all of its tiles lie there."""
        self.host = host
        self._gaps.clear()
        await self._extend()

    # What holds everything back

    @property
    def held(self) -> Hold | None:
        """Why nothing may start now, and until when. None if requests may start.

        Of several reasons the first one in this order is told: a host that is down may be probed unless
        anything else holds, too."""
        if self.lacking is not None:
            return Hold(HoldReason.SPENT)
        if self._is_paused:
            return Hold(HoldReason.PAUSED)
        if self._quiet_until > -inf or self._rests_until > -inf:
            now = self._clock()
            if self._quiet_until > now:
                return Hold(HoldReason.QUIET, self._quiet_until)
            if self._rests_until > now:
                return Hold(HoldReason.RESTING, self._rests_until)
        return Hold(HoldReason.DOWN) if self._is_down else None

    def rest(self, host: str, seconds: float) -> Coroutine[Any, Any, None]:
        """Lets the host rest. For this map it rests at once, and for all of its maps and workers when what
        this returns was awaited."""
        now = self._clock()
        if host == self.host:
            self._rests_until = max(self._rests_until, now + seconds)
            self._keep_time()
        return self._throttle.rest(host, seconds, now)

    def pause(self, *, is_paused: bool) -> None:
        """Hears at once, before the next look, that a person has paused or resumed the map."""
        self._is_paused = is_paused
        self._keep_time()

    def down_until(self, until: float | None) -> None:
        """Holds requests back because a host does not answer. None: it answers."""
        self._is_down = until is not None
        self._keep_time()

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Returns whether this worker may find out whether a host is up again. After True nobody, this worker
        included, gets True for these seconds."""
        probe = Limit(PROBE, seconds)
        return (await self._throttle.reserve(host, 1, (probe,), self._clock(), horizon=0.0)).number == 1

    def adapt(self, spacing: float) -> None:
        """Keeps at least these seconds between two requests until it is told otherwise."""
        self._adapted = Delay.of(min(spacing, LONGEST))
        self._gaps.clear()

    def slow_down(self, spacing: float) -> None:
        """Keeps at least these seconds between two requests from now on."""
        self._slowed = self._slowed.at_least(Delay.of(min(spacing, LONGEST)))
        self._gaps.clear()

    def _keep_time(self) -> None:
        """Lets the time of the traffic stand still while anything holds requests back."""
        (self._cost_meter.resume if self.held is None else self._cost_meter.pause)()

    def _moment(self) -> datetime:
        """Returns the present time in the map's zone."""
        return datetime.fromtimestamp(self._clock(), self._zone)

    # Places

    @property
    def concurrency(self) -> int:
        """The requests that this process may have on the way at the map's host."""
        return self._share if self._clock() < self._share_ends else 0

    async def has_place(self, host: str) -> bool:
        """Returns whether one more request may be on the way at the host."""
        if host == self.host:
            if self._is_idle:
                await self._extend()
            return self.on_the_way < self.concurrency
        number = self._elsewhere[host]
        if number >= self._places.get(host, 0):
            self._places[host] = await self._take_share(host, number, number + 1)
        return self._elsewhere[host] < self._places[host]

    async def _extend(self, *, is_busy: bool = True) -> None:
        """Extends the shares of this worker."""
        # One after the other: the last share that this worker is given must be the last that others know of.
        async with self._extending:
            wanted, now = self._rules.concurrency if is_busy else self.on_the_way, self._clock()
            self._is_idle = not is_busy
            # Nothing may start any more in a place that is being given back.
            self._share = min(self._share, wanted)
            self._share = await self._take_share(self.host, self.on_the_way, wanted)
            self._share_ends = now + self._lasts
            await self._extend_elsewhere()

    async def _extend_elsewhere(self) -> None:
        """Extends the shares of this worker at hosts that are not the map's own."""
        for host in list(self._places):
            if number := self._elsewhere[host]:
                self._places[host] = await self._take_share(host, number, number)
            else:
                del self._places[host]
                await self._throttle.leave(host, self._worker)
        if self.host != self._rules.host:
            # The run's budget is kept there.
            await self._take_share(self._rules.host, 0, 0)

    async def _take_share(self, host: str, on_the_way: int, wanted: int) -> int:
        now = self._clock()
        own = Share(self._worker, self._name, on_the_way, wanted, now + self._lasts)
        places = Places(self._rules.concurrency, self._limits_at(host)[0])
        return await self._throttle.share(host, own, places, now)

    def _limits_at(self, host: str) -> tuple[int | None, Delay]:
        """Returns the places and the gap of a host, which all of its maps share."""
        rules = self._rules
        return (rules.host_concurrency, rules.host_gap) if host == rules.host else rules.limits_at(host)

    # Turns

    def is_free(self, host: str) -> bool:
        """Returns whether a request may start at once as far as rates and budgets say. A request to another
        host than the map's own always has to wait for its turn."""
        is_paced = host != self.host or bool(self._limits(host))
        return not is_paced and self.budget.requests is None

    async def turn(self, host: str, wanted: int = 1) -> bool:
        """Returns True when a request may start at the host. It then must start at once, or its turn is lost.
        So many are `wanted` soon. Call `left` when it has ended.

        Returns False as soon as anything holds requests back, and if other workers have all places of a host
        that is not the map's own.
        """
        if host == self.host:
            return await self._turn(host, wanted)
        if not await self.has_place(host):
            return False
        self._elsewhere[host] += 1
        has_turn = False
        try:
            has_turn = await self._turn(host, wanted)
        finally:
            if not has_turn:
                self.left(host)
        return has_turn

    def left(self, host: str) -> None:
        """Hears that a request whose turn has come has ended. Those to the map's own host are counted by the
        owner."""
        if host != self.host:
            self._elsewhere[host] -= 1

    async def _turn(self, host: str, wanted: int) -> bool:
        try:
            while self.held is None:
                now = self._clock()
                at = self._next_start(host, now)
                if at is None:
                    if not (gaps := self._limits(host)):
                        return await self._promise()
                    chance = random.random()  # noqa: S311 - no secret
                    limits = [Limit(name, gap.draw(chance)) for name, gap in gaps.items()]
                    is_random = any(gap.least < gap.most for gap in gaps.values())
                    number = 1 if is_random else wanted
                    found = self._reserved[host] = await self._throttle.reserve(host, number, limits, now)
                    if not found.number:
                        await self._sleep(host, found.start - HORIZON)
                elif at > now:
                    await self._sleep(host, at)
                else:
                    start, spacing, number = self._reserved[host]
                    _logger.debug("a request of map '%s' starts at %s", self._name, start)
                    self._reserved[host] = Reservation(start + spacing, spacing, number - 1)
                    self._last[host] = now
                    return await self._promise()
        finally:
            self.next_turn = None
        return False

    async def _sleep(self, host: str, until: float) -> None:
        """Sleeps until then, but not longer than until the next look."""
        self.next_turn = host, until
        await asyncio.sleep(min(LOOK, max(0.0, until - self._clock())))

    def _next_start(self, host: str, now: float) -> float | None:
        """Returns when the next of the reserved starts may be used, or None if none is left. One that this
        process was too busy to use in time is lost: others may have later ones already."""
        start, spacing, number = self._reserved.get(host, (0.0, 0.0, 0))
        while number and start + _LATE < now:
            start, number = start + spacing, number - 1
        self._reserved[host] = Reservation(start, spacing, number)
        return max(start, self._last.get(host, -inf) + spacing) if number else None

    def _limits(self, host: str) -> dict[str, Delay]:
        """Returns the gaps that a request to the host keeps, by the names of their limits."""
        found = self._gaps.get(host)
        if found is None:
            gaps = {"host": self._limits_at(host)[1]}
            if host == self.host:
                gap = self._rules.gap_at(self._moment(), by_hand=self._rate)
                gaps[f"map {self._name}"] = (gap or NO_DELAY).at_least(self._slowed).at_least(self._adapted)
            found = self._gaps[host] = {name: gap for name, gap in gaps.items() if gap}
        return found

    @asynccontextmanager
    async def place(self, host: str, *, waits: bool = True) -> AsyncIterator[None]:
        """Lets one request to any host be on the way while the block runs: when there is a place for it, and
        its turn has come. Raises TimeoutError if other workers have left no place for `NO_PLACE` seconds at a
        host that is not the map's own. Unless the request `waits`, raises HeldError when anything holds
        requests back."""
        since = self._clock()
        while not await self._take_place(host):
            if not waits and self.held is not None:
                raise HeldError
            if host == self.host or self.held is not None:
                since = self._clock()
            elif self._clock() - since >= NO_PLACE:
                raise TimeoutError
            self._freed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN):
                    await self._freed.wait()
        try:
            yield
        finally:
            self._leave_place(host)

    async def _take_place(self, host: str) -> bool:
        """Takes a place and a turn. Returns False if there is none now."""
        if host != self.host:
            return await self.turn(host)
        if not await self.has_place(host):
            return False
        self.on_the_way += 1
        has_turn = False
        try:
            has_turn = await self.turn(host)
        finally:
            if not has_turn:
                self.on_the_way -= 1
        return has_turn

    def _leave_place(self, host: str) -> None:
        self.on_the_way -= host == self.host
        self.left(host)
        self._freed.set()

    # Costs

    @property
    def _run(self) -> tuple[str, str]:
        """The host at which the budget of the map's run is kept, and the map's name."""
        return self._rules.host, self._name

    def count_request(self) -> None:
        """Counts a request that starts."""
        self._cost_meter.requests += 1
        if self._promised:
            self._promised -= 1
        else:
            self._untold += 1

    def count_bytes(self, number: int) -> None:
        """Counts the bytes of a body that has come."""
        self._cost_meter.received_bytes += number
        if self.budget.received_bytes is not None:
            untold = self._cost_meter.received_bytes - self._told_bytes
            self._check(self.spent._replace(received_bytes=self.spent.received_bytes + untold))

    async def _promise(self) -> bool:
        """Takes a request from the budget. Returns whether there was one."""
        if self.budget.requests is None:
            return True
        untold, self._untold = self._untold, 0
        await self._spend(Spent(untold + 1, 0, 0.0))
        if self.spent.requests > self.budget.requests:
            # What the budget does not grant was not spent.
            await self._spend(Spent(-1, 0, 0.0))
            self._lack("requests")
            return False
        self._promised += 1
        return True

    async def _spend(self, spent: Spent) -> None:
        self.spent = await self._throttle.spend(*self._run, spent)
        self._check(self.spent)

    def _check(self, spent: Spent) -> None:
        if (part := spent_part(self.budget, spent, ("bytes", "seconds"))) is not None:
            self._lack(part)

    def _lack(self, part: str) -> None:
        self.lacking = part
        self._keep_time()
