"""A queue that leases no faster than the rate limits and budgets of its map, and of its host, allow."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tileharvest.errors import QueueError
from tileharvest.maps.budgets import Budget
from tileharvest.politeness.rate_limit import Account, Host, Spent, spent_part, spent_together
from tileharvest.queue.port import Changes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileharvest.history.costs import Traffic
    from tileharvest.politeness.rate_limit import Pace, Process, Standing, Turn
    from tileharvest.queue.port import Exchange, Lease, RequestQueue
    from tileharvest.queue.shared_states import SharedStates

    Result = TypeVar("Result")
    Taken = tuple[list[float], float, tuple[Turn | None, Turn | None]]
    """Starts that were taken, when the request after them may start, and the turns before."""

_logger = logging.getLogger(__name__)


class PoliteQueue:
    """A `RequestQueue` around another queue. It leases no more than rate limit, rests and budget allow.

    In the answer of an exchange each lease has its own `start`. `held_until` says when to ask again for what
    was held back, `share` how many requests this process may have on the way, and `rests_until` how long the
    host is to be left alone. The shares of all processes of a map never add up to more than the map's
    concurrency, and those of all processes of a host never to more than the host's. Processes know of each
    other by `SharedStates`.

    All processes of a map spend the budget of a run together. A run ends, and its budget begins anew, when no
    process of the map is left. No more requests are leased than the budget has left; bytes and seconds may be
    exceeded by what is on the way. The traffic counts what this process has spent. What a killed process has
    spent counts as far as it has told.

    Without a pace, this queue does what the queue inside does.
    """

    def __init__(
        self,
        queue: RequestQueue,
        hosts: SharedStates,
        map_name: str,
        traffic: Traffic,
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        """`traffic` counts each request when it starts. `clock` gives seconds since 1970, and `random` gives
        numbers from 0 to 1. Touches nothing yet."""
        self._queue = queue
        # Rate limit and budget have nothing to do with these.
        self.counts, self.failures = queue.counts, queue.failures
        self.forget, self.forget_others, self.discard = queue.forget, queue.forget_others, queue.discard
        self.note, self.notes = queue.note, queue.notes
        self.workers, self.patience = queue.workers, queue.patience
        self._hosts = hosts
        self._map_name = map_name
        self.traffic = traffic
        self._clock = clock
        self._random = random
        self._host = ""
        """The host at which the map's requests count. It is empty before a pace or a budget is set."""
        self._pace: Pace | None = None
        self._is_lost = False
        """Whether the last call has failed. Then `close` does not try another one."""
        self._held_until: float | None = None
        self._in_flight = 0
        self._is_busy = False
        self._ahead = 0
        """The leases that had not started at the last exchange, with those that this exchange may bring."""
        self._has_more = False
        """Whether more waited in the queue at the last exchange."""
        self._visits: Counter[str] = Counter()
        """By host that is not the map's own: the requests on the way there."""
        self.budget = Budget()
        """The budget of the run; it has no limits before `allow`."""
        self.lacking: str | None = None
        """The part of the budget that is spent and keeps something that waits from being leased, or None."""
        self._seconds_before = 0.0
        """The seconds of work in the present run before this process came."""
        self._others = Spent()
        """The sum that all other processes have spent in the present run, as far as this one has heard."""

    async def open(self, now: float) -> None:
        await self._queue.open(now)
        try:
            self._hosts.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Closes the queue. Closing twice is harmless."""
        self._held_until = None
        try:
            if self._hosts.process and self._host and not self._is_lost:
                await self._changed(lambda known, own, now: known.part(own.id))
                for host in list(self._visits):
                    del self._visits[host]
                    await self._tell_of_visits(host)
        except QueueError as error:
            _logger.debug("this process counts until it is known to have ended: %s", error)
        finally:
            self._hosts.close()
            await self._queue.close()

    # Rate limit

    async def set_pace(self, pace: Pace) -> None:
        """Sets the pace of all processes of the map from now on. Requests that are leased keep their
        starts."""
        self._pace = pace
        await self._move_to(pace.host)
        await self._changed(lambda known, own, now: known.limit(own, pace))

    async def rest(self, host: str, seconds: float) -> None:
        """Leaves the host alone for so many seconds: meanwhile no process of any of its maps gets a lease.

        If several rests overlap, the one that ends last counts.
        """
        await self._hosts.change(Host, host, self._clock(), lambda known, now: known.rest(now + seconds))

    async def take_turn(self, pace: Pace, near: float = inf) -> tuple[float, float] | None:
        """Takes a turn at this pace for one request besides those that are leased.

        Returns the seconds for which the host rests, and the seconds until the request may start. The turn is
        taken, and the request counts, only if the host does not rest and the start is at most `near` seconds
        away, because the other maps of the host have to wait until then. Returns None if the budget allows no
        further request.
        """
        await self._move_to(pace.host)

        def step(known: Host, own: Process, now: float) -> tuple[float, float] | None:
            known.limit(own, pace)
            if known.rests_until > now:
                return known.rests_until - now, 0.0
            waits = known.next_start(own) - now
            if waits > near:
                return 0.0, waits
            if not known.spend(own):
                return None
            (start,), _ = known.take_starts(own, 1, now=now, random=self._random)
            return 0.0, start - now

        turn = await self._changed(step)
        if turn is not None and not turn[0] and turn[1] <= near:
            self.traffic.requests += 1
        return turn

    async def visit(self, pace: Pace) -> tuple[bool, float]:
        """Takes a turn for one request to a host that is not the map's own. Until `leave` the request counts
        in the limits of that host, which its own maps share. One call must end before the next one begins.

        Returns whether the turn was taken, and the seconds until the request may start; if the turn was not
        taken, the seconds until to ask again.
        """
        host = pace.host

        def step(known: Host, now: float) -> tuple[bool, float]:
            before = self._visits[host] - 1
            own = known.tell(self._hosts.process, Account(self._map_name, before, is_busy=True), now)
            is_taken, moment = known.visit(own, pace, before, now=now, random=self._random)
            return is_taken, moment - now

        is_taken = False
        # It counts before it is told, or `leave` could take this process off the host in the meantime.
        self._visits[host] += 1
        try:
            is_taken, seconds = await self._hosts.change(Host, host, self._clock(), step)
        finally:
            self._visits[host] -= not is_taken
        return is_taken, seconds

    async def leave(self, host: str) -> None:
        """Hears that a request has ended that has taken its turn by `visit`. After the last one the host's
        own maps share all of its limits again."""
        self._visits[host] -= 1
        await self._tell_of_visits(host)

    async def _tell_of_visits(self, host: str) -> None:
        """Tells a host that is not the map's own how many requests are on the way there. Leaves the host if
        there are none."""

        def step(known: Host, now: float) -> None:
            if self._visits[host]:
                account = Account(self._map_name, self._visits[host], is_busy=True)
                known.tell(self._hosts.process, account, now)
            else:
                known.part(self._hosts.process)

        await self._hosts.change(Host, host, self._clock(), step)

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Returns whether this process may make the request that finds out whether a host is up again. After
        True nobody, this process included, gets True for so many seconds."""
        return await self._hosts.change(
            Host, host, self._clock(), lambda known, now: known.claim_probe(now, seconds)
        )

    # Budget

    async def allow(self, host: str, budget: Budget, *, amends: bool = False) -> None:
        """Spends this budget from now on. What was spent stays spent.

        The first process of a run sets the budget of all its processes. The budget of a process that comes
        later is ignored, unless it `amends` the one before.
        """
        await self._move_to(host)
        self.budget = await self._changed(lambda known, own, now: known.begin(own, budget, amends=amends))
        if not amends:
            self._seconds_before = max(0.0, self._others.seconds - self.traffic.worked)

    async def _move_to(self, host: str) -> None:
        """Lets the map's requests count at this host from now on, and no more at the one before."""
        if self._host and host != self._host:
            await self._changed(lambda known, own, now: known.part(own.id))
        self._host = host

    async def tell(self) -> None:
        """Tells the others what this process has spent, and hears what they have spent."""
        if self._host:
            await self._changed(lambda known, own, now: None)

    @property
    def spent(self) -> Spent:
        """The sum that all processes have spent in the present run, as far as this one knows."""
        return spent_together([self._others, self._own])

    @property
    def _own(self) -> Spent:
        """The sum that this process has spent in the present run."""
        traffic = self.traffic
        return Spent(traffic.requests, traffic.received_bytes, self._seconds_before + traffic.worked)

    # The queue

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        pace = self._pace
        if pace is None:
            return await self._queue.exchange(changes, wanted, now)
        began = self._clock()
        self._in_flight, self._ahead = changes.in_flight, changes.ahead
        likely = wanted if self._has_more else len(changes.pushed)

        def stand(known: Host, own: Process, now: float) -> tuple[Standing, Taken]:
            standing = known.stand(own, pace, wanted=wanted, now=now)
            # The starts are taken at once, which spares a step. Only a process that is alone takes them: it
            # keeps its gap itself if the queue answers late.
            number = min(standing.allowed, likely) if standing.has_gap and standing.is_alone else 0
            before = known.turns(own)
            return standing, (*known.take_starts(own, number, now=now, random=self._random), before)

        standing, taken = await self._changed(stand, now)
        self._ahead = changes.ahead + standing.allowed
        try:
            told = replace(changes, share=standing.share)
            answer = await self._queue.exchange(told, standing.allowed, now)
        except QueueError:
            self._is_lost = True
            raise
        self._ahead, self._has_more = changes.ahead + len(answer.leases), answer.has_more
        self._is_busy = bool(answer.leases) or (self._is_busy and not wanted)
        leases, next_start, ahead = answer.leases, standing.next_start, self._hosts.ahead(self._host)
        now += self._clock() - began
        if taken[0] or (leases and standing.has_gap):
            leases, next_start = await self._started(leases, taken, now)
        if wanted > 0:
            is_short = len(leases) < len(answer.leases) or answer.held_until is not None
            if len(answer.leases) == standing.allowed < wanted:
                is_short = is_short or answer.has_more
            again = standing.ask_again(next_start, now + ahead, has_some=bool(leases)) - ahead
            self._held_until = again if is_short else None
            self._is_busy = self._is_busy or is_short
            self.lacking = spent_part(self.budget, standing.spent) if is_short else None
        # An exchange that wanted nothing was not turned away: the time to ask again stays as it was.
        return replace(
            answer,
            leases=leases,
            held_until=self._held_until,
            rests_until=None if standing.rests_until is None else standing.rests_until - ahead,
            share=standing.share,
        )

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        held = await self._queue.extend(leases, now)
        await self.tell()
        # A process that is silent for as long as a lease lasts counts as ended.
        for host in [host for host, visits in self._visits.items() if visits]:
            await self._tell_of_visits(host)
        return held

    async def _started(
        self, leases: Sequence[Lease], taken: Taken, now: float
    ) -> tuple[Sequence[Lease], float]:
        """Returns the leases, each with its start, and the time at which the next request may start, by the
        clock of the host. The starts are those that were `taken`, if there are as many of them."""
        starts, next_start, before = taken

        def take(known: Host, own: Process, now: float) -> tuple[list[float], float]:
            known.give_back(own, starts, before)
            return known.take_starts(own, len(leases), now=now, random=self._random)

        try:
            if len(starts) != len(leases):
                starts, next_start = await self._changed(take, now)
        except QueueError as error:
            # The queue has applied the changes, and they must not be told again: so this exchange must not
            # fail. If the error stays, the next exchange fails.
            _logger.warning("%s", error)
            self._ahead -= len(leases)
            await self._queue.exchange(Changes(returned=list(leases)), 0, now)
            return (), now + self._hosts.ahead(self._host)
        ahead = self._hosts.ahead(self._host)
        _logger.debug("requests of map '%s' start at %s", self._map_name, starts)
        timed = [
            msgspec.structs.replace(lease, start=start - ahead)
            for lease, start in zip(leases, starts, strict=True)
        ]
        return timed, next_start

    async def _changed(
        self, step: Callable[[Host, Process, float], Result], now: float | None = None
    ) -> Result:
        """Tells the host of this process, makes the step, and returns its result. Learns what the others have
        spent."""

        def told(known: Host, now: float) -> tuple[Result, Spent]:
            result = step(known, known.tell(self._hosts.process, self._account(), now), now)
            return result, known.spent(self._map_name, but=self._hosts.process)

        self._is_lost = True
        moment = self._clock() if now is None else now
        result, self._others = await self._hosts.change(Host, self._host, moment, told)
        self._is_lost = False
        return result

    def _account(self) -> Account:
        return Account(
            self._map_name,
            self._in_flight,
            self._is_busy or self._in_flight > 0,
            self._ahead,
            self._own,
        )
