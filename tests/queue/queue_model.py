"""The port's rules written down once more, over one plain list: slow, and easy to believe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.scheduler.driving import ATTEMPTS, LEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tileharvest.queue.port import Entry

SHARE = 3
"""Every third offer is taken from minus."""


@dataclass
class Request:
    """A request of the model. It stands in the list at the place where it was pushed until it is finished or
    has failed."""

    entry: Entry
    attempt: int
    until: float | None = None


@dataclass(frozen=True)
class Held:
    """A lease of the model."""

    request: Request
    attempt: int


class ModelQueue:
    def __init__(self) -> None:
        self.now = 0.0
        self.requests: list[Request] = []
        self.failures: list[tuple[bytes, str, int, float]] = []
        self.seen: dict[str, set[bytes]] = {}
        self.done: dict[str, int] = {}
        self.remarks: dict[tuple[str, str], str] = {}
        self.segments: list[str] = []
        self.offers = 0

    def open_segment(self, name: str) -> None:
        if name not in self.segments:
            self.segments.append(name)
            self.seen[name] = set()
            self.done[name] = 0

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.take_back([r for r in self.requests if r.until is not None and r.until <= self.now])

    def restart(self) -> None:
        self.take_back([r for r in self.requests if r.until is not None])

    def take_back(self, leased: Iterable[Request]) -> None:
        for request in leased:
            request.until = None
            if request.attempt >= ATTEMPTS:
                self.give_up(request)
            else:
                request.attempt += 1

    def give_up(self, request: Request) -> None:
        self.requests = [other for other in self.requests if other is not request]
        entry = request.entry
        self.failures.append((entry.body, entry.segment, request.attempt, self.now))

    def push(self, entries: Sequence[Entry]) -> int:
        """How many were duplicates."""
        duplicates = 0
        for entry in entries:
            self.open_segment(entry.segment)
            if entry.fingerprint is not None and entry.fingerprint in self.seen[entry.segment]:
                duplicates += 1
                continue
            if entry.fingerprint is not None:
                self.seen[entry.segment].add(entry.fingerprint)
            self.requests.append(Request(entry, entry.attempt))
        return duplicates

    def holds(self, lease: Held) -> bool:
        request = lease.request
        is_queued = any(request is other for other in self.requests)
        return is_queued and request.until is not None and request.attempt == lease.attempt

    def end(self, way: str, leases: Iterable[Held]) -> int:
        """How many were refused."""
        refused = 0
        for lease in leases:
            if not self.holds(lease):
                refused += 1
                continue
            lease.request.until = None
            if way == "finished":
                self.requests = [other for other in self.requests if other is not lease.request]
                self.done[lease.request.entry.segment] += 1
            elif way == "failed":
                self.give_up(lease.request)
            elif way == "cut_off":
                lease.request.attempt += 1
        return refused

    def waiting(self) -> list[Request]:
        """Returns the requests that wait, in the order of their lanes."""
        due = [r for r in self.requests if r.until is None and (r.entry.due or 0.0) <= self.now]
        return sorted(due, key=lambda request: -request.entry.priority)

    def lease(self, wanted: int) -> list[Held]:
        leases: list[Held] = []
        while len(leases) < wanted and (waiting := self.waiting()):
            self.offers += 1
            minus = [request for request in waiting if request.entry.priority < 0]
            request = minus[0] if minus and self.offers % SHARE == 0 else waiting[0]
            request.until = self.now + LEASE
            leases.append(Held(request, request.attempt))
        return leases

    def extend(self, leases: Iterable[Held]) -> int:
        held = [lease for lease in leases if self.holds(lease)]
        for lease in held:
            lease.request.until = self.now + LEASE
        return len(held)

    def forget(self, segment: str) -> None:
        self.requests = [request for request in self.requests if request.entry.segment != segment]
        self.segments = [name for name in self.segments if name != segment]
        self.remarks = {place: text for place, text in self.remarks.items() if place[0] != segment}
        self.seen.pop(segment, None)
        self.done.pop(segment, None)

    def counts(self) -> tuple[int, int, int, int, int]:
        """Waiting, delayed, leased, done, seen."""
        waiting = len(self.waiting())
        leased = sum(request.until is not None for request in self.requests)
        newest = self.segments[-1] if self.segments else ""
        return (
            waiting,
            len(self.requests) - waiting - leased,
            leased,
            self.done.get(newest, 0),
            len(self.seen.get(newest, ())),
        )
