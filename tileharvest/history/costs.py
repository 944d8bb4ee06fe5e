"""Costs: the value, the meter that counts them while a process works, and what each map has cost on a day."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from math import inf
from operator import add, attrgetter, sub
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, select

from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import insert_into, maps, spending

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.database import History


@dataclass(frozen=True, slots=True)
class Cost:
    """The requests, bytes and seconds that a process has spent. Costs can be added and subtracted."""

    requests: int = 0
    """The number of requests, with retries, redirects and probes."""
    received_bytes: int = 0
    """Bytes of bodies; the answer to a HEAD has none."""
    stored_bytes: int = 0
    """Bytes of images that were put into the store and were not there before."""
    spared_bytes: int = 0
    """Bytes, by the history, of known images that were not fetched because their ETag was unchanged."""
    seconds: float = 0.0
    """Seconds that processes worked, added up. Their pauses do not count."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(add, _PARTS(self), _PARTS(other)))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*map(sub, _PARTS(self), _PARTS(other)))

    @property
    def is_time_alone(self) -> bool:
        """Whether nothing but time was spent, if anything."""
        return not (self.requests or self.received_bytes or self.stored_bytes or self.spared_bytes)


COST_COLUMNS: Final = tuple(part.name for part in fields(Cost))
"""The parts of a cost, which are columns of `harvests` and of `spending`."""
_PARTS: Final = attrgetter(*COST_COLUMNS)
"""Returns the parts of a cost. `dataclasses.astuple` would copy each of them, which takes ten times as
long."""

NO_COST: Final = Cost()


_FEWEST_AHEAD: Final = 16
"""The fewest requests that are counted ahead. Each is counted with the bytes of the dearest one so far. With
fewer, a fast site would be asked for more than is recorded before a transaction is done."""
_FIRST_AHEAD: Final = Cost(_FEWEST_AHEAD, _FEWEST_AHEAD << 15)
"""The cost that is counted ahead at first, when nobody knows how fast the site is asked and how large its
images are. It has 32 kB for each request, which is more than most tiles have."""
_TIMES_AHEAD: Final = 3
"""The cost that is counted ahead, as a multiple of the cost between the last two calls of `take`."""


@dataclass(slots=True)
class Traffic:
    """Counts what one process costs. Code that causes a cost adds it to a field, and `take` returns the sum.

    Between `count_ahead` and `settle`, `take` counts ahead: it also returns the requests and bytes that may
    come before its next call. No request may start beyond those that are recorded (`ask`). If the process is
    killed, all its requests are counted, however slow the database is. Requests beside the queue do not wait
    for that. Bytes are counted approximately, because nobody knows the size of answers that are on the way. A
    quarter of the bytes counted ahead is kept for these answers; a kill leaves uncounted what they have
    beyond that.

    Used from one thread. It counts time from `start` on. `pause` and `resume` may be called twice. After a
    `pause` before `start` the time stands still until `resume`.
    """

    requests: int = 0
    received_bytes: int = 0
    stored_bytes: int = 0
    spared_bytes: int = 0
    seconds: float = 0.0
    """Seconds worked until the last pause. `worked` also has those since then. May be added to."""
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    """Returns seconds that never go backwards."""
    _started: bool = field(default=False, init=False, repr=False)
    _paused: bool = field(default=False, init=False, repr=False)
    _since: float | None = field(default=None, init=False, repr=False)
    """The clock's time when the time last began to run. None when the time stands still."""
    _taken: Cost = field(default=NO_COST, init=False, repr=False)
    """The sum of all that `take` has returned."""
    _seen: Cost = field(default=NO_COST, init=False, repr=False)
    """The total when `take` was last called."""
    _ahead: Cost = field(default=NO_COST, init=False, repr=False)
    """The cost that is counted ahead."""
    _dearest: int = field(default=0, init=False, repr=False)
    """The most bytes per request between any two calls of `take`."""
    _most: tuple[float, float] = field(default=(inf, inf), init=False, repr=False)
    """The numbers of requests and bytes at which a further request has to wait. A quarter of the bytes that
    are counted ahead is kept for answers on the way."""
    _low_from: tuple[float, float] = field(default=(inf, inf), init=False, repr=False)
    """The numbers of requests and bytes at which half of the cost that was counted ahead is spent."""
    _when_low: Callable[[], None] = field(default=lambda: None, init=False, repr=False)

    @property
    def worked(self) -> float:
        """Seconds from `start` until now, pauses left out."""
        return self.seconds if self._since is None else self.seconds + self.clock() - self._since

    @property
    def total(self) -> Cost:
        """All costs of this process so far."""
        return Cost(self.requests, self.received_bytes, self.stored_bytes, self.spared_bytes, self.worked)

    def start(self) -> None:
        """Begins to count time."""
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

    def ask(self, number: int = 1) -> int:
        """Returns how many of so many requests may start now: those whose cost is recorded ahead. Counts
        them. Has the next cost recorded if little, or nothing, is left of what is recorded ahead."""
        left = self._most[0] - self.requests
        may = 0 if self.received_bytes > self._most[1] else int(max(0, min(number, left)))
        self.requests += may
        if may < number or self.requests >= self._low_from[0] or self.received_bytes > self._low_from[1]:
            self._tell_low()
        return may

    def count_ahead(self, when_low: Callable[[], None]) -> None:
        """Makes `take` count ahead from now on. No request may start before its first return is `recorded`.

        `when_low` is called when half of the cost that was counted ahead is spent. It is to have `take`
        called soon."""
        self._seen, self._ahead, self._when_low = self.total, _FIRST_AHEAD, when_low
        self._most = 0, -1

    def settle(self) -> None:
        """Ends the counting ahead, because nothing more is asked. The next `take` corrects the sum."""
        self._ahead, self._most, self._low_from = NO_COST, (inf, inf), (inf, inf)

    def take(self) -> Cost:
        """Returns the cost since this was last called. A part is negative if more was counted ahead than was
        spent."""
        total, before = self.total, self._taken
        new = total - self._seen
        if self._ahead != NO_COST and new.requests:
            self._dearest = max(self._dearest, new.received_bytes // new.requests)
            # It never falls below half of the last one, because a site may be asked by fits and starts.
            half = self._ahead.requests // 2, self._ahead.received_bytes // 2
            self._ahead = Cost(
                max(_FEWEST_AHEAD, half[0], _TIMES_AHEAD * new.requests),
                max(_FEWEST_AHEAD * self._dearest, half[1], _TIMES_AHEAD * new.received_bytes),
            )
        self._seen, self._taken = total, total + self._ahead
        if self._ahead != NO_COST:
            self._low_from = (
                total.requests + self._ahead.requests // 2,
                total.received_bytes + self._ahead.received_bytes // 2,
            )
        return self._taken - before

    def recorded(self) -> None:
        """Notes that all costs which `take` has returned are durable, so that further requests may start."""
        if self._ahead != NO_COST:
            self._most = (
                self._taken.requests,
                self._taken.received_bytes - self._ahead.received_bytes // 4,
            )

    def _tell_low(self) -> None:
        self._low_from = inf, inf
        self._when_low()

    def _go_on(self) -> None:
        if self._started and not self._paused and self._since is None:
            self._since = self.clock()


_SPENT: Final = (
    select(*(spending.c[name] for name in COST_COLUMNS))
    .join_from(spending, maps, maps.c.id == spending.c.map)
    .where(maps.c.name == bindparam("map_name"), spending.c.day == bindparam("on_day"))
)
_INSERT_SPENDING: Final = insert_into(spending).values({one.name: bindparam(one.name) for one in spending.c})
_ADD_SPENDING: Final = _INSERT_SPENDING.on_conflict_do_update(
    index_elements=[spending.c.map, spending.c.day],
    set_={name: spending.c[name] + _INSERT_SPENDING.excluded[name] for name in COST_COLUMNS},
)


def spent(history: History, map_name: str, day: date) -> Cost:
    """Returns what all runs of the map, dry ones included, have cost on that day, whatever day they harvest.

    An unknown map has cost nothing. Reads one row. Raises HistoryError.
    """
    with history.reading(once=True) as connection:
        row = connection.execute(_SPENT, {"map_name": map_name, "on_day": day}).first()
    return NO_COST if row is None else Cost(*row)


def spend(history: History, map_name: str, day: date, cost: Cost) -> None:
    """Adds the cost of a dry run, of which nothing else is kept, to what the map has cost on that day.

    An unknown map becomes known. If a server goes away during the commit, the cost may count twice. Raises
    HistoryError.
    """

    def write(connection: Connection) -> None:
        add_spending(connection, own_map_id(connection, map_name), day, cost)

    history.write(write)


def add_spending(connection: Connection, map_id: int, day: date, cost: Cost) -> None:
    """Adds the cost to what a map has cost on that day."""
    row = {"map": map_id, "day": day, **{name: getattr(cost, name) for name in COST_COLUMNS}}
    connection.execute(_ADD_SPENDING, row)
