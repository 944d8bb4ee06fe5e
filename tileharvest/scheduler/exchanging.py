"""Carries what a scheduler says to the queue, and what it may be asked for back, both at once.

The scheduler is called synchronously and must not block; the queue is asynchronous. So pushes, finishes and
failures gather here, leases are fetched ahead, and one exchange at a time carries both. What was said first
is carried first, or together: children are never pushed after their parent is finished.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from tileharvest.errors import QueueError
from tileharvest.scheduler.port import Changes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileharvest.scheduler.port import Entry, Exchange, Lease, RequestQueue

_logger = logging.getLogger(__name__)

LINGER: Final = 0.02
"""Seconds that news wait for others, where nobody waits for leases: a transaction costs as much as some
tens of requests in it."""

POLL: Final = 0.5
"""Seconds between two looks into the queue for what other programs have pushed, while a spider stays."""


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
    ) -> None:
        if ahead < 1:
            raise ValueError(f"{ahead} leases ahead offer nothing")
        self._queue = queue
        self._ahead = ahead
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._changed = changed
        self._failed = failed
        self._news = _News()
        self._plus: deque[Lease] = deque()
        self._others: deque[Lease] = deque()
        self._held: dict[int, Lease] = {}
        self._task: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._due: asyncio.TimerHandle | None = None
        self._alive: asyncio.Task[None] | None = None
        self._stopped = False
        self.next_due: float | None = None
        """When the next delayed request is due, in seconds since 1970."""
        self._may_have_more = True

    def start(self) -> None:
        """Begin to lease ahead, and to keep what is leased alive."""
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

    def finish(self, lease: Lease) -> None:
        self._news.finished.append(lease)
        del self._held[lease.id]
        self._tell()

    def give_back(self, lease: Lease) -> None:
        """It was started, but whether it is done is not known: it is offered again."""
        self._news.returned.append(lease)
        del self._held[lease.id]
        self._tell()

    def fail(self, lease: Lease, reason: str) -> None:
        self._news.failed.append((lease, reason))
        del self._held[lease.id]
        self._tell()

    def next_lease(self) -> Lease | None:
        """The next lease that is here; None while there is none, or none at all (see `is_empty`).

        The plus lane goes before whatever was leased ahead.
        """
        lease = self._plus.popleft() if self._plus else self._others.popleft() if self._others else None
        if self._wants_leases():
            self._begin()
        return lease

    @property
    def is_empty(self) -> bool:
        """Whether nothing is here, on its way, or in the queue and due."""
        return not (self._plus or self._others or self._news or self._task or self._may_have_more)

    def look_again(self) -> None:
        """Ask the queue whether it has something after all."""
        self._may_have_more = True
        self._begin()

    async def close(self) -> None:
        """Give back what was leased and not started, tell everything else, and let the queue go.

        Raises QueueError when it cannot be told; what was leased is then offered again at the next opening.
        """
        for timer in (self._linger, self._due, self._alive):
            if timer is not None:
                timer.cancel()
        self._stopped = True
        if self._task is not None:
            await asyncio.wait([self._task])
        self._news.returned.extend((*self._plus, *self._others))
        try:
            if self._news:
                await self._queue.exchange(self._news.taken(), 0, self._clock())
        finally:
            await self._queue.close()

    def _wants_leases(self) -> bool:
        return self._may_have_more and len(self._plus) + len(self._others) <= self._ahead // 2

    def _tell(self) -> None:
        if self._wants_leases():
            self._begin()
        elif self._linger is None and self._task is None and not self._stopped:
            self._linger = asyncio.get_running_loop().call_later(LINGER, self._begin)

    def _begin(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._task is None and not self._stopped:
            self._task = asyncio.ensure_future(self._exchange())

    async def _exchange(self) -> None:
        # Until now is over: what the engine says in the same moment goes along.
        await asyncio.sleep(0)
        wanted = max(0, self._ahead - len(self._plus) - len(self._others)) if self._may_have_more else 0
        changes = self._news.taken()
        self._may_have_more = False
        try:
            answer = await self._queue.exchange(changes, wanted, self._clock())
        except Exception as error:  # noqa: BLE001 - a mistake of ours must end the crawl, not hang it
            # Or the end of a parent could be told later without its children.
            self._news.put_back(changes)
            self._task = None
            self._fail(error if isinstance(error, QueueError) else _unexpected(error))
            return
        self._task = None
        self._take_in(answer, wanted)
        self._changed(answer)
        # What came while it was under way, a wish to look again among it, began nothing.
        if self._news or self._wants_leases():
            self._tell()

    def _take_in(self, answer: Exchange, wanted: int) -> None:
        for lease in answer.leases:
            self._held[lease.id] = lease
            (self._plus if lease.priority > 0 else self._others).append(lease)
        # What was pushed meanwhile has set it already.
        self._may_have_more = self._may_have_more or 0 < wanted == len(answer.leases)
        self.next_due = answer.next_due
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if answer.next_due is not None:
            pause = max(0.0, answer.next_due - self._clock())
            self._due = asyncio.get_running_loop().call_later(pause, self.look_again)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            try:
                await self._queue.extend(list(self._held.values()), self._clock())
            except QueueError as error:
                self._fail(error)
                return

    def _fail(self, error: QueueError) -> None:
        if not self._stopped:
            self._stopped = True
            self._failed(error)


def _unexpected(error: Exception) -> QueueError:
    _logger.error("a mistake in the program stopped the queue", exc_info=error)
    return QueueError(f"the queue stopped ({error!r}); no request in it was lost: run again, and report this")


class _News:
    """What the queue was not told yet."""

    def __init__(self) -> None:
        self.pushed: list[Entry] = []
        self.taken_up: list[int] = []
        self.finished: list[Lease] = []
        self.failed: list[tuple[Lease, str]] = []
        self.returned: list[Lease] = []

    def __bool__(self) -> bool:
        return bool(self.pushed or self.taken_up or self.finished or self.failed or self.returned)

    def taken(self) -> Changes:
        """All of it; afterwards there is none."""
        changes = Changes(self.pushed, self.taken_up, self.finished, self.failed, self.returned)
        self.__init__()  # type: ignore[misc]
        return changes

    def put_back(self, changes: Changes) -> None:
        """What was taken and not told, before what was said since."""
        self.pushed[:0] = changes.pushed
        self.taken_up[:0] = changes.taken_up
        self.finished[:0] = changes.finished
        self.failed[:0] = changes.failed
        self.returned[:0] = changes.returned
