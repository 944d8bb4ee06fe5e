"""The port between the scheduler and the places where requests wait, and the values that cross it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from math import isfinite
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Lane(IntEnum):
    """Which lane a request waits in, in the order in which the lanes are asked."""

    PLUS = 0
    NORMAL = 1
    MINUS = 2


def check_terms(max_attempts: int, lease_seconds: float, minus_share: int, expected: int) -> None:
    """Raises ValueError for options with which a queue would offer no request, or would offer the minus lane
    before the others."""
    if max_attempts < 1 or lease_seconds <= 0 or expected < 1:
        raise ValueError(
            f"{max_attempts} attempts of {lease_seconds} s for {expected} requests would offer none"
        )
    if minus_share < 0 or minus_share == 1:
        raise ValueError(f"minus_share {minus_share}: 0 turns ageing off, 2 and above is one of so many")


class Entry(msgspec.Struct, frozen=True):
    """A request to be queued."""

    body: bytes
    """The encoded request. A queue does not look inside."""
    segment: str
    """The segment in which the request is made once. A request that a person has pushed has the segment with
    the empty name."""
    fingerprint: bytes | None
    """Two requests with the same fingerprint are the same request. A request with None is never filtered, and
    does not count as seen."""
    priority: int = 0
    """Above 0 is the plus lane, 0 the normal lane, and below 0 the minus lane."""
    due: float | None = None
    """The seconds since 1970 before which the request is not offered. None offers it at once."""
    attempt: int = 1
    """The number of this attempt. The first is 1."""

    def __post_init__(self) -> None:
        if self.attempt < 1:
            raise ValueError(f"attempt {self.attempt} does not exist: the first is 1")
        if self.due is not None and not isfinite(self.due):
            raise ValueError(f"{self.due} is no time")


class Lease(msgspec.Struct, frozen=True):
    """A request that was handed out and is not finished. `id` and `attempt` together prove who holds it."""

    id: int
    attempt: int
    body: bytes
    segment: str
    priority: int
    start: float = 0.0
    """The seconds since 1970 before which the request is not made, so that all workers together keep the
    pace."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that is not tried again by itself."""

    id: int
    body: bytes
    segment: str
    priority: int
    attempts: int
    reason: str
    failed: float
    """When the request failed, in seconds since 1970."""


@dataclass(slots=True)
class Changes:
    """The changes that a scheduler tells the queue. The queue applies the fields in their order, all or
    nothing. The value is false if there is nothing to tell."""

    pushed: list[Entry] = field(default_factory=list)
    taken_up: list[int] = field(default_factory=list)
    """The ids of failures that leave the failure list. A request that comes back with `pushed` has no
    fingerprint if it may have been seen in its segment: it is no duplicate of itself."""
    finished: list[Lease] = field(default_factory=list)
    failed: list[tuple[Lease, str]] = field(default_factory=list)
    """The leases that go to the failure list, each with a reason."""
    returned: list[Lease] = field(default_factory=list)
    """The leases that were never started. They go back to their lane, and the attempt does not count."""
    cut_off: list[Lease] = field(default_factory=list)
    """The leases that were started, and of which nobody knows whether they are done. They go back to their
    lane. The attempt counts, so that the next one is known not to be the first. None of them is given up for
    that, because it was no fault of theirs."""
    is_seeded: bool = False
    """Whether all first requests of the segment's work have been pushed, with this exchange at the latest."""
    in_flight: int = 0
    """The number of requests that this worker has on the way."""
    ahead: int = 0
    """The number of leases of this worker that have not started."""
    share: int | None = None
    """The number of requests that this worker may have on the way. Only shared queues look at it."""

    def __bool__(self) -> bool:
        return bool(self.pushed or self.taken_up or self.ended or self.is_seeded)

    @property
    def ended(self) -> list[Lease]:
        """The leases that their worker no longer holds."""
        return [*self.finished, *(lease for lease, _ in self.failed), *self.returned, *self.cut_off]

    def go_on(self, later: Changes) -> None:
        """Appends later changes to these."""
        self.pushed += later.pushed
        self.taken_up += later.taken_up
        self.finished += later.finished
        self.failed += later.failed
        self.returned += later.returned
        self.cut_off += later.cut_off
        self.is_seeded = self.is_seeded or later.is_seeded


@dataclass(frozen=True, slots=True)
class Exchange:
    """The queue's answer to an exchange."""

    leases: Sequence[Lease]
    """The leases in the order in which they are to be offered. They are fewer than wanted if no more are due,
    or if some are held back: see `held_until`."""
    duplicates: int = 0
    """The number of pushed entries that had been seen in their segment."""
    false_alarms: int = 0
    """The number of pushed entries that were new although the queue's filter took them for seen."""
    refused: int = 0
    """The number of finished, failed, returned or cut off leases that their worker no longer held."""
    next_due: float | None = None
    """The time at which the next delayed entry is due. None if nothing is delayed."""
    leased_elsewhere: int = 0
    """The number of leases that other workers hold."""
    has_more: bool = False
    """Whether something is left that is due now."""
    held_until: float | None = None
    """The time at which to ask again for what is due and was held back, because the pace did not allow it,
    the host rests, or other workers are to have it. None if nothing was held back."""
    rests_until: float | None = None
    """The time until which the host asks to be left alone, as any worker has heard. None if it does not."""
    share: int | None = None
    """The number of requests that this worker may have on the way. None if other workers do not matter."""
    notes: Mapping[str, str] | None = None
    """The remarks of the segment without name, as `notes` returns them. None if the queue does not tell them
    with its answers, because it is asked for them at no cost."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many requests are where. All but `done` and `seen` count all segments together."""

    pending: Mapping[Lane, int]
    delayed: int
    leased: int
    failed: int
    done: int
    """The requests finished in the newest segment."""
    seen: int
    """The different requests that the newest segment has accepted. Those without fingerprint do not count."""
    dead: int = 0
    """The entries that turned out to be no requests. They are set aside and never offered."""
    oldest_lease: float | None = None
    """Seconds since the oldest lease was handed out, however often it was extended. None if nothing is
    leased, or if the queue keeps no such time."""

    @property
    def left(self) -> int:
        """The number of requests that are neither finished nor given up."""
        return sum(self.pending.values()) + self.delayed + self.leased

    def as_plain(self) -> dict[str, int]:
        """Returns the counts by name, for statistics and for programs."""
        return {
            **{f"pending/{lane.name.lower()}": count for lane, count in sorted(self.pending.items())},
            "delayed": self.delayed,
            "leased": self.leased,
            "failed": self.failed,
            "done": self.done,
            "seen": self.seen,
            "left": self.left,
        }


class Worker(msgspec.Struct, array_like=True):
    """A process that works on a shared queue. Times are those of Redis' clock, in seconds since 1970."""

    host: str
    machine: str
    """All workers under one operating system have the same, in its containers too."""
    pid: int
    segment: str
    """The segment for which it works. Empty before it has joined a harvest."""
    started: float
    share: int | None = None
    """The number of requests that it may have on the way at the same time. None without a pace."""
    finished: int = 0
    """The requests that it has finished since it started."""
    rate: float = 0.0
    """The requests per second that it has finished lately."""
    heartbeat: float = 0.0
    """When it was last heard of."""
    leased: int = 0
    """The leases that it holds."""
    looked_at: float = 0.0
    """When this was read."""


SILENT: Final = 30.0
"""The seconds that a lease of a shared queue lasts at most. A worker that was silent for so long is gone, and
its leases with it: it has missed six signs of life."""


class RequestQueue(Protocol):
    """The requests of one map, which wait to be made.

    Guarantee: a call that returned has taken effect, and its effect outlives a SIGKILL of the worker. A call
    that was cut off has taken effect wholly or not at all. (Requests that live in memory only end with their
    process.) After a power cut a durable queue may be in an earlier state, but never in a mixed one: work
    that was finished since is offered again, so its effects must bear repetition. An entry is leased to one
    worker at a time. When a lease expires, the entry goes back to its lane with `attempt` + 1. If that
    exceeds the allowed attempts, it goes to the failure list.

    Order: first the plus lane, highest priority first; then normal; then minus, highest priority first. Equal
    entries are first in, first out. An expired, returned or cut off entry keeps its place. While other
    entries wait, one of `minus_share` offers is taken from the minus lane first.

    Callers give times in seconds since 1970. A queue that several machines share may use its own clock
    instead. Every call raises QueueError, with one line for a person, if the queue cannot do its work.
    """

    @property
    def patience(self) -> float:
        """The seconds after which a call gives up, at the latest, that gets no answer."""
        ...

    async def open(self, now: float) -> None:
        """Begins to work on the queue. A local queue has one worker: it takes back the leases of a former
        worker at once, and raises QueueError if another worker has the queue open."""
        ...

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        """Applies the changes, then leases up to `wanted` entries that are due. This is one atomic step."""
        ...

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        """Lets the leases last for the full time from now. Returns how many of them are still held."""
        ...

    async def counts(self, now: float) -> Counts:
        """Counts everything. This may read all that waits: it is for people, not for every request."""
        ...

    async def failures(self) -> Sequence[Failure]:
        """Returns the failure list, oldest first."""
        ...

    async def forget(self, segment: str) -> None:
        """Drops what waits, what is leased and what was seen in the segment. Failures stay."""
        ...

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        """Forgets all segments but `current` and the `kept` - 1 newest others, as `forget` does. Requests of
        no segment stay. Returns the names of the forgotten segments."""
        ...

    async def note(self, segment: str, key: str, value: str) -> None:
        """Writes a remark of the segment in the place of the one with the same key, or drops that for an
        empty value. Remarks are dropped with their segment. The segment without name is never dropped."""
        ...

    async def notes(self, segment: str) -> Mapping[str, str]:
        """Returns all remarks of the segment, by key. This is cheap: it is called every second while requests
        are made."""
        ...

    async def workers(self) -> Sequence[Worker] | None:
        """Returns the workers of a shared queue that were heard of lately, the oldest first. A worker finds
        itself among them. Returns None for a queue that is not shared."""
        ...

    async def discard(self) -> None:
        """Deletes everything, whatever it is and whoever wrote it, because a person has asked to start
        afresh. The queue must not be open here. Raises QueueError if somebody works on it. A request that
        another program pushes at this moment may be lost."""
        ...

    async def close(self) -> None:
        """Closes the queue. Leases stay held until they expire or the queue is opened again."""
        ...
