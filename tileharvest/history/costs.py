"""Costs: the value, the meter that counts them while a process works, and what each map has cost on a day."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from operator import sub
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import bindparam, select

from tileharvest.history.connection import BlockStatement
from tileharvest.history.outlines import own_map_id
from tileharvest.history.schema import insert_into, is_of_map, spending

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from sqlalchemy import Connection

    from tileharvest.history.database import History


class Cost(NamedTuple):
    """The requests, bytes and seconds that a process has spent. Its fields are columns of `harvests` and of
    `spending`."""

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


NO_COST: Final = Cost()


@dataclass(slots=True)
class CostMeter:
    """Counts what one process costs. Code that causes a cost adds it to a field, and `take` returns the sum,
    which is recorded together with a block. A kill leaves uncounted what came since.

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

    def take(self) -> Cost:
        """Returns the cost since this was last called."""
        before, self._taken = self._taken, self.total
        return Cost(*map(sub, self._taken, before))

    def _go_on(self) -> None:
        if self._started and not self._paused and self._since is None:
            self._since = self.clock()


def spent(history: History, map_name: str, day: date) -> Cost:
    """Returns what all runs of the map, dry ones included, have cost on that day, whatever day they harvest.

    An unknown map has cost nothing. Reads one row.
    """
    its = is_of_map(spending, map_name) & (spending.c.day == day)
    query = select(*(spending.c[name] for name in Cost._fields)).where(its)
    with history.reading() as connection:
        row = connection.execute(query).first()
    return NO_COST if row is None else Cost(*row)


_NEW: Final = insert_into(spending).values({one.name: bindparam(one.name) for one in spending.c})
_ADD_SPENDING: Final = BlockStatement(
    _NEW.on_conflict_do_update(
        index_elements=[spending.c.map, spending.c.day],
        set_={name: spending.c[name] + _NEW.excluded[name] for name in Cost._fields},
    )
)


def spend(history: History, map_name: str, day: date, cost: Cost) -> None:
    """Adds the cost of a dry run, of which nothing else is kept, to what the map has cost on that day.

    An unknown map becomes known. If a server goes away during the commit, the cost may count twice.
    """
    history.write(lambda connection: add_spending(connection, own_map_id(connection, map_name), day, cost))


def add_spending(connection: Connection, map_id: int, day: date, cost: Cost) -> None:
    """Adds the cost to what a map has cost on that day."""
    its = dict(zip(Cost._fields, cost, strict=True))
    _ADD_SPENDING.execute(connection, {"map": map_id, "day": str(day), **its})
