"""Whether the next request of a crawl may start, by the rules of its map and the orders of a person."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from tileharvest.errors import BudgetError, ConfigurationError, QueueError
from tileharvest.history.group_commit import TICK, at_tick
from tileharvest.maps.budgets import OF_DAY, PARTS
from tileharvest.maps.rates import LONGEST, NO_GAP, Gap, rate_in_words
from tileharvest.politeness.rate_limit import Pace, spent_part
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.waits import WORTH_A_WORD, Wait, noted
from tileharvest.program import program
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.orders import Orders, orders_of, stop
from tileharvest.queue.requests import DELAY, state_of
from tileharvest.scheduler.worker import as_queue_error

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from datetime import datetime

    from scrapy import Request

    from tileharvest.maps.budgets import Budget
    from tileharvest.politeness.rules import Rules
    from tileharvest.queue.polite_queue import PoliteQueue
    from tileharvest.scheduler.worker import QueueWorker, WorkerListener

_logger = logging.getLogger(__name__)

LOOK: Final = 1.0
"""Seconds between two looks. A fleet that a person pauses stops within two seconds."""

_NEAR: Final = 1.0
"""Seconds by which a request beside the queue may take its turn ahead. Until the turn comes the other maps of
the host have to wait, even if this crawl ends before."""

_NEWS: Final = 0.75
"""Seconds for which the orders in an answer of the queue count. They are fewer than `LOOK`, so that an order
is obeyed within two seconds although no look asks for it."""

NO_PLACE: Final = 300.0
"""Seconds for which a request waits at most for a place at a host that is not the map's own. Otherwise two
maps that redirect to each other's hosts could wait for each other without an end."""

_SOON: Final = 0.01
"""Seconds after which to look again whether the history has recorded what was spent. Recording takes about as
long."""

_ANY: Final = 1_000_000
"""A number of requests on the way at the same time that is never reached."""


class Politeness:
    """Decides whether the requests of one crawl may start.

    Every second it looks for orders of a person, for quiet hours, and for what other processes have spent of
    the budget.
    """

    def __init__(
        self,
        queue: PoliteQueue,
        name: str,
        listener: WorkerListener,
        *,
        rules: Rules | None,
        local_time: Callable[[], datetime],
    ) -> None:
        """`name` is the name of the map, which has `rules`, or of a spider without rules, which only a person
        limits. `local_time` gives the present time in the map's zone. The queue's traffic counts each request
        when it starts. Its time stands still while nothing may start."""
        self._queue = queue
        self._traffic = queue.traffic
        self._name = name
        self._kind = "spider" if rules is None else "map"
        self._in_words = f"{self._kind} '{name}'"
        self._listener = listener
        self._rules = rules
        self._local_time = local_time
        self.reasons: set[Reason] = set()
        """Why requests are held back. They may start if there is no reason."""
        self._changed = asyncio.Event()
        """Set when requests may start again, or when the crawl is over."""
        self._orders = Orders()
        """The orders of the last look."""
        self._told: tuple[float, Orders] | None = None
        """The orders that the queue has told with its last answer, and when, on the event loop's clock."""
        self._stop_before: str | None = None
        """The order to stop that was given before the crawl began, or that the crawl has obeyed."""
        self._pace: Pace | None = None
        """The pace that the worker, or all processes, were told last."""
        self._worker: QueueWorker | None = None
        self._last_start = float("-inf")
        self._delayed: tuple[Any, float] | None = None
        """The request that waits for its own delay, and the seconds of this delay, which are drawn once."""
        self._turns: list[Wait] = []
        """The waits of requests beside the queue, and of requests that have started without a connection."""
        self._host = "" if rules is None else rules.host
        """The host in whose limits the requests of the queue count. Empty for a spider without rules."""
        self._limits: dict[str, tuple[int | None, Gap]] = {}
        """By host that is not the map's own: the concurrency and the gap that maps.toml told last."""
        self._next_at: dict[str, asyncio.Lock] = {}
        """By host that is not the map's own: held by the request that starts there next."""
        self._late = 0
        """The number of requests that have started and have no connection yet."""
        self._timer: asyncio.TimerHandle | None = None
        """Wakes the listener when the next request may start."""
        self._resting: asyncio.TimerHandle | None = None
        """Ends the rest for which the host has asked."""
        self._rests = ""
        """The host that has asked for the rest."""
        self._looking: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        """What the queue is being told."""
        self._has_ended = False
        """Whether all were told that a budget is spent."""
        self.is_over = False
        """Whether the crawl is about to end, or has ended."""

    async def begin(self) -> None:
        """Reads the orders of a person, and begins to look every second. Raises QueueError."""
        self._traffic.start()
        orders = await orders_of(self._queue)
        self._stop_before = orders.stop
        await self._hear(orders)
        self._looking = asyncio.ensure_future(self._look_on())

    async def end(self) -> None:
        """Lets nothing further start. Returns when the queue has heard all that it was to be told."""
        self.cut_short()
        if self._looking is not None:
            await cancel(self._looking)
            self._looking = None
        if self._telling:
            await asyncio.wait(self._telling)

    def cut_short(self) -> None:
        """Ends all waits: whoever waits for a start gets CancelledError."""
        self.is_over = True
        self._changed.set()
        self._listener.wake()
        for timer in (self._timer, self._resting):
            if timer is not None:
                timer.cancel()

    # Reasons to hold requests back

    def hold(self, reason: Reason) -> None:
        """Lets no further request start, for this reason. Requests on the way go on."""
        self._set(reason, holds=True)

    def let_go(self, reason: Reason) -> None:
        """Drops this reason. Requests may start again if there is no other reason."""
        self._set(reason, holds=False)

    # Requests that are offered

    @property
    def pace(self) -> Pace | None:
        """The pace at which requests are to be offered now. None for a spider without rules, unless a person
        has set a rate."""
        rules, by_hand = self._rules, self._orders.rate
        if rules is None:
            if by_hand is None and self._pace is None:
                return None
            # Nobody knows the hosts of a spider before it asks them. So all of its requests keep one gap,
            # whichever worker makes them.
            return Pace(f"spider:{self._name}", _ANY, by_hand or NO_GAP)
        gap = rules.gap_at(self._local_time(), by_hand=by_hand)
        gap = rules.gap if gap is None else gap
        if self._host == rules.host:
            return Pace(rules.host, rules.concurrency, gap, rules.host_concurrency, rules.host_gap)
        host_concurrency, host_gap = self._limits_at(self._host)
        return Pace(self._host, rules.concurrency, gap.at_least(host_gap), host_concurrency, host_gap)

    def offers(self, worker: QueueWorker, pace: Pace | None) -> None:
        """Lets the worker offer requests at this pace from now on. If the pace has changed since the caller
        read it, the next look sets the new one."""
        self._worker, self._pace = worker, pace
        if pace is not None:
            worker.keep_apart(pace.least)
            worker.started(asyncio.get_running_loop().time() - self._last_start)

    def exchanged(self, notes: Mapping[str, str] | None = None) -> None:
        """Hears that the queue has answered, and the remarks among which a person's orders are, if the queue
        tells them. Ends the crawl if a spent budget keeps requests waiting."""
        if notes is not None:
            self._told = asyncio.get_running_loop().time(), Orders.read(notes)
        if self._queue.lacking is not None:
            self._end_for_all(self._exceeded(self._queue.lacking))

    def starts_now(self, request: Request) -> bool:
        """Counts the request as started if it may start now, and returns whether it may. If not, the listener
        is woken when to ask again."""
        if not self._late and DELAY in request.meta and (left := self._left(request)) > 0:
            self._wake_in(left)
            return False
        return self.count_starts(1) == 1

    def count_starts(self, number: int) -> int:
        """Counts as many as may start now of so many requests, which have no delay of their own, as started.
        Returns their number. If not all may, the listener is woken when to ask again."""
        starting = 0 if self._late else self._traffic.ask(number)
        if starting:
            self._last_start, self._delayed = asyncio.get_running_loop().time(), None
            if self._worker is not None:
                self._worker.started()
        if starting < number and not self._late:
            self._wake_in(_SOON)
        return starting

    @contextmanager
    def delayed(self, most: float) -> Iterator[None]:
        """Lets nothing further start while the block runs, in which a request that has started waits for a
        connection, for `most` seconds at the latest. Requests that have started together may all wait. The
        next request keeps the gap from the end of the block, so that the site does not get two requests at a
        time."""
        self._late += 1
        try:
            with noted(self._turns, "a free connection", most):
                yield
        finally:
            self._late -= 1
            self._last_start = asyncio.get_running_loop().time()
            if self._worker is not None:
                self._worker.started()
            self._listener.wake()

    def over(self, request: Any) -> None:
        """Hears that a request has ended, in whatever way. A request that was not sent has cost nothing."""
        self._traffic.requests -= not state_of(request).was_sent

    def received(self) -> None:
        """Hears that the traffic has grown by an answer. If this spends the bytes of the budget, leases that
        have not started go back."""
        if self._worker is not None and spent_part(self._queue.budget, self._queue.spent, ("bytes",)):
            self._worker.lease_anew()

    def waits(self, since: float) -> Iterator[Wait]:
        """Yields what holds requests back, other than the reasons. The crawl has made no progress `since`
        that time."""
        if self._resting is not None:
            host = self._rests
            yield Wait(f"{host}, which has asked to be left alone", since, self._resting.when())
        yield from self._turns
        if self._worker is not None:
            yield from self._worker.waits(since)

    def check(self) -> None:
        """Raises BudgetError if a part of the budget is spent, and CancelledError if the crawl is over. A
        caller that makes many requests in a row asks this between them, from any thread."""
        if self.is_over:
            raise asyncio.CancelledError
        part = spent_part(self._queue.budget, self._queue.spent)
        if part is not None:
            raise self._exceeded(part)

    def obey(self, crawl_gap: Gap) -> None:
        """Keeps the gap that the site's robots.txt asks for, too."""
        if self._rules is not None:
            self._rules = replace(self._rules, crawl_gap=crawl_gap)

    def slow_down(self, spacing: float) -> None:
        """Keeps so many seconds between two requests from now on, or more."""
        if self._rules is not None:
            self.obey(self._rules.crawl_gap.at_least(Gap.of(min(spacing, LONGEST))))
            self._tell(self._keep_pace())

    # Requests aside

    async def may_go_on(self) -> None:
        """Returns when nothing holds requests back. Raises CancelledError if the crawl is over."""
        while self.reasons and not self.is_over:
            self._changed.clear()
            await self._changed.wait()
        if self.is_over:
            raise asyncio.CancelledError

    async def aside(self) -> None:
        """Returns when a request beside the queue, such as one that probes a site, has its turn. Raises
        BudgetError, QueueError, and CancelledError if the crawl is over."""
        left: float | None = inf
        while left is None or left > _NEAR:
            await self.may_go_on()
            left = await self._take_turn(_NEAR)
            if left is not None:
                with noted(self._turns, "its next turn at the host", left):
                    await self.wait(left)
        await self._keep_from_last()
        await self.may_go_on()

    async def _keep_from_last(self) -> None:
        """Returns when a request beside the queue may follow the last one, which may have started after its
        turn because this process had other work."""
        now, pace = asyncio.get_running_loop().time(), self.pace
        self._last_start = max(now, self._last_start + (0.0 if pace is None else pace.least))
        if self._worker is not None:
            self._worker.started(now - self._last_start)
        await self.wait(self._last_start - now)

    async def wait(self, seconds: float) -> None:
        """Returns after so many seconds. Raises CancelledError as soon as the crawl is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not self.is_over and until > loop.time():
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
        if self.is_over:
            raise asyncio.CancelledError

    # Requests to hosts that are not the map's own

    async def ask_at(self, host: str) -> None:
        """Lets the requests of the queue count in the limits of this host from now on, because all tiles of
        the map lie there, and not at the host of its page. Raises QueueError."""
        if self.is_elsewhere(host):
            self._host = host
            if self._queue.budget:
                await self._queue.allow(host, self._queue.budget)

    def is_elsewhere(self, host: str) -> bool:
        """Returns whether the requests of the queue count at another host than this one, so that a request to
        this one also has to keep the limits that the maps of this one share."""
        return self._rules is not None and host != self._host

    async def take_turn_at(self, host: str) -> None:
        """Returns when a request may start at a host that is not the map's own. It counts there until
        `leave`.

        Raises QueueError, CancelledError if the crawl is over, and TimeoutError if the requests of other maps
        have left it no place there for `NO_PLACE` seconds. The request does not count then.
        """
        concurrency, gap = self._limits_at(host)
        clock = asyncio.get_running_loop().time
        async with self._next_at.setdefault(host, asyncio.Lock()):
            is_taken, since = False, clock()
            no_place_since = since
            while not is_taken:
                assert self.pace is not None
                pace = replace(self.pace, host=host, host_concurrency=concurrency, host_gap=gap)
                is_taken, left = await self._queue.visit(pace)
                # Nobody knows when another map leaves a place. Then `left` is only the time to the next look.
                known = left if left > LOOK else None
                if known is not None:
                    no_place_since = clock() + known
                elif not is_taken and clock() - no_place_since >= NO_PLACE:
                    raise TimeoutError
                most = no_place_since + NO_PLACE - clock() if known is None else known
                try:
                    with noted(self._turns, f"its turn at {host}", most, since=since):
                        await self.wait(left)
                except asyncio.CancelledError:
                    if is_taken:
                        self.leave(host)
                    raise

    def _limits_at(self, host: str) -> tuple[int | None, Gap]:
        """Returns the concurrency and the gap of a host that is not the map's own. If maps.toml has become
        wrong, the limits count that it had before."""
        assert self._rules is not None
        with suppress(ConfigurationError):
            self._limits[host] = self._rules.limits_at(host)
        return self._limits.get(host, (self._rules.concurrency, NO_GAP))

    def leave(self, host: str) -> None:
        """Hears that a request has ended that has taken its turn at a host that is not the map's own."""
        self._tell(self._queue.leave(host))

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Returns whether this crawl may make the request that finds out whether a host is up again. After
        True no other crawl may do so for so many seconds. Ends the crawl if its budget is spent or the queue
        cannot go on."""
        try:
            return await self._queue.claim_probe(host, seconds) and await self._take_turn() is not None
        except BudgetError as error:
            self._end_for_all(error)
        except QueueError as error:
            self._listener.end(error)
        return False

    async def _take_turn(self, near: float = inf) -> float | None:
        """Returns the seconds until a request beside the queue may start. The request counts from now on if
        they are at most `near`. Returns None if the host rests, as another process has heard. Raises
        BudgetError and QueueError."""
        pace = self.pace
        if pace is None:
            return 0.0
        turn = await self._queue.take_turn(pace, near)
        if turn is None:
            raise self._exceeded(spent_part(self._queue.budget, self._queue.spent) or "requests")
        rests, waits = turn
        if rests:
            self._sit_out(pace.host, rests)
        return None if rests else waits

    # Rests and budgets

    def rest(self, host: str, seconds: float) -> None:
        """Lets nothing start for so many seconds, and tells the queue, so that no other process asks the host
        either."""
        self._sit_out(host, seconds)
        if self._looking is not None:
            self._tell(self._queue.rest(host, seconds))

    def _sit_out(self, host: str, seconds: float) -> None:
        """Holds everything back for so many seconds. If rests overlap, the one that ends last counts."""
        loop = asyncio.get_running_loop()
        self._rests = host
        if self._resting is None:
            if seconds >= WORTH_A_WORD:
                _logger.warning(
                    "%s has asked to be left alone: nothing is asked of it for %.0f s, then the harvest goes"
                    " on",
                    host,
                    seconds,
                )
        elif self._resting.when() >= loop.time() + seconds:
            return
        else:
            self._resting.cancel()
        self._resting = loop.call_later(seconds, self._rested)
        self.hold(Reason.RESTING)

    def _rested(self) -> None:
        self._resting = None
        self.let_go(Reason.RESTING)

    async def allow(self, budget: Budget) -> None:
        """Sets the budget of the run. Raises QueueError."""
        if budget and self._rules is not None:
            await self._queue.allow(self._host, budget)

    async def amend(self, rules: Rules, budget: Budget) -> None:
        """Sets other rules of the map, and another budget of its run. Raises QueueError."""
        assert self._rules is not None
        self._rules = replace(rules, crawl_gap=self._rules.crawl_gap)
        if budget or self._queue.budget:
            await self._queue.allow(self._host, budget, amends=True)
        await self.look()

    # Every second

    async def look(self) -> None:
        """Obeys the orders of a person, and the quiet hours. Raises QueueError."""
        orders = await orders_of(self._queue)
        # What the last answer has told may be older.
        self._told = None
        await self._hear(orders)

    async def _hear(self, orders: Orders) -> None:
        before, self._orders = self._orders, orders
        self._set(Reason.PAUSED, holds=self._orders.paused is not None)
        is_quiet = self._rules is not None and self._rules.gap_at(self._local_time()) is None
        if is_quiet and Reason.QUIET not in self.reasons:
            self._say_quiet()
        self._set(Reason.QUIET, holds=is_quiet)
        if not is_quiet:
            await self._keep_pace()
        self._say_orders(before, self._orders)
        if self._orders.stop != self._stop_before:
            self._stop_before = self._orders.stop
            self._obey_stop(self._orders.spent)
        try:
            await self._check_time()
            self._listener.check()
        except BudgetError as error:
            self._end_for_all(error)

    async def _look_on(self) -> None:
        while True:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(at_tick(now + LOOK - TICK) - now)
            told, self._told = self._told, None
            try:
                if told is not None and told[0] > asyncio.get_running_loop().time() - _NEWS:
                    await self._hear(told[1])
                else:
                    await self.look()
            except Exception as error:  # noqa: BLE001 - or nobody could pause or stop the crawl any more
                self._listener.end(as_queue_error(error))
                return

    async def _check_time(self) -> None:
        """Raises BudgetError if the time of the run is spent."""
        if self._queue.budget:
            await self._queue.tell()
            if spent_part(self._queue.budget, self._queue.spent, ("seconds",)) is not None:
                raise self._exceeded("seconds")

    async def _keep_pace(self) -> None:
        """Tells all processes of the map if another pace holds than before. The scheduler tells the first
        pace of a map, when it begins to offer requests."""
        pace = self.pace
        if pace is None or pace == self._pace or (self._worker is None and self._rules is not None):
            return
        await self._queue.set_pace(pace)
        self._pace = pace
        if self._worker is not None:
            self._worker.keep_apart(pace.least)
            # Leases ahead would be made at the new pace by each worker, without regard to the others.
            self._worker.lease_anew()

    def _set(self, reason: Reason, *, holds: bool) -> None:
        before = self.reasons
        self.reasons = before | {reason} if holds else before - {reason}
        if bool(before) is bool(self.reasons):
            return
        (self._traffic.pause if self.reasons else self._traffic.resume)()
        if not self.reasons and self._worker is not None:
            self._worker.lease_anew()
        self._changed.set()
        self._listener.wake()

    # The end

    def _obey_stop(self, spent: str | None) -> None:
        if self._has_ended:
            # This crawl has told all workers to stop itself.
            return
        if spent is None:
            _logger.info("a person has stopped %s", self._in_words)
        self._listener.end("stopped" if spent is None else self._exceeded(spent))

    def _end_for_all(self, error: BudgetError) -> None:
        if not self._has_ended:
            self._has_ended = True
            self.hold(Reason.SPENT)
            self._tell(stop(self._queue, error.reason))
            self._listener.end(error)

    def _exceeded(self, what: str) -> BudgetError:
        """Returns the error for a spent part of the budget, or for a reason that another worker has told."""
        reason = self._budget_in_words(what) if what in PARTS else what
        when = "tomorrow " if reason.startswith(OF_DAY) else ""
        message = f"{self._in_words} has reached its limit ({reason}); what was found is kept;"
        return BudgetError(f"{message} run it again {when}to go on", reason)

    def _budget_in_words(self, part: str) -> str:
        """Returns a part of the budget in words. If the daily budget has bounded it, returns the daily
        budget: what was left of that is a number that nobody has written."""
        rules, words = self._rules, self._queue.budget.in_words(part)
        if rules is not None and rules.daily_budget and rules.budget.in_words(part) != words:
            return f"{OF_DAY}: {rules.daily_budget.in_words(part)}"
        return f"budget: {words}"

    # Waiting and telling

    def _left(self, request: Any) -> float:
        """Returns the seconds that are left of the request's own delay. They are negative if it is over."""
        if self._delayed is None or self._delayed[0] is not request:
            gap = Gap.of(request.meta[DELAY])
            self._delayed = (request, gap.draw(random.random()))  # noqa: S311 - no secret
        return self._last_start + self._delayed[1] - asyncio.get_running_loop().time()

    def _wake_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._waited)

    def _waited(self) -> None:
        self._timer = None
        self._listener.wake()

    def _tell(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the coroutine, which tells the queue something. Ends the crawl if that fails."""

        async def told() -> None:
            try:
                await work
            except QueueError as error:
                self._listener.end(error)

        task = asyncio.ensure_future(told())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    # What a person reads

    def _say_orders(self, before: Orders, now: Orders) -> None:
        if now.paused is not None and now.paused != before.paused:
            _logger.warning(
                "%s is paused since %s: nothing is asked; `%s resume %s` lets it go on",
                self._in_words,
                now.paused,
                program(),
                self._name,
            )
        elif now.paused is None and before.paused is not None:
            _logger.info("%s goes on", self._in_words)
        if now.rate != before.rate:
            rate = f"the {self._kind}'s own again" if now.rate is None else rate_in_words(now.rate)
            _logger.info("the rate of %s, set by hand: %s", self._in_words, rate)

    def _say_quiet(self) -> None:
        assert self._rules is not None
        until = self._rules.quiet_until(self._local_time())
        assert until is not None
        _logger.warning(
            "map '%s' has quiet hours: nothing is asked until %s; `%s stop %s` ends the harvest",
            self._name,
            f"{until:%Y-%m-%d %H:%M %Z}",
            program(),
            self._name,
        )
