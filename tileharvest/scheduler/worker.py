"""The worker's side of a queue: it pushes entries, leases ahead, ends leases, and keeps them alive.

Scrapy calls a scheduler synchronously, and a queue answers later. So changes gather here, and leases are
fetched ahead. One exchange at a time carries both. Changes are told together or in the order in which they
came: children are never pushed after their parent is finished.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from tileharvest.errors import QueueError
from tileharvest.history.group_commit import at_tick
from tileharvest.politeness.waits import Wait
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.port import Changes, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tileharvest.errors import TileHarvestError
    from tileharvest.queue.port import Entry, Lease, RequestQueue

_logger = logging.getLogger(__name__)

LINGER: Final = 0.02
"""Seconds for which changes wait for more changes if nobody waits for leases. A transaction costs as much as
some tens of requests in it."""

_SEEDING: Final = 0.5
"""The most seconds for which the first requests of a harvest wait for each other. Mostly they are a few, and
come within some turns of an event loop that is busy with other maps."""

PATIENCE: Final = 4.0
"""The most seconds for which changes wait if the host's limit lets nothing start yet. After a kill a harvest
asks again for what has ended in this time."""

_FIRST: Final = 16
"""The requests that are leased ahead at first. A slow site leaves it there, so that the other workers of a
map have the rest, and a kill costs few requests an attempt."""

_OFTEN: Final = 0.5
"""Seconds. A worker that uses up its leases sooner leases twice as many from then on, as each exchange costs
as much as some tens of requests. If changes linger for longer, the time for which they linger counts instead,
so that a shared queue is asked rarely."""

_SELDOM: Final = 8 * _OFTEN
"""Seconds. A worker whose leases last for longer leases half as many from then on, and gives back the
others. It is at least twice the time for which changes linger, so that half as many leases still last for
that time."""

_LONG: Final = 1.0
"""Seconds. A longer pause may last until the next tick."""

HEARTBEATS: Final = 6
"""The heartbeats in the time of a lease. Five of them may be missed."""

_SET_BACK: Final = 1.0
"""Seconds. A clock that goes back by more was set back; one that is kept right in small steps goes back by
less."""


class WorkerListener(Protocol):
    """The scheduler, which makes the requests that a worker leases, as far as politeness lets it."""

    @property
    def in_flight(self) -> int:
        """The number of requests on the way."""
        ...

    @property
    def taken(self) -> int:
        """The number of leases that were taken, and whose requests have not started."""
        ...

    @property
    def may_start(self) -> bool:
        """Whether any request may start. If none may, no more are leased."""
        ...

    def exchanged(self, answer: Exchange) -> None:
        """Hears that the queue has answered."""
        ...

    def wake(self) -> None:
        """Hears that a request that had to wait may start now."""
        ...

    def check(self) -> None:
        """Raises BudgetError if something else than the budget ends the crawl. It is asked every second."""
        ...

    def end(self, why: TileHarvestError | str) -> None:
        """Ends the crawl: for a queue that cannot go on, for a spent budget, or as `stopped` by a person.
        What was leased is offered again when the queue is next opened."""
        ...


class Leases:
    """The leases of one worker: those that wait for their start, and those that are under way.

    Pure. All times are seconds on the clock of the queue's answers.
    """

    def __init__(self) -> None:
        self._plus: deque[Lease] = deque()
        self._others: deque[Lease] = deque()
        self._starts: deque[float] = deque()
        """The starts that the queue has given to the waiting leases, in order. Any lease may take the next
        one, because a start spares the host, whichever request is made."""
        self._held: dict[int, Lease] = {}
        self._rests_until = -inf
        self._spacing = 0.0
        self._next_start = -inf
        self._now = -inf
        """When `take` was last called."""
        self.waiting = 0
        """The number of leases that have not started."""

    @property
    def held(self) -> Collection[Lease]:
        """The leases that wait, and those that are under way."""
        return self._held.values()

    @property
    def earliest(self) -> float | None:
        """When the next lease may start. None if none waits."""
        if not self._starts:
            return None
        return max(self._starts[0], self._rests_until, self._next_start)

    @property
    def second(self) -> float | None:
        """When the lease after the next one may start at the earliest. None if no two leases wait."""
        if len(self._starts) < 2:
            return None
        return max(self._starts[1], (self.earliest or 0.0) + self._spacing)

    def add(self, leases: Iterable[Lease], rests_until: float | None) -> None:
        """Lets leases wait for their starts. Nothing starts before `rests_until`; None ends a rest."""
        for lease in leases:
            self._held[lease.id] = lease
            (self._plus if lease.priority > 0 else self._others).append(lease)
            self._starts.append(lease.start)
        self.waiting = len(self._starts)
        self._rests_until = -inf if rests_until is None else rests_until

    def take(self, now: float, most: int) -> list[Lease]:
        """Returns the leases that start now, at most so many. There are none before `earliest`.

        The plus lane goes before leases of earlier exchanges. If the clock was set back, all starts are set
        back with it. Otherwise nothing would start for as long as the clock went back.
        """
        back, self._now = self._now - now, now
        if back > _SET_BACK:
            self._starts = deque(start - back for start in self._starts)
            self._rests_until -= back
            self._next_start -= back
        taken: list[Lease] = []
        while len(taken) < most and self._starts:
            if max(self._starts[0], self._rests_until, self._next_start) > now:
                break
            self._starts.popleft()
            self._next_start = now + self._spacing
            taken.append((self._plus or self._others).popleft())
        self.waiting = len(self._starts)
        return taken

    def put_back(self, leases: Sequence[Lease]) -> None:
        """Lets leases wait again, in front of the others, that were taken last and have not started."""
        for lease in reversed(leases):
            (self._plus if lease.priority > 0 else self._others).appendleft(lease)
            self._starts.appendleft(self._now)
        self.waiting = len(self._starts)
        self._next_start = self._now

    def let_go(self, leases: Iterable[Lease]) -> None:
        """Drops leases that have ended. If a lease was lost, and its request was leased to this worker again,
        the new lease stays."""
        for lease in leases:
            if self._held.get(lease.id) is lease:
                del self._held[lease.id]

    def withdraw(self, but: int = 0) -> list[Lease]:
        """Returns the leases that wait, except for the first `but` of them. What is returned waits no more,
        and is held until `let_go`."""
        withdrawn: list[Lease] = []
        while self.waiting > but:
            withdrawn.append((self._others or self._plus).pop())
            self._starts.pop()
            self.waiting -= 1
        withdrawn.reverse()
        return withdrawn

    def started(self, start: float) -> None:
        """Notes when a request really started, which may be later than when it was taken. The next one keeps
        the spacing from then on."""
        self._next_start = max(self._next_start, start + self._spacing)

    def keep_apart(self, seconds: float) -> None:
        """Lets so many seconds lie between two starts, the last start included, also when starts are late."""
        self._next_start += seconds - self._spacing
        self._spacing = seconds


class QueueWorker:
    """One worker of a queue. It is used from one event loop."""

    def __init__(
        self,
        queue: RequestQueue,
        listener: WorkerListener,
        *,
        ahead: int,
        lease_seconds: float,
        clock: Callable[[], float],
        linger: float = LINGER,
    ) -> None:
        """Holds at most `ahead` leases that have not started, and fewer at a slow site. The queue hears of
        this worker `HEARTBEATS` times in a lease."""
        if ahead < 1:
            raise ValueError(f"{ahead} leases ahead offer nothing")
        self._queue = queue
        self._listener = listener
        self._most_ahead = ahead
        self._ahead = min(ahead, _FIRST)
        """How many leases that have not started it holds at most for now."""
        self._since: float | None = None
        """Since when `_started` counts, on the event loop's clock. None until the next exchange has ended."""
        self._started = 0
        """The number of leases that have started since then."""
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._linger_seconds = linger
        self._often = max(_OFTEN, linger)
        self._seldom = max(_SELDOM, 2 * self._often)
        self._heartbeat = lease_seconds / HEARTBEATS
        self._heard = clock()
        """When the queue last let every lease of this worker last for its full time."""
        self._untold = Changes()
        self._leases = Leases()
        self._exchanging: asyncio.Task[None] | None = None
        self._asked = -inf
        """When the queue was last asked, on the event loop's clock."""
        self._alive: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._due: asyncio.TimerHandle | None = None
        self._start: asyncio.TimerHandle | None = None
        self._is_telling = False
        """Whether an exchange is under way, or begins by itself."""
        self._seeds = False
        """Whether this worker is pushing the first requests."""
        self._stopped = False
        self._may_have_more = True
        self.answer = Exchange(())
        """What the queue answered when it was last asked."""

    def start(self, *, seeds: bool = False) -> None:
        """Begins to lease ahead, and to extend the leases. If this worker `seeds`, the first requests are
        about to be pushed: they go along with the first exchange, and `seeded` tells that they are all
        there."""
        self._heard = self._clock()
        self._alive = asyncio.ensure_future(self._keep_alive())
        self._seeds = seeds
        if not seeds:
            self._begin()

    async def close(self) -> None:
        """Gives back the leases that have not started, tells all changes, and closes the queue.

        Raises QueueError if the queue cannot be told. All leases are then offered again at the next opening.
        """
        for timer in (self._linger, self._due, self._start):
            if timer is not None:
                timer.cancel()
        self._stopped = True
        if self._alive is not None:
            await cancel(self._alive)
        if self._exchanging is not None:
            await asyncio.wait([self._exchanging])
        self._untold.returned.extend(self._leases.withdraw())
        try:
            if self._untold:
                await self._queue.exchange(self._taken(), 0, self._clock())
        finally:
            await self._queue.close()

    # What the queue is told

    def push(self, *entries: Entry) -> None:
        """Queues these entries. Children must be pushed before their parent is finished."""
        self._untold.pushed += entries
        self._may_have_more = True
        self._tell()

    def take_up(self, failure: int) -> None:
        """Removes a failure from the failure list."""
        self._untold.taken_up.append(failure)
        self._tell()

    def seeded(self) -> None:
        """Tells that all first requests have been pushed."""
        self._untold.is_seeded, self._seeds = True, False
        self._begin()

    def finish(self, *leases: Lease) -> None:
        """Ends leases whose requests are done."""
        self._untold.finished += leases
        self._tell()

    def fail(self, lease: Lease, reason: str) -> None:
        """Ends a lease, and puts its request into the failure list."""
        self._untold.failed.append((lease, reason))
        self._tell()

    def give_back(self, *leases: Lease) -> None:
        """Ends leases that were never started. Their requests are offered again."""
        self._untold.returned += leases
        self._tell()

    def cut_off(self, *leases: Lease) -> None:
        """Ends leases that were started, and of which nobody knows whether they are done. Their requests are
        offered again, as another attempt."""
        self._untold.cut_off += leases
        self._tell()

    # What may start, and when

    def next_leases(self, most: int) -> list[Lease]:
        """Returns the leases that start now, at most so many. The listener hears when the next one may start,
        unless that may start now, too. The plus lane goes before everything else that was leased ahead."""
        now = self._clock()
        if now - self._heard > self._lease_seconds and self._leases.waiting:
            self._drop_lost(now)
        taken = self._leases.take(now, most)
        self._started += len(taken)
        earliest = self._leases.earliest
        if earliest is not None and earliest > now:
            self._wait_for(earliest - now)
        return taken

    def put_back(self, leases: Sequence[Lease]) -> None:
        """Lets leases wait again that `next_leases` has just returned, and that do not start yet."""
        self._started -= len(leases)
        self._leases.put_back(leases)

    def lease_more(self) -> None:
        """Begins to lease more if it is time to. Call this after `next_leases`, when it is known which leases
        start."""
        if self._wants_leases():
            self._begin()

    @property
    def awaits_start(self) -> bool:
        """Whether a lease waits for its start here. Since `next_leases` the listener hears when that
        comes."""
        return self._leases.waiting > 0

    @property
    def may_start_several(self) -> bool:
        """Whether more than one lease may start now."""
        second = self._leases.second
        return second is not None and second <= self._clock()

    def keep_apart(self, seconds: float) -> None:
        """Lets so many seconds lie between two starts, the last start included, also when starts are late."""
        self._leases.keep_apart(seconds)
        if self._alive is not None:
            self.look_again()

    def started(self, ago: float = 0.0) -> None:
        """Notes that a request started so many seconds ago, from the queue or beside it. A negative number is
        for a request that will start."""
        self._leases.started(self._clock() - ago)

    def look_again(self) -> None:
        """Asks the queue whether it has more by now."""
        self._may_have_more = True
        self._begin()

    def lease_anew(self) -> None:
        """Gives back the leases that have not started, and asks for new ones. Their starts are over. Other
        workers, whose starts are over, too, would make their requests at the same time."""
        self._since = None
        if withdrawn := self._leases.withdraw():
            self.give_back(*withdrawn)
        if self._alive is not None:
            self.look_again()

    # What is left

    @property
    def is_told(self) -> bool:
        """Whether the queue has heard of all changes."""
        return not (self._untold or self._exchanging)

    @property
    def is_empty(self) -> bool:
        """Whether no lease waits here, no change is to be told, and nothing is due in the queue."""
        return not (self._leases.waiting or self._untold or self._exchanging or self._may_have_more)

    @property
    def starts_nothing(self) -> bool:
        """Whether nothing can start any more, by the last answer: nothing is due, delayed or held back."""
        return self.is_empty and self.answer.next_due is None and self.answer.held_until is None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left, by the last answer: nothing starts any more, and nobody has a lease."""
        return self.starts_nothing and not self.holds_some

    @property
    def holds_some(self) -> bool:
        """Whether this worker has leases, or other workers had some by the last answer."""
        return bool(self._leases.held) or self.answer.leased_elsewhere > 0

    def waits(self, since: float) -> Iterator[Wait]:
        """Yields what keeps this worker from starting anything, by the last answer. The crawl has made no
        progress `since` that time, on the event loop's clock."""
        if self._exchanging is not None:
            yield Wait("the queue", max(since, self._asked), self._asked + self._queue.patience)
        answer, now = self.answer, self._clock()
        later = {"its next turn at the host": answer.held_until}
        if not self._leases.held:
            later["what is to be asked again later"] = answer.next_due
        for what, moment in later.items():
            if moment is not None and moment > now:
                yield Wait(what, since, asyncio.get_running_loop().time() + moment - now)
        if answer.leased_elsewhere and not self._leases.held:
            yield Wait("what other workers have under way", since)

    # The exchange

    def _wants_leases(self) -> bool:
        """Returns whether it is time to lease more: half of the leases that it may hold ahead have started,
        the queue may have more, and nothing holds it back. While this worker seeds, its pushes wait for each
        other for a moment instead."""
        is_short = self._leases.waiting <= self._ahead // 2 and not self._seeds
        return is_short and self._may_have_more and self._listener.may_start and not self._is_held

    @property
    def _is_held(self) -> bool:
        """Whether the last answer has held something back until a time that is still to come."""
        return self.answer.held_until is not None and self._clock() < self.answer.held_until

    def _tell(self) -> None:
        if self._is_telling or self._stopped:
            return
        if self._wants_leases():
            self._begin()
            return
        earliest = self._leases.earliest
        if self._is_held or (earliest is not None and self._clock() + self._linger_seconds < earliest):
            # Nothing can start before, so nothing waits for these changes.
            if self._linger is None:
                self._linger = asyncio.get_running_loop().call_later(PATIENCE, self._begin)
            return
        self._is_telling = True
        if self._linger is not None:
            self._linger.cancel()
        # If the queue has no more, other workers wait for what was pushed, or for the end.
        linger = self._linger_seconds if self._may_have_more else min(LINGER, self._linger_seconds)
        pause = _SEEDING if self._seeds else linger
        self._linger = asyncio.get_running_loop().call_later(pause, self._begin)

    def _begin(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._exchanging is None and not self._stopped:
            self._is_telling = True
            self._asked = asyncio.get_running_loop().time()
            self._exchanging = asyncio.ensure_future(self._exchange())

    async def _exchange(self) -> None:
        # Changes that the engine makes in this turn of the event loop go along.
        await asyncio.sleep(0)
        may_start = self._listener.may_start
        if may_start and self._since is not None:
            self._fit_ahead(2 * (asyncio.get_running_loop().time() - self._since))
        wanted = max(0, self._ahead - self._leases.waiting) if may_start and self._may_have_more else 0
        # An exchange that wants nothing does not learn whether there is more.
        self._may_have_more = self._may_have_more and not wanted
        changes = Changes()
        try:
            changes = self._taken()
            answer = await self._queue.exchange(changes, wanted, self._clock())
        except Exception as error:  # noqa: BLE001 - a mistake of ours must end the crawl, not hang it
            # They are told at `close`, in order: else a parent could be finished there without its children.
            changes.go_on(self._untold)
            self._untold = changes
            self._exchanging = None
            self._fail(as_queue_error(error))
            return
        self._exchanging, self._is_telling = None, False
        self._take_in(answer, wanted)
        self._listener.exchanged(answer)
        # Changes and wishes that came during the exchange have begun no other one.
        if self._untold or self._wants_leases():
            self._tell()

    def _fit_ahead(self, last: float) -> None:
        """Fits the number of leases ahead to the speed at which they are used up. They last for so many
        seconds, if half of them have started by now, and for longer if not. Does nothing if it is too early
        to tell."""
        if last > self._seldom:
            self._ahead = max(self._ahead // 2, min(_FIRST, self._most_ahead))
            if excess := self._leases.withdraw(but=self._ahead):
                self._untold.returned += excess
                self._may_have_more = True
        elif self._started < self._ahead // 2:
            return
        elif last < self._often:
            self._ahead = min(2 * self._ahead, self._most_ahead)
        # The time of a slow exchange does not count: a worker that runs dry during it needs more leases.
        self._since = None

    def _taken(self) -> Changes:
        """Returns the changes that the queue is to be told now, and begins new ones."""
        in_flight, taken = self._listener.in_flight, self._listener.taken
        told, self._untold = self._untold, Changes()
        told.in_flight, told.ahead = in_flight, self._leases.waiting + taken
        self._leases.let_go(told.ended)
        return told

    def _take_in(self, answer: Exchange, wanted: int) -> None:
        # This comes first, because requests of lost leases may be among the new leases.
        self._drop_lost(self._clock())
        self._leases.add(answer.leases, answer.rests_until)
        if self._since is None:
            self._since, self._started = asyncio.get_running_loop().time(), 0
        # A push during the exchange has set this already.
        self._may_have_more = self._may_have_more or 0 < wanted == len(answer.leases)
        self.answer = answer
        if self._due is not None:
            self._due.cancel()
            self._due = None
        now, may_start = self._clock(), self._listener.may_start
        # While nothing may start, a moment that is past wakes nobody: whoever lets requests start again asks.
        # An exchange that wants nothing would tell the same moment again, and so on without an end.
        moments = (answer.next_due, answer.held_until)
        later = [moment for moment in moments if moment is not None and (may_start or moment > now)]
        if later:
            pause, loop = max(0.0, min(later) - now), asyncio.get_running_loop()
            due = loop.time() + pause
            self._due = loop.call_at(due if pause < _LONG else at_tick(due), self.look_again)

    def _wait_for(self, seconds: float) -> None:
        # The timer is set anew each time, because the start may be sooner than before.
        if self._start is not None:
            self._start.cancel()
        self._start = asyncio.get_running_loop().call_later(seconds, self._listener.wake)

    def _drop_lost(self, now: float) -> None:
        """Leases anew if the leases may have expired, as after a process was stopped for long: others may
        have them now."""
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
            self._listener.end(error)


def as_queue_error(error: Exception) -> QueueError:
    """Returns the error if it is a QueueError. Any other is a mistake in the program: it is logged, and
    becomes a QueueError for a person."""
    if isinstance(error, QueueError):
        return error
    _logger.error("a mistake in the program stopped the queue", exc_info=error)
    return QueueError(f"the queue stopped ({error!r}); no request in it was lost: run again, and report this")
