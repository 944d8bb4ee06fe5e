"""The worker's side of a queue: it pushes entries, leases ahead, ends leases, and keeps them alive.

Scrapy calls a scheduler synchronously, and a queue answers later. So what is pushed and what is over gathers
here, leases are fetched ahead, and one exchange at a time carries both. What was said first is carried first,
or together: children are never pushed after their parent is finished.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from tileharvest.errors import QueueError
from tileharvest.history.group_commit import at_tick
from tileharvest.politeness.waits import Wait
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.port import Changes, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tileharvest.errors import TileHarvestError
    from tileharvest.queue.port import Entry, Lease, RequestQueue

_logger = logging.getLogger(__name__)

LINGER: Final = 0.02
"""Seconds that what is to be told waits for more of it, where nobody waits for leases: a transaction costs as
much as some tens of requests in it."""

PATIENCE: Final = 2.0
"""Seconds that it waits at most where the host's limit lets nothing start yet. A kill makes a harvest ask
again for what has ended in this time."""

_FIRST: Final = 16
"""The requests that are leased ahead at first. A slow site leaves it there, so that the other workers of a
map have the rest, and a kill costs few requests an attempt."""

_OFTEN: Final = 0.5
"""Seconds. A worker that uses up its leases sooner leases twice as many from then on, as each exchange costs
as much as some tens of requests."""

_SELDOM: Final = 8 * _OFTEN
"""Seconds. A worker whose leases last for longer leases half as many from then on."""

_LONG: Final = 1.0
"""Seconds of a pause that may last until the next tick."""

HEARTBEATS: Final = 6
"""Heartbeats in the time of a lease: five may be missed."""

_SET_BACK: Final = 1.0
"""Seconds: a clock that is kept right step by step goes back by less."""


class WorkerListener(Protocol):
    """The scheduler, which makes the requests that a worker leases, as far as politeness lets it."""

    @property
    def in_flight(self) -> int:
        """How many requests are on the way."""
        ...

    @property
    def may_start(self) -> bool:
        """Whether any request may start soon. While none may, none are leased."""
        ...

    def exchanged(self, answer: Exchange) -> None:
        """The queue has answered."""
        ...

    def wake(self) -> None:
        """A lease that had to wait may start now."""
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

    Pure: all moments are seconds of one clock, that of the queue's answers.
    """

    def __init__(self) -> None:
        self._plus: deque[Lease] = deque()
        self._others: deque[Lease] = deque()
        self._starts: deque[float] = deque()
        """The starts that the waiting leases were given. Any of them may take the next one, as it is the host
        that is spared."""
        self._held: dict[int, Lease] = {}
        self._rests_until = 0.0
        self._spacing = 0.0
        self._next_start = float("-inf")
        self._now = float("-inf")
        """The moment at which one was last to be taken."""
        self.waiting = 0
        """How many leases have not started."""

    @property
    def held(self) -> Collection[Lease]:
        """The leases that wait, and those that are under way."""
        return self._held.values()

    @property
    def earliest(self) -> float | None:
        """When the next lease may start. None while none waits."""
        if not self._starts:
            return None
        return max(self._starts[0], self._rests_until, self._next_start)

    def add(self, leases: Iterable[Lease], rests_until: float | None) -> None:
        """Let them wait for their start, and the host rest until then."""
        for lease in leases:
            self._held[lease.id] = lease
            (self._plus if lease.priority > 0 else self._others).append(lease)
            self._starts.append(lease.start)
        self.waiting = len(self._starts)
        self._rests_until = rests_until or 0.0

    def take(self, now: float) -> Lease | None:
        """Returns the next lease, which starts now, or None where none waits or `earliest` is still to come.

        The plus lane goes before whatever was leased earlier. Where the clock was set back, what was to come
        goes back with it: otherwise nothing would start for as long as it went back.
        """
        back, self._now = self._now - now, now
        if back > _SET_BACK:
            self._starts = deque(start - back for start in self._starts)
            self._rests_until -= back
            self._next_start -= back
        if not self.waiting or max(self._starts[0], self._rests_until, self._next_start) > now:
            return None
        self._starts.popleft()
        self.waiting -= 1
        self._next_start = now + self._spacing
        return (self._plus or self._others).popleft()

    def let_go(self, leases: Iterable[Lease]) -> None:
        """These are over. Where one was lost and leased to this worker again, the second is still held."""
        for lease in leases:
            if self._held.get(lease.id) is lease:
                del self._held[lease.id]

    def withdraw(self) -> list[Lease]:
        """Returns the leases that waited. They wait no more, and are held until they are let go."""
        withdrawn = [*self._plus, *self._others]
        for waiting in (self._plus, self._others, self._starts):
            waiting.clear()
        self.waiting = 0
        return withdrawn

    def started(self, start: float) -> None:
        """One started then, which may be later than it was taken. The next one keeps apart from that."""
        self._next_start = max(self._next_start, start + self._spacing)

    def keep_apart(self, seconds: float) -> None:
        """Let so many seconds lie between two starts, the last one included. What is late keeps them too."""
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
        self._got_all = False
        """Whether the last exchange brought as many leases as were wanted."""
        self._ran_short = 0.0
        """When half of them had last started, on the event loop's clock."""
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._linger_seconds = linger
        self._heartbeat = lease_seconds / HEARTBEATS
        self._heard = clock()
        """When the queue last let every lease of this worker last for its full time."""
        self._untold = Changes()
        self._leases = Leases()
        self._exchanging: asyncio.Task[None] | None = None
        self._asked = 0.0
        """When the queue was last asked, on the event loop's clock."""
        self._alive: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._due: asyncio.TimerHandle | None = None
        self._start: asyncio.TimerHandle | None = None
        self._is_telling = False
        """Whether an exchange is under way, or begins by itself."""
        self._stopped = False
        self._may_have_more = True
        self.answer = Exchange(())
        """What the queue answered when it was last asked."""

    def start(self) -> None:
        """Begin to lease ahead, and to keep alive what is leased."""
        self._heard, self._ran_short = self._clock(), asyncio.get_running_loop().time()
        self._alive = asyncio.ensure_future(self._keep_alive())
        self._begin()

    async def close(self) -> None:
        """Give back what was leased and not started, tell everything else, and close the queue.

        Raises QueueError when the queue cannot be told. What was leased is then offered again at the next
        opening.
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
        self._untold.pushed += entries
        self._may_have_more = True
        self._tell()

    def take_up(self, failure: int) -> None:
        """Take the failure off the failure list."""
        self._untold.taken_up.append(failure)
        self._tell()

    def seeded(self) -> None:
        """All first requests have been pushed."""
        self._untold.is_seeded = True
        self._begin()

    def finish(self, *leases: Lease) -> None:
        self._untold.finished += leases
        self._tell()

    def fail(self, lease: Lease, reason: str) -> None:
        self._untold.failed.append((lease, reason))
        self._tell()

    def give_back(self, *leases: Lease) -> None:
        """They were not started. They are offered again."""
        self._untold.returned += leases
        self._tell()

    def cut_off(self, *leases: Lease) -> None:
        """They were started, and nobody knows whether they are done. They are offered again, as another
        attempt."""
        self._untold.cut_off += leases
        self._tell()

    # What may start, and when

    def next_lease(self) -> Lease | None:
        """Returns the next lease, which starts now, or None while none may start. The listener is told when
        one may. The plus lane goes before whatever was leased ahead."""
        now = self._clock()
        if now - self._heard > self._lease_seconds and self._leases.waiting:
            self._drop_lost(now)
        lease = self._leases.take(now)
        if lease is None and self._leases.earliest is not None:
            self._wait_for(self._leases.earliest - now)
        if self._is_short and self._wants_leases():
            self._begin()
        return lease

    def keep_apart(self, seconds: float) -> None:
        """Let so many seconds lie between two starts, the last one included. What is late keeps them too."""
        self._leases.keep_apart(seconds)
        if self._alive is not None:
            self.look_again()

    def started(self, ago: float = 0.0) -> None:
        """A request started so many seconds ago, from the queue or beside it. Less than none: it will."""
        self._leases.started(self._clock() - ago)

    def look_again(self) -> None:
        """Ask the queue whether it has something after all."""
        self._may_have_more = True
        self._begin()

    def lease_anew(self) -> None:
        """Give back what was leased and not started, and ask for new starts. Those that it had are over, and
        other workers, whose starts are over too, would take theirs at the same time."""
        if withdrawn := self._leases.withdraw():
            self.give_back(*withdrawn)
        if self._alive is not None:
            self.look_again()

    # What is left

    @property
    def is_told(self) -> bool:
        """Whether the queue has all that was pushed, and knows of all that is over."""
        return not (self._untold or self._exchanging)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is here, on its way here, or due in the queue."""
        return not (self._leases.waiting or self._untold or self._exchanging or self._may_have_more)

    @property
    def starts_nothing(self) -> bool:
        """Whether nothing can start any more, by the last answer: it is empty, and nothing is for later."""
        return self.is_empty and self.answer.next_due is None and self.answer.held_until is None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left, by the last answer: nothing starts, and nobody has a lease."""
        return self.starts_nothing and not self.holds_some

    @property
    def holds_some(self) -> bool:
        """Whether leases are here or on the way, or others have some, by the last answer."""
        return bool(self._leases.held) or self.answer.leased_elsewhere > 0

    def waits(self, since: float) -> Iterator[Wait]:
        """Yields for what, and until when, nothing can start here, by the last answer. Nothing has got on
        `since` then, on the event loop's clock."""
        if self._exchanging is not None:
            yield Wait("the queue", max(since, self._asked))
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

    @property
    def _is_short(self) -> bool:
        """Whether half of the leases that it may hold ahead have started."""
        return self._leases.waiting <= self._ahead // 2

    def _wants_leases(self) -> bool:
        return self._may_have_more and self._is_short and self._listener.may_start and not self._is_held

    @property
    def _is_held(self) -> bool:
        """Whether the host's limit has held something back, until later than now."""
        return self.answer.held_until is not None and self._clock() < self.answer.held_until

    def _tell(self) -> None:
        if self._is_telling or self._stopped:
            return
        if self._wants_leases():
            self._begin()
            return
        earliest = self._leases.earliest
        if self._is_held or (earliest is not None and self._clock() + self._linger_seconds < earliest):
            # Nothing can start that waits for this to be told.
            if self._linger is None:
                self._linger = asyncio.get_running_loop().call_later(PATIENCE, self._begin)
            return
        self._is_telling = True
        if self._linger is not None:
            self._linger.cancel()
        self._linger = asyncio.get_running_loop().call_later(self._linger_seconds, self._begin)

    def _begin(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._exchanging is None and not self._stopped:
            self._is_telling = True
            self._asked = asyncio.get_running_loop().time()
            self._exchanging = asyncio.ensure_future(self._exchange())

    async def _exchange(self) -> None:
        # Let this moment pass: what the engine says in it goes along.
        await asyncio.sleep(0)
        may_lease = self._may_have_more and self._listener.may_start
        if may_lease and self._is_short and self._got_all:
            self._fit_ahead()
        wanted = max(0, self._ahead - self._leases.waiting) if may_lease else 0
        changes = self._taken()
        # An exchange that asks for nothing, as enough is leased ahead, does not learn what there is.
        self._may_have_more = self._may_have_more and not wanted
        try:
            answer = await self._queue.exchange(changes, wanted, self._clock())
        except Exception as error:  # noqa: BLE001 - a mistake of ours must end the crawl, not hang it
            # Otherwise the end of a parent could be told later without its children.
            changes.go_on(self._untold)
            self._untold = changes
            self._exchanging = None
            self._fail(as_queue_error(error))
            return
        self._exchanging, self._is_telling = None, False
        self._take_in(answer, wanted)
        self._listener.exchanged(answer)
        # What was said while the exchange was under way, or a wish to look again, has begun none.
        if self._untold or self._wants_leases():
            self._tell()

    def _fit_ahead(self) -> None:
        """Fit the number of leases ahead to the speed at which they are used up."""
        now = asyncio.get_running_loop().time()
        lasted, self._ran_short = now - self._ran_short, now
        if lasted < _OFTEN:
            self._ahead = min(2 * self._ahead, self._most_ahead)
        elif lasted > _SELDOM:
            self._ahead = max(self._ahead // 2, min(_FIRST, self._most_ahead))

    def _taken(self) -> Changes:
        """Returns what the queue is to be told now."""
        told, self._untold = self._untold, Changes()
        told.in_flight, told.ahead = self._listener.in_flight, self._leases.waiting
        self._leases.let_go(told.ended)
        return told

    def _take_in(self, answer: Exchange, wanted: int) -> None:
        # This comes first, because what was lost may be among what is leased now.
        self._drop_lost(self._clock())
        self._leases.add(answer.leases, answer.rests_until)
        self._got_all = 0 < wanted == len(answer.leases)
        # What was pushed meanwhile has set it already.
        self._may_have_more = self._may_have_more or self._got_all
        self.answer = answer
        if self._due is not None:
            self._due.cancel()
            self._due = None
        later = [moment for moment in (answer.next_due, answer.held_until) if moment is not None]
        if later:
            pause, loop = max(0.0, min(later) - self._clock()), asyncio.get_running_loop()
            due = loop.time() + pause
            self._due = loop.call_at(due if pause < _LONG else at_tick(due), self.look_again)

    def _wait_for(self, seconds: float) -> None:
        # The timer is set anew each time, because the start may have become sooner.
        if self._start is not None:
            self._start.cancel()
        self._start = asyncio.get_running_loop().call_later(seconds, self._listener.wake)

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
            self._listener.end(error)


def as_queue_error(error: Exception) -> QueueError:
    """Returns the error itself. A mistake in the program is logged, and becomes an error for a person."""
    if isinstance(error, QueueError):
        return error
    _logger.error("a mistake in the program stopped the queue", exc_info=error)
    return QueueError(f"the queue stopped ({error!r}); no request in it was lost: run again, and report this")
