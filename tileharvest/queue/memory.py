"""A queue in memory: for dry runs and tests, and for whoever needs no second run of a segment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from tileharvest.errors import QueueError
from tileharvest.queue.lanes import Lane, Turns, lane_of
from tileharvest.queue.port import Counts, Exchange, Failure, Lease

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from tileharvest.queue.port import Changes, Entry

    _Rank = TypeVar("_Rank", int, float)

_FINGERPRINTS: Final = 4096
"""In one batch."""

_STALE: Final = 1024
"""Ends of leases that may be kept for nothing, besides as many as there are leases."""


@dataclass(slots=True)
class _Request:
    id: int
    body: bytes
    segment: str
    priority: int
    attempt: int
    until: float | None = None
    """When its lease ends; None while it is not leased."""


@dataclass(slots=True)
class _Segment:
    seen: set[bytes] = field(default_factory=set)
    remarks: dict[str, str] = field(default_factory=dict)
    done: int = 0


class MemoryQueue:
    """A `RequestQueue` whose requests end with the process, and in nothing else differ from durable ones.

    Closing keeps them, so that it can be opened again. Each step costs the logarithm of what waits, but
    for `forget`, which reads everything.
    """

    def __init__(self, max_attempts: int = 5, lease_seconds: float = 120.0, minus_share: int = 16) -> None:
        if max_attempts < 1 or lease_seconds <= 0:
            raise ValueError(f"{max_attempts} attempts of {lease_seconds} s would offer no request")
        self._max_attempts = max_attempts
        self._lease_seconds = lease_seconds
        self._turns = Turns(minus_share)
        self._is_open = False
        self._ids = count(1)
        self._requests: dict[int, _Request] = {}
        self._leased: dict[int, _Request] = {}
        self._failures: dict[int, Failure] = {}
        self._segments: dict[str, _Segment] = {}
        """In the order in which they were opened."""
        # Heaps: what is first is smallest.
        self._front: list[tuple[int, int]] = []
        self._minus: list[tuple[int, int]] = []
        """What waits: the priority negated, and the id."""
        self._delayed: list[tuple[float, int]] = []
        self._ends: list[tuple[float, int]] = []
        """Of leases; those of leases that ended otherwise stay until they come up or are too many."""

    async def open(self, now: float) -> None:
        if self._is_open:
            raise QueueError("the queue in memory is open already; nothing was changed; close it first")
        self._is_open = True
        for request in sorted(self._leased.values(), key=lambda request: request.id):
            reason = f"its worker ended {request.attempt} times while it was under way"
            self._take_back(request, now, reason)

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        if wanted < 0:
            raise ValueError(f"{wanted} requests cannot be wanted")
        # Nothing below waits for anything or can fail half-way, which makes it one step.
        self._settle(now)
        duplicates, false_alarms = self._push(changes.pushed, now)
        for failure in changes.taken_up:
            self._failures.pop(failure, None)
        refused = self._finish(changes.finished) + self._fail(changes.failed, now)
        refused += self._give_back(changes.returned)
        leases = list(self._lease_next(wanted, now + self._lease_seconds))
        next_due = self._delayed[0][0] if self._delayed else None
        return Exchange(leases, duplicates, false_alarms, refused, next_due)

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        self._settle(now)
        held = [request for lease in leases if (request := self._held(lease)) is not None]
        for request in held:
            self._lease(request, now + self._lease_seconds)
        self._drop_stale_ends()
        return len(held)

    async def counts(self, now: float) -> Counts:
        self._settle(now)
        waiting = (*self._front, *self._minus)
        pending = dict.fromkeys(Lane, 0) | Counter(lane_of(-negated) for negated, _ in waiting)
        newest = next((held for name, held in reversed(self._segments.items()) if name), _Segment())
        return Counts(
            pending,
            len(self._delayed),
            len(self._leased),
            len(self._failures),
            newest.done,
            len(newest.seen),
        )

    async def failures(self) -> Sequence[Failure]:
        return list(self._failures.values())

    async def clear_failures(self) -> int:
        cleared = len(self._failures)
        self._failures.clear()
        return cleared

    async def fingerprints(self, segment: str) -> AsyncIterator[Sequence[bytes]]:
        seen = list(self._segments.get(segment, _Segment()).seen)
        for first in range(0, len(seen), _FINGERPRINTS):
            yield seen[first : first + _FINGERPRINTS]

    async def forget(self, segment: str) -> None:
        self._forget({segment})

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        if kept < 1:
            raise ValueError(f"{kept} segments cannot be kept: the current one always is")
        others = [name for name in self._segments if name not in (current, "")]
        dropped = others[: max(0, len(others) - (kept - 1))]
        self._forget(set(dropped))
        return dropped

    async def note(self, segment: str, key: str, value: str | None = None) -> str | None:
        before = self._segments.get(segment, _Segment()).remarks.get(key)
        if value:
            self._segments.setdefault(segment, _Segment()).remarks[key] = value
        elif value is not None and before is not None:
            del self._segments[segment].remarks[key]
        return before

    async def notes(self, segment: str) -> Mapping[str, str]:
        return dict(self._segments.get(segment, _Segment()).remarks)

    async def has_waiting(self) -> bool:
        """Whether something is left that was due at the last exchange. At once."""
        return bool(self._front or self._minus)

    async def close(self) -> None:
        self._is_open = False

    def _settle(self, now: float) -> None:
        """Leases that have expired, and delayed requests that are due, go where they belong."""
        expired: dict[int, _Request] = {}
        while self._ends and self._ends[0][0] <= now:
            until, number = heappop(self._ends)
            request = self._leased.get(number)
            if request is not None and request.until == until:
                expired[number] = request
        for _, request in sorted(expired.items()):
            reason = f"not finished within {self._lease_seconds:g} s in {request.attempt} attempts"
            self._take_back(request, now, reason)
        while self._delayed and self._delayed[0][0] <= now:
            self._let_wait(self._requests[heappop(self._delayed)[1]])

    def _take_back(self, request: _Request, now: float, reason: str) -> None:
        self._let_go(request)
        if request.attempt < self._max_attempts:
            request.attempt += 1
            self._let_wait(request)
        else:
            self._give_up(request, now, reason)

    def _push(self, entries: Iterable[Entry], now: float) -> tuple[int, int]:
        """How many were duplicates, and how many false alarms."""
        duplicates = false_alarms = 0
        for entry in entries:
            segment = self._segments.setdefault(entry.segment, _Segment())
            if entry.fingerprint is not None:
                if entry.fingerprint in segment.seen:
                    duplicates += 1
                    continue
                segment.seen.add(entry.fingerprint)
                false_alarms += entry.maybe_seen
            self._queue(entry, now)
        return duplicates, false_alarms

    def _queue(self, entry: Entry, now: float) -> None:
        request = _Request(next(self._ids), entry.body, entry.segment, entry.priority, entry.attempt)
        self._requests[request.id] = request
        if entry.due is None or entry.due <= now:
            self._let_wait(request)
        else:
            heappush(self._delayed, (entry.due, request.id))

    def _let_wait(self, request: _Request) -> None:
        lane = self._minus if request.priority < 0 else self._front
        heappush(lane, (-request.priority, request.id))

    def _held(self, lease: Lease) -> _Request | None:
        request = self._leased.get(lease.id)
        return request if request is not None and request.attempt == lease.attempt else None

    def _finish(self, leases: Iterable[Lease]) -> int:
        """How many of them were refused."""
        refused = 0
        for lease in leases:
            request = self._held(lease)
            if request is None:
                refused += 1
                continue
            self._let_go(request)
            del self._requests[request.id]
            self._segments[request.segment].done += 1
        return refused

    def _fail(self, leases: Iterable[tuple[Lease, str]], now: float) -> int:
        """How many of them were refused."""
        refused = 0
        for lease, reason in leases:
            request = self._held(lease)
            if request is None:
                refused += 1
                continue
            self._let_go(request)
            self._give_up(request, now, reason)
        return refused

    def _give_back(self, leases: Iterable[Lease]) -> int:
        """How many of them were refused."""
        refused = 0
        for lease in leases:
            request = self._held(lease)
            if request is None:
                refused += 1
                continue
            self._let_go(request)
            self._let_wait(request)
        return refused

    def _let_go(self, request: _Request) -> None:
        del self._leased[request.id]
        request.until = None

    def _give_up(self, request: _Request, now: float, reason: str) -> None:
        del self._requests[request.id]
        number = next(self._ids)
        self._failures[number] = Failure(
            number, request.body, request.segment, request.priority, request.attempt, reason, now
        )

    def _lease_next(self, wanted: int, until: float) -> Iterable[Lease]:
        for _ in range(min(wanted, len(self._front) + len(self._minus))):
            minus_first = self._turns.next_is_minus()
            lane = self._minus if self._minus and (minus_first or not self._front) else self._front
            request = self._requests[heappop(lane)[1]]
            self._lease(request, until)
            yield Lease(request.id, request.attempt, request.body, request.segment, request.priority, until)
        self._drop_stale_ends()

    def _lease(self, request: _Request, until: float) -> None:
        request.until = until
        self._leased[request.id] = request
        heappush(self._ends, (until, request.id))

    def _drop_stale_ends(self) -> None:
        if len(self._ends) > 2 * len(self._leased) + _STALE:
            self._ends = [
                (request.until, request.id) for request in self._leased.values() if request.until is not None
            ]
            heapify(self._ends)

    def _forget(self, segments: set[str]) -> None:
        for name in segments:
            self._segments.pop(name, None)
        dropped = {number for number, request in self._requests.items() if request.segment in segments}
        for number in dropped:
            del self._requests[number]
            self._leased.pop(number, None)
        self._front = _without(self._front, dropped)
        self._minus = _without(self._minus, dropped)
        self._delayed = _without(self._delayed, dropped)


def _without(heap: Iterable[tuple[_Rank, int]], dropped: set[int]) -> list[tuple[_Rank, int]]:
    kept = [item for item in heap if item[1] not in dropped]
    heapify(kept)
    return kept
