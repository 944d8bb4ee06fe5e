"""Maps that ask one host, over every queue that keeps a pace, with a clock that the test sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tests.scheduler.driving import DAY, Driven, entry
from tests.servers.redis import queue_on
from tileharvest.politeness.pace import Pace
from tileharvest.queue.pace import Amount
from tileharvest.queue.paced import Paced
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.redis import RedisServer
    from tileharvest.maps.budgets import Budget
    from tileharvest.queue.pace import Granted, PacedQueue, Worked
    from tileharvest.queue.port import Exchange

_NUMBERS = count()

_OPTIONS: dict[str, Any] = {"minus_share": 0}


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Asking(Driven):
    """The worker of a map. It is asked at the time of the clock."""

    queue: PacedQueue

    def __init__(self, make: Callable[[], PacedQueue], clock: Clock) -> None:
        super().__init__(make)
        self.clock = clock

    def fill(self, number: int) -> None:
        self.push(*(entry(str(one)) for one in range(number)), now=self.clock.now)

    def ask(self, wanted: int = 0, in_flight: int = 0) -> Exchange:
        return self.exchange(wanted, self.clock.now, in_flight=in_flight)

    def starts(self, wanted: int) -> list[float]:
        return [lease.start for lease in self.ask(wanted).leases]

    def set_pace(self, pace: Pace) -> None:
        self._tell_time()
        self.run(self.queue.set_pace(pace))

    def rest(self, host: str, seconds: float) -> float:
        self._tell_time()
        return self.run(self.queue.rest(host, seconds))

    def claim_probe(self, host: str, seconds: float) -> bool:
        self._tell_time()
        return self.run(self.queue.claim_probe(host, seconds))

    def open_purse(self, budget: Budget) -> None:
        self.run(self.queue.open_purse(budget))

    def grant(self, requests: int = 0, size: int = 0, returned: tuple[int, int] = (0, 0)) -> Granted:
        return self.run(self.queue.grant(Amount(requests, size), Amount(*returned)))

    def worked(self, seconds: float) -> Worked:
        return self.run(self.queue.worked(seconds))

    def _tell_time(self) -> None:
        # A queue on a server has no other clock here than what it was told last.
        self.extend(now=self.clock.now)


class Opening(Protocol):
    """The open queue of a map's worker, with its pace."""

    def __call__(self, asked: AskedHost, map_name: str, pace: Pace) -> Asking: ...


def in_memory(asked: AskedHost, map_name: str, pace: Pace) -> Asking:
    return _local(asked, map_name, pace, SqliteQueue(**_OPTIONS))


def in_sqlite(asked: AskedHost, map_name: str, pace: Pace) -> Asking:
    return _local(asked, map_name, pace, SqliteQueue(asked.folder / f"{map_name}.sqlite", **_OPTIONS))


def _local(asked: AskedHost, map_name: str, pace: Pace, inside: SqliteQueue) -> Asking:
    folder, random = asked.folder / "hosts", asked.chance.random
    asking = Asking(partial(Paced, inside, folder, map_name, clock=asked.clock, random=random), asked.clock)
    asking.open(asked.clock.now)
    asking.run(asking.queue.set_pace(pace))
    return asking


def in_redis(server: RedisServer) -> Opening:
    def opened(asked: AskedHost, map_name: str, pace: Pace) -> Asking:
        name = f"{map_name}-of-{asked.host}"
        asking = Asking(partial(queue_on, server, name, **_OPTIONS), asked.clock)
        asking.open(asked.clock.now)
        asking.extend(now=asked.clock.now)
        asking.run(asking.queue.join(DAY, "first", pace))  # type: ignore[attr-defined]
        return asking

    return opened


@dataclass
class AskedHost:
    """A host of which nothing is known yet, and the maps on it."""

    folder: Path
    opening: Opening
    clock: Clock = field(default_factory=Clock)
    chance: Random = field(default_factory=lambda: Random(1))
    host: str = field(default_factory=lambda: f"map-{next(_NUMBERS)}.example.net")
    opened: list[Asking] = field(default_factory=list)

    def map(self, name: str, concurrency: int = 100, **limits: Any) -> Asking:
        """Its worker, at this pace."""
        self.opened.append(self.opening(self, name, self.pace(concurrency, **limits)))
        return self.opened[-1]

    def pace(self, concurrency: int = 100, **limits: Any) -> Pace:
        return Pace(self.host, concurrency, **limits)

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()
