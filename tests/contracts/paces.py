"""Maps that ask one host, over every queue that keeps a pace, with a clock that the test sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tests.scheduler.driving import Driven, entry
from tests.servers.redis import queue_on
from tileharvest.history.costs import Traffic
from tileharvest.maps.budgets import Budget
from tileharvest.politeness.rate_limit import Pace
from tileharvest.queue.polite_queue import PoliteQueue
from tileharvest.queue.shared_states import StateFile
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.redis import RedisCluster, RedisServer
    from tileharvest.queue.port import Exchange, RequestQueue
    from tileharvest.queue.shared_states import SharedStates

_NUMBERS = count()

_OPTIONS: dict[str, Any] = {"minus_share": 0}


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Asking(Driven):
    """The worker of a map. It is asked at the time of the clock."""

    queue: PoliteQueue

    def __init__(self, make: Callable[[], PoliteQueue], clock: Clock) -> None:
        super().__init__(make)
        self.clock = clock
        self.ahead = 0
        """Leases that have not started."""

    def exchange(self, wanted: int = 0, now: float = 0.0, **changes: Any) -> Exchange:
        self.ahead -= len(changes.get("returned", ()))
        answer = super().exchange(wanted, now, ahead=self.ahead, **changes)
        self.ahead += len(answer.leases)
        return answer

    def stop(self) -> None:
        super().stop()
        self.queue.traffic, self.ahead = Traffic(), 0

    def fill(self, number: int) -> None:
        self.push(*(entry(str(one)) for one in range(number)), now=self.clock.now)

    def ask(self, wanted: int = 0, in_flight: int = 0) -> Exchange:
        return self.exchange(wanted, self.clock.now, in_flight=in_flight)

    def starts(self, wanted: int) -> list[float]:
        return [lease.start for lease in self.ask(wanted).leases]

    def set_pace(self, pace: Pace) -> None:
        self.run(self.queue.set_pace(pace))

    def rest(self, host: str, seconds: float) -> None:
        self.run(self.queue.rest(host, seconds))

    def claim_probe(self, host: str, seconds: float) -> bool:
        return self.run(self.queue.claim_probe(host, seconds))

    def allow(self, host: str, *, amends: bool = False, **budget: Any) -> None:
        self.run(self.queue.allow(host, Budget(**budget), amends=amends))

    def take_turn(self, pace: Pace) -> tuple[float, float] | None:
        return self.run(self.queue.take_turn(pace))

    def visit(self, pace: Pace) -> tuple[bool, float]:
        return self.run(self.queue.visit(pace))

    def leave(self, host: str) -> None:
        self.run(self.queue.leave(host))

    def extend(self) -> None:
        self.run(self.queue.extend((), self.clock.now))

    def start(self, number: int, size: int = 0, *, was_sent: bool = True) -> None:
        """Start so many of the requests that were leased, each of which costs so many bytes."""
        self.ahead -= number
        self.queue.traffic.requests += number * was_sent
        self.queue.traffic.received_bytes += number * size

    def work(self, seconds: float) -> None:
        """Tell that so many seconds have been worked by now."""
        self.queue.traffic.seconds = seconds
        self.run(self.queue.tell())


class Opening(Protocol):
    """The open queue of a map's worker, with its pace."""

    def __call__(self, asked: AskedHost, map_name: str, pace: Pace) -> Asking: ...


def in_memory(asked: AskedHost, map_name: str, pace: Pace) -> Asking:
    return _local(asked, map_name, pace, SqliteQueue(**_OPTIONS), StateFile(asked.folder / "hosts"))


def in_sqlite(asked: AskedHost, map_name: str, pace: Pace) -> Asking:
    inside = SqliteQueue(asked.folder / f"{map_name}.sqlite", **_OPTIONS)
    return _local(asked, map_name, pace, inside, StateFile(asked.folder / "hosts"))


def _local(asked: AskedHost, map_name: str, pace: Pace, inside: SqliteQueue, hosts: SharedStates) -> Asking:
    return _opened(asked, pace, partial(_polite, asked, map_name, inside, hosts))


def in_redis(server: RedisServer | RedisCluster) -> Opening:
    def opened(asked: AskedHost, map_name: str, pace: Pace) -> Asking:
        def make() -> PoliteQueue:
            inside = queue_on(server, f"{map_name}-of-{asked.host}", **_OPTIONS)
            return _polite(asked, map_name, inside, inside.hosts())

        return _opened(asked, pace, make)

    return opened


def _polite(asked: AskedHost, map_name: str, inside: RequestQueue, hosts: SharedStates) -> PoliteQueue:
    return PoliteQueue(inside, hosts, map_name, Traffic(), clock=asked.clock, random=asked.chance.random)


def _opened(asked: AskedHost, pace: Pace, make: Callable[[], PoliteQueue]) -> Asking:
    asking = Asking(make, asked.clock)
    asking.open(asked.clock.now)
    asking.set_pace(pace)
    return asking


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

    def guest(self) -> Asking:
        """Returns the worker of a map whose own host is another one."""
        self.opened.append(self.opening(self, "guest", Pace(f"other-{self.host}", 100)))
        return self.opened[-1]

    def pace(self, concurrency: int = 100, **limits: Any) -> Pace:
        return Pace(self.host, concurrency, **limits)

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()
