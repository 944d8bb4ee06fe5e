"""The leases of one worker: those that wait here for their start, and those under way. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tileharvest.queue.port import Lease

_SET_BACK: Final = 1.0
"""Seconds: a clock that is kept right step by step goes back by less."""


class Leases:
    """All moments are seconds of one clock, that of the queue's answers."""

    def __init__(self) -> None:
        self._plus: deque[Lease] = deque()
        self._others: deque[Lease] = deque()
        self._starts: deque[float] = deque()
        """Of the leases that wait: any of them may take the next, as it is the host that is spared."""
        self._held: dict[int, Lease] = {}
        self._rests_until = 0.0
        self._spacing = 0.0
        self._next_start = float("-inf")
        self._now = float("-inf")

    def see(self, now: float) -> None:
        """The present moment. Where the clock was set back, what was to come goes back with it: else nothing
        would start for as long as it went back."""
        back = self._now - now
        if back > _SET_BACK:
            self._starts = deque(start - back for start in self._starts)
            self._rests_until -= back
            self._next_start -= back
        self._now = now

    @property
    def held(self) -> Collection[Lease]:
        """Those that wait, and those under way."""
        return self._held.values()

    @property
    def waiting(self) -> int:
        """How many have not started."""
        return len(self._starts)

    @property
    def earliest(self) -> float | None:
        """When the next one may start; None while none waits."""
        if not self._starts:
            return None
        return max(self._starts[0], self._rests_until, self._next_start)

    def add(self, leases: Iterable[Lease], rests_until: float | None) -> None:
        """They wait from now on, and the host rests until then."""
        for lease in leases:
            self._held[lease.id] = lease
            (self._plus if lease.priority > 0 else self._others).append(lease)
            self._starts.append(lease.start)
        self._rests_until = rests_until or 0.0

    def take(self, now: float) -> Lease:
        """The next one, which starts now: the plus lane goes before whatever was leased earlier. To be called
        only when one waits, and at its moment."""
        self._starts.popleft()
        self._next_start = now + self._spacing
        return (self._plus or self._others).popleft()

    def let_go(self, lease: Lease) -> None:
        """Of one that was lost, and then leased again to this same worker, the second is held on to."""
        if self._held.get(lease.id) is lease:
            del self._held[lease.id]

    def unstarted(self) -> list[Lease]:
        """Those that wait."""
        return [*self._plus, *self._others]

    def withdraw(self) -> list[Lease]:
        """Those that waited, and now do not; they are held until they are let go."""
        withdrawn = self.unstarted()
        for waiting in (self._plus, self._others, self._starts):
            waiting.clear()
        return withdrawn

    def keep_apart(self, seconds: float) -> None:
        """Let so much be between two starts, the last one included; also those that are late keep it."""
        self._next_start += seconds - self._spacing
        self._spacing = seconds

    def wait_until(self, moment: float) -> None:
        """Nothing starts before."""
        self._next_start = max(self._next_start, moment)
