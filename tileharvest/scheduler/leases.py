"""The leases of one worker: which of them starts next, and when. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tileharvest.queue.port import Lease

_SET_BACK: Final = 1.0
"""Seconds: a clock that is kept right step by step goes back by less."""


class Leases:
    """Those that wait here for their start, and those that are under way.

    All moments are seconds of one clock, that of the queue's answers.
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

    def let_go(self, lease: Lease) -> None:
        """The lease is over. Where it was lost and leased to this worker again, the second is still held."""
        if self._held.get(lease.id) is lease:
            del self._held[lease.id]

    def unstarted(self) -> list[Lease]:
        """Returns the leases that wait."""
        return [*self._plus, *self._others]

    def withdraw(self) -> list[Lease]:
        """Returns the leases that waited. They wait no more, and are held until they are let go."""
        withdrawn = self.unstarted()
        for waiting in (self._plus, self._others, self._starts):
            waiting.clear()
        self.waiting = 0
        return withdrawn

    def keep_apart(self, seconds: float) -> None:
        """Let so many seconds lie between two starts, the last one included. What is late keeps them too."""
        self._next_start += seconds - self._spacing
        self._spacing = seconds

    def wait_until(self, moment: float) -> None:
        """Let nothing start before the moment."""
        self._next_start = max(self._next_start, moment)
