"""The cost of a harvest: the value, and the meter that counts it while a process works."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from operator import add, attrgetter, sub
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Cost:
    """What was asked of a site, what came back, and how long that took. Costs can be added and subtracted."""

    requests: int = 0
    """Retries, redirects and probes included."""
    received_bytes: int = 0
    """Bytes of bodies; the answer to a HEAD has none."""
    stored_bytes: int = 0
    """Bytes of images that were put into the store and were not there before."""
    spared_bytes: int = 0
    """Bytes, by the history, of known images that were not fetched because their ETag was unchanged."""
    seconds: float = 0.0
    """Seconds that processes worked, added up; their pauses do not count."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(add, _PARTS(self), _PARTS(other)))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*map(sub, _PARTS(self), _PARTS(other)))

    @property
    def is_time_alone(self) -> bool:
        """Whether at most time was spent."""
        return not (self.requests or self.received_bytes or self.stored_bytes or self.spared_bytes)


_PARTS: Final = attrgetter(*(part.name for part in fields(Cost)))
"""`dataclasses.astuple` copies each part, which takes ten times as long."""

NO_COST: Final = Cost()


@dataclass(slots=True)
class Traffic:
    """Counts what one process costs. Whoever causes a cost adds it to its field; `take` hands it on.

    Used from one thread. It counts time from `start` on. `pause` and `resume` may be called twice. After a
    `pause` before `start` the time stands still until `resume`.
    """

    requests: int = 0
    received_bytes: int = 0
    stored_bytes: int = 0
    spared_bytes: int = 0
    seconds: float = 0.0
    """Seconds worked until the last pause; `worked` is the whole. May be added to."""
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    """Seconds that never go backwards."""
    _started: bool = field(default=False, init=False, repr=False)
    _paused: bool = field(default=False, init=False, repr=False)
    _since: float | None = field(default=None, init=False, repr=False)
    """The clock's time since which it works; None while the time stands still."""
    _taken: Cost = field(default=NO_COST, init=False, repr=False)
    """All that `take` has returned so far."""

    @property
    def worked(self) -> float:
        """Seconds from `start` until now, pauses left out."""
        return self.seconds if self._since is None else self.seconds + self.clock() - self._since

    @property
    def total(self) -> Cost:
        """All costs of this process so far."""
        return Cost(self.requests, self.received_bytes, self.stored_bytes, self.spared_bytes, self.worked)

    def start(self) -> None:
        """Begins to count the time worked."""
        self._started = True
        self._go_on()

    def pause(self) -> None:
        """Lets the time stand still."""
        self._paused = True
        self.seconds, self._since = self.worked, None

    def resume(self) -> None:
        """Lets the time go on after a pause."""
        self._paused = False
        self._go_on()

    def take(self) -> Cost:
        """Returns the cost since this was last called."""
        before, self._taken = self._taken, self.total
        return self._taken - before

    def _go_on(self) -> None:
        if self._started and not self._paused and self._since is None:
            self._since = self.clock()
