"""Carries what a scheduler says to the queue, and what it may be asked for back, both at once.

The scheduler is called synchronously and must not block; the queue is asynchronous. So pushes, finishes and
failures gather here, leases are fetched ahead, and one exchange at a time carries both. What was said first
is carried first, or together: children are never pushed after their parent is finished.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from tileharvest.errors import QueueError
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.port import Exchange
from tileharvest.scheduler.leases import Leases
from tileharvest.scheduler.news import News

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.queue.port import Entry, Lease, RequestQueue

_logger = logging.getLogger(__name__)

LINGER: Final = 0.02
"""Seconds that news wait for others, where nobody waits for leases: a transaction costs as much as some
tens of requests in it."""

HEARTBEATS: Final = 3
"""Heartbeats in the time of a lease: two may be missed."""


class Exchanging:
    """The scheduler's side of a queue. Used from one event loop.

    `changed` is called after each exchange, with its answer; `failed` once, when the queue cannot go on:
    then nothing more is offered, and the leases are offered again when the queue is next opened.
    """

    def __init__(
        self,
        queue: RequestQueue,
        *,
        ahead: int,
        lease_seconds: float,
        clock: Callable[[], float],
        changed: Callable[[Exchange], None],
        failed: Callable[[QueueError], None],
        linger: float = LINGER,
        heartbeat: float | None = None,
        in_flight: Callable[[], int] = lambda: 0,
        may_lease: Callable[[], bool] = lambda: True,
    ) -> None:
        """`ahead` leases at most are here and not started. The queue hears of this worker every `heartbeat`
        seconds, by default a third of a lease. `in_flight` tells how many requests are on the way,
        `may_lease` whether any may start soon: else none are asked for."""
        if ahead < 1:
            raise ValueError(f"{ahead} leases ahead offer nothing")
        self._queue = queue
        self._ahead = ahead
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._changed = changed
        self._failed = failed
        self._linger_seconds = linger
        self._heartbeat = lease_seconds / HEARTBEATS if heartbeat is None else heartbeat
        self._in_flight = in_flight
        self._may_lease = may_lease
        self._heard = clock()
        """When the queue last let every lease of this worker last for its full time."""
        self._news = News()
        self._leases = Leases()
        self._task: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._due: asyncio.TimerHandle | None = None
        self._start: asyncio.TimerHandle | None = None
        self._alive: asyncio.Task[None] | None = None
        self._stopped = False
        self.next_due: float | None = None
        """When the next delayed request is due, in seconds since 1970."""
        self._may_have_more = True
        self._answer = Exchange(())

    def start(self) -> None:
        """Begin to lease ahead, and to keep what is leased alive."""
        self._heard = self._clock()
        self._alive = asyncio.ensure_future(self._keep_alive())
        self._begin()

    def push(self, entry: Entry) -> None:
        self._news.pushed.append(entry)
        self._may_have_more = True
        self._tell()

    def take_up(self, failure: int, entry: Entry | None) -> None:
        """Let a failure leave the failure list, and be offered again as that entry if there is one."""
        self._news.taken_up.append(failure)
        if entry is not None:
            self.push(entry)
        else:
            self._tell()

    def seeded(self) -> None:
        """All first requests have been pushed."""
        self._news.is_seeded = True
        self._begin()

    def finish(self, lease: Lease) -> None:
        self._news.finished.append(lease)
        self._leases.let_go(lease)
        self._tell()

    def give_back(self, lease: Lease) -> None:
        """It was started, but whether it is done is not known: it is offered again."""
        self._news.returned.append(lease)
        self._leases.let_go(lease)
        self._tell()

    def fail(self, lease: Lease, reason: str) -> None:
        self._news.failed.append((lease, reason))
        self._leases.let_go(lease)
        self._tell()

    def keep_apart(self, seconds: float) -> None:
        """Let so much be between two starts, the last one included; also those that are late keep it."""
        self._leases.keep_apart(seconds)
        if self._alive is not None:
            self.look_again()

    def wait_until(self, moment: float) -> None:
        """Nothing starts before, in seconds since 1970."""
        self._leases.wait_until(moment)

    def next_lease(self) -> Lease | None:
        """The next lease that is here and may be started; None while there is none, or none at all (see
        `is_empty`). `changed` is called when the next may be.

        The plus lane goes before whatever was leased ahead.
        """
        now = self._clock()
        self._leases.see(now)
        if self._leases.waiting:
            self._drop_lost(now)
        lease, earliest = None, self._leases.earliest
        if earliest is not None and earliest > now:
            self._wait_for(earliest - now)
        elif earliest is not None:
            lease = self._leases.take(now)
        if self._wants_leases():
            self._begin()
        return lease

    @property
    def is_empty(self) -> bool:
        """Whether nothing is here, on its way, or in the queue and due."""
        return not (self._leases.waiting or self._news or self._task or self._may_have_more)

    @property
    def others_work(self) -> bool:
        """Whether, when the queue was last asked, other workers held leases."""
        return self._answer.leased_elsewhere > 0

    @property
    def is_held_back(self) -> bool:
        """Whether, when the queue was last asked, the pace or a rest of the host held back what waits."""
        return self._answer.held_until is not None

    @property
    def is_done(self) -> bool:
        """Whether, when the queue was last asked, nothing was left: nobody's lease, nothing for later."""
        later = self._answer.next_due is not None or self._answer.held_until is not None
        return self.is_empty and not (later or self.holds_some)

    @property
    def holds_some(self) -> bool:
        """Whether leases are here, or on the way, or were elsewhere when the queue was last asked."""
        return bool(self._leases.held) or self.others_work

    def look_again(self) -> None:
        """Ask the queue whether it has something after all."""
        self._may_have_more = True
        self._begin()

    def lease_anew(self) -> None:
        """Give back what was leased and not started, and ask for new starts: those that it had are over, and
        other workers, whose starts are over too, would take theirs at the same time."""
        for lease in self._leases.withdraw():
            self.give_back(lease)
        if self._alive is not None:
            self.look_again()

    async def close(self) -> None:
        """Give back what was leased and not started, tell everything else, and let the queue go.

        Raises QueueError when it cannot be told; what was leased is then offered again at the next opening.
        """
        for timer in (self._linger, self._due, self._start):
            if timer is not None:
                timer.cancel()
        self._stopped = True
        if self._alive is not None:
            await cancel(self._alive)
        if self._task is not None:
            await asyncio.wait([self._task])
        self._news.returned.extend(self._leases.unstarted())
        try:
            if self._news:
                await self._queue.exchange(self._news.taken(self._in_flight()), 0, self._clock())
        finally:
            await self._queue.close()

    def _wants_leases(self) -> bool:
        return self._may_have_more and self._may_lease() and self._leases.waiting <= self._ahead // 2

    def _tell(self) -> None:
        if self._wants_leases():
            self._begin()
        elif self._linger is None and self._task is None and not self._stopped:
            self._linger = asyncio.get_running_loop().call_later(self._linger_seconds, self._begin)

    def _begin(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._task is None and not self._stopped:
            self._task = asyncio.ensure_future(self._exchange())

    async def _exchange(self) -> None:
        # Until now is over: what the engine says in the same moment goes along.
        await asyncio.sleep(0)
        may_lease = self._may_have_more and self._may_lease()
        wanted = max(0, self._ahead - self._leases.waiting) if may_lease else 0
        changes = self._news.taken(self._in_flight())
        # An exchange that asks for nothing, as enough is leased ahead, learns nothing of what there is.
        self._may_have_more = self._may_have_more and not wanted
        try:
            answer = await self._queue.exchange(changes, wanted, self._clock())
        except Exception as error:  # noqa: BLE001 - a mistake of ours must end the crawl, not hang it
            # Or the end of a parent could be told later without its children.
            self._news.put_back(changes)
            self._task = None
            self._fail(as_queue_error(error))
            return
        self._task = None
        self._take_in(answer, wanted)
        self._changed(answer)
        # What came while it was under way, a wish to look again among it, began nothing.
        if self._news or self._wants_leases():
            self._tell()

    def _take_in(self, answer: Exchange, wanted: int) -> None:
        # First: what was lost may be among what is leased now.
        self._drop_lost(self._clock())
        self._leases.add(answer.leases, answer.rests_until)
        # What was pushed meanwhile has set it already.
        self._may_have_more = self._may_have_more or 0 < wanted == len(answer.leases)
        self._answer = answer
        self.next_due = answer.next_due
        if self._due is not None:
            self._due.cancel()
            self._due = None
        later = [moment for moment in (answer.next_due, answer.held_until) if moment is not None]
        if later:
            pause = max(0.0, min(later) - self._clock())
            self._due = asyncio.get_running_loop().call_later(pause, self.look_again)

    def _wait_for(self, seconds: float) -> None:
        # Anew, as it may have become sooner.
        if self._start is not None:
            self._start.cancel()
        self._start = asyncio.get_running_loop().call_later(seconds, self._changed, Exchange(()))

    def _drop_lost(self, now: float) -> None:
        """After a long sleep, as of a process that was stopped, others may have what waits here."""
        if now - self._heard > self._lease_seconds:
            self._heard = now
            self.lease_anew()

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat)
            told = self._clock()
            try:
                await self._queue.extend(list(self._leases.held), told)
            except Exception as error:  # noqa: BLE001 - as for an exchange
                self._fail(as_queue_error(error))
                return
            self._heard = told

    def _fail(self, error: QueueError) -> None:
        if not self._stopped:
            self._stopped = True
            self._failed(error)


def as_queue_error(error: Exception) -> QueueError:
    """The error itself, or for a mistake in the program, which is logged, one that a person understands."""
    if isinstance(error, QueueError):
        return error
    _logger.error("a mistake in the program stopped the queue", exc_info=error)
    return QueueError(f"the queue stopped ({error!r}); no request in it was lost: run again, and report this")
