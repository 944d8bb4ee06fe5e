"""How a crawl behaves towards its host, and does what a person tells it while it runs."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tileharvest.errors import BudgetError, QueueError
from tileharvest.maps.budgets import OF_DAY, PARTS, Budget
from tileharvest.maps.rates import NO_GAP, Gap, rate_in_words
from tileharvest.politeness.gate import Gate, Reason
from tileharvest.politeness.pace import Pace
from tileharvest.queue import directions
from tileharvest.queue.allowance import Allowance
from tileharvest.scheduler.resting import sit_out
from tileharvest.scheduler.steering import Steering
from tileharvest.scheduler.turn import Turn, wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tileharvest.politeness.rules import Rules
    from tileharvest.queue.directions import Directions
    from tileharvest.queue.pace import PacedQueue
    from tileharvest.scheduler.worker import QueueWorker

_logger = logging.getLogger(__name__)


class Conduct:
    """Of one crawl. What decides at once is `may_offer` and `comes`; everything else takes its time.

    `wake` is called when a request may start that had to wait; `stop` once when all is to end, with what
    ended it, None if a person did; `failed` when the queue cannot go on.
    """

    def __init__(
        self,
        queue: PacedQueue,
        name: str,
        *,
        rules: Rules | None,
        local_time: Callable[[], datetime],
        clock: Callable[[], float],
        wake: Callable[[], None],
        stop: Callable[[BudgetError | None], None],
        failed: Callable[[QueueError], None],
        traffic: Any = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock` in seconds since 1970. `traffic` knows for how long was worked; it stands still while
        nothing may start. `check` raises BudgetError where something else than the budget ends the crawl."""
        self._queue = queue
        self._name = name
        self._courtesy = rules
        self._host_gap = NO_GAP if rules is None else rules.host_gap
        self._local_time = local_time
        self._clock = clock
        self._wake = wake
        self._stop = stop
        self._failed = failed
        self._traffic = traffic
        self._check_besides = check
        self.gate = Gate(self._gate_changed)
        self._turn = Turn(clock=time.monotonic, random=random.random, wake=wake)
        self._budget = Budget()
        self._worked_before = 0.0
        """Seconds for which the run had been worked for when this worker began."""
        self._steering = Steering(
            queue,
            self.gate,
            gap_at=self._gap_at,
            paced=self._paced,
            stopped=self._told_to_stop,
            said=self._said,
            quiet=self._say_quiet,
            failed=failed,
            check=self._check,
        )
        self._exchanging: QueueWorker | None = None
        self._last_aside = float("-inf")
        self._changed = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None
        self._returning: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    async def begin(self) -> None:
        """Hear what a person has told the map, and go on hearing. Raises QueueError."""
        if self.gate.is_open and self._traffic is not None:
            self._traffic.start()
        await self._steering.begin()

    async def allow(self, budget: Budget) -> None:
        """Spend no more than this from now on. Raises QueueError."""
        if not budget:
            return
        await self._queue.open_purse(budget)
        self._budget = budget
        if budget.requests is not None or budget.received_bytes is not None:
            self._turn.allowance = Allowance(
                self._queue, budget, more=self._wake, spent=self._spent, failed=self._failed
            )

    @property
    def is_over(self) -> bool:
        """Whether the crawl is about to end, or has ended."""
        return self._over.is_set()

    async def may_go_on(self) -> None:
        """Returns when nothing holds requests back. Raises CancelledError when the crawl is over: whoever
        waits for it is to end too."""
        while not (self.gate.is_open or self.is_over):
            self._changed.clear()
            await self._changed.wait()
        if self.is_over:
            raise asyncio.CancelledError

    async def aside(self) -> None:
        """The turn of a request that probes a site. Raises BudgetError, QueueError, and as `may_go_on`."""
        gap = (self._steering.gap or NO_GAP).at_least(self._host_gap)
        seconds = gap.draw(random.random())  # noqa: S311 - no secret
        await wait(min(seconds, self._last_aside + seconds - self._clock()), self._over)
        await self.may_go_on()
        # What another process has heard, or one that ended meanwhile, holds for this one's first request too.
        while self._courtesy is not None and await sit_out(self._queue, self._courtesy.host, self._over):
            await self.may_go_on()
        self._last_aside = self._clock()
        if not await self._may_spend(1):
            raise self._exceeded("requests")

    async def received_aside(self, received_bytes: int) -> None:
        """So long was the answer to it. Raises BudgetError and QueueError."""
        if not await self._may_spend(received_bytes=received_bytes):
            raise self._exceeded("bytes")

    async def may_probe(self) -> bool:
        """Whether a request may be made although none may start: one that finds out whether a host is back.
        The crawl ends where the budget does not allow it. Raises QueueError."""
        if await self._may_spend(1):
            return True
        self._spent("requests")
        return False

    async def _may_spend(self, requests: int = 0, received_bytes: int = 0) -> bool:
        allowance = self._turn.allowance
        return allowance is None or await allowance.take(requests, received_bytes)

    def obey(self, crawl_gap: Gap) -> None:
        """Keep what the site's robots.txt asks for, too."""
        if self._courtesy is not None:
            self._courtesy = replace(self._courtesy, crawl_gap=crawl_gap)

    @property
    def pace(self) -> Pace | None:
        """At which requests are to be offered now; None without a map."""
        rules = self._courtesy
        if rules is None:
            return None
        gap = self._gap_at(self._steering.now.rate)
        return Pace(
            rules.host,
            rules.concurrency,
            rules.gap if gap is None else gap,
            rules.host_concurrency,
            rules.host_gap,
        )

    def offers(self, exchanging: QueueWorker, pace: Pace) -> None:
        """From now on requests are offered, at this pace."""
        self._exchanging = exchanging
        self._keep(pace)
        self._steering.offered(pace.gap)
        if self._last_aside > 0:
            exchanging.wait_until(self._last_aside + pace.least)

    def may_offer(self) -> bool:
        """Whether any request may start."""
        return self.gate.is_open

    def comes(self, request: Any) -> bool:
        """Whether it is the turn of this request; if so it is taken for started."""
        return self._turn.comes(request)

    def over(self, request: Any) -> None:
        """The request has ended, however."""
        self._turn.over(request)

    def idles(self) -> None:
        """Nothing is to be done at the moment: what may be spent is left to the other workers."""
        if self._turn.allowance is not None and (self._returning is None or self._returning.done()):
            self._returning = asyncio.ensure_future(self._give_back(self._turn.allowance))

    async def _give_back(self, allowance: Allowance) -> None:
        try:
            await allowance.give_back()
        except QueueError as error:
            self._failed(error)

    async def end(self) -> None:
        """Nothing further starts. Raises QueueError."""
        self.cut_short()
        await self._steering.end()
        last = [task for task in (self._telling, self._returning) if task is not None]
        if last:
            await asyncio.wait(last)
        if self._turn.allowance is not None:
            await self._turn.allowance.give_back()

    def cut_short(self) -> None:
        """Nobody waits any more for what is held back."""
        self._over.set()
        self._changed.set()
        self._turn.stop()

    def _gap_at(self, by_hand: Gap | None) -> Gap | None:
        if self._courtesy is None:
            return by_hand or NO_GAP
        return self._courtesy.gap_at(self._local_time(), by_hand=by_hand)

    async def _paced(self, gap: Gap) -> None:
        pace = self.pace
        if self._exchanging is not None and pace is not None:
            pace = replace(pace, gap=gap)
            await self._queue.set_pace(pace)
            self._keep(pace)
            # Or each worker would go on with what it has leased ahead, at the new pace but beside the others.
            self._exchanging.lease_anew()

    def _keep(self, pace: Pace) -> None:
        assert self._exchanging is not None
        self._exchanging.keep_apart(pace.least)

    def _gate_changed(self) -> None:
        if self._traffic is not None:
            (self._traffic.resume if self.gate.is_open else self._traffic.pause)()
        self._changed.set()
        if self.gate.is_open and self._exchanging is not None:
            self._exchanging.lease_anew()
        self._wake()

    def _said(self, before: Directions, now: Directions) -> None:
        if now.paused is not None and now.paused != before.paused:
            _logger.warning(
                "map '%s' is paused since %s: nothing is asked; `scrapy resume %s` lets it go on",
                self._name,
                now.paused,
                self._name,
            )
        elif now.paused is None and before.paused is not None:
            _logger.info("map '%s' goes on", self._name)
        if now.rate != before.rate:
            rate = "the map's own again" if now.rate is None else rate_in_words(now.rate)
            _logger.info("the rate of map '%s', set by hand: %s", self._name, rate)

    def _say_quiet(self) -> None:
        assert self._courtesy is not None
        until = self._courtesy.quiet_until(self._local_time())
        assert until is not None
        _logger.warning(
            "map '%s' has quiet hours: nothing is asked until %s; `scrapy stop %s` ends the harvest",
            self._name,
            f"{until:%Y-%m-%d %H:%M %Z}",
            self._name,
        )

    def _told_to_stop(self, spent: str | None) -> None:
        if self._telling is not None:
            # It has told itself, with all others.
            return
        if spent is None:
            _logger.info("a person has stopped map '%s'", self._name)
        self._stop(None if spent is None else self._exceeded(spent))

    async def _check(self) -> None:
        try:
            if self._budget.seconds is not None and await self._is_time_spent():
                raise self._exceeded("seconds")
            self._check_besides()
        except BudgetError as error:
            self._end_for_all(error)

    async def _is_time_spent(self) -> bool:
        own = self._traffic.worked
        run = await self._queue.worked(self._worked_before + own)
        self._worked_before = run.seconds - own
        return run.is_spent

    def _spent(self, what: str) -> None:
        self._end_for_all(self._exceeded(what))

    def _end_for_all(self, error: BudgetError) -> None:
        if self._telling is None:
            self.gate.hold(Reason.SPENT)
            self._telling = asyncio.ensure_future(self._tell_all(error))
            self._stop(error)

    async def _tell_all(self, error: BudgetError) -> None:
        try:
            await directions.stop(self._queue, error.reason)
        except QueueError as failure:
            self._failed(failure)

    def _exceeded(self, what: str) -> BudgetError:
        """For the name of a budget's part, or for a reason that another worker has told."""
        reason = self._budget_in_words(what) if what in PARTS else what
        when = "tomorrow " if reason.startswith(OF_DAY) else ""
        message = f"map '{self._name}' has reached its limit ({reason}); what was found is kept;"
        return BudgetError(f"{message} run it again {when}to go on", reason)

    def _budget_in_words(self, part: str) -> str:
        """Not what was left of the day's, which is a number that nobody has written."""
        rules, words = self._courtesy, self._budget.in_words(part)
        if rules is not None and rules.daily_budget and rules.budget.in_words(part) != words:
            return f"{OF_DAY}: {rules.daily_budget.in_words(part)}"
        return f"budget: {words}"
