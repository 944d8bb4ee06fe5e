"""The port between the scheduler and the places where requests wait."""

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
    """The encoded request; a queue does not look inside."""
    segment: str
    """What a person has pushed waits in the segment with the empty name until it is made."""
    fingerprint: bytes | None
    """Two requests with the same one are the same request. One with None is never filtered, nor counted as
    seen."""
    priority: int = 0
    """Above 0 the plus lane, 0 normal, below 0 minus."""
    due: float | None = None
    """Seconds since 1970 before which it is not offered. None offers it at once."""
    attempt: int = 1
    """The number of this attempt; the first is 1."""

    def __post_init__(self) -> None:
        if self.attempt < 1:
            raise ValueError(f"attempt {self.attempt} does not exist: the first is 1")
        if self.due is not None and not isfinite(self.due):
            raise ValueError(f"{self.due} is no time")


class Lease(msgspec.Struct, frozen=True):
    """A request handed out and not finished yet. `id` and `attempt` together prove who holds it."""

    id: int
    attempt: int
    body: bytes
    segment: str
    priority: int
    start: float = 0.0
    """It is not made before this, in seconds since 1970, so that all workers together keep the pace."""


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
    """The time of it, in seconds since 1970."""


@dataclass(slots=True)
class Changes:
    """What a scheduler has to tell the queue. It is applied in the order of the fields, all or nothing. It is
    false where there is nothing to tell."""

    pushed: list[Entry] = field(default_factory=list)
    taken_up: list[int] = field(default_factory=list)
    """Ids of failures that leave the failure list. Those that `pushed` brings back are pushed without
    fingerprint where it may have been seen in their segment: they are no duplicates of themselves."""
    finished: list[Lease] = field(default_factory=list)
    failed: list[tuple[Lease, str]] = field(default_factory=list)
    """Leases that go to the failure list, each with a reason."""
    returned: list[Lease] = field(default_factory=list)
    """Leases that were never started. They go back to their lane, and the attempt does not count."""
    cut_off: list[Lease] = field(default_factory=list)
    """Leases that were started, and nobody knows whether they are done. They go back to their lane, and the
    attempt counts: the next one knows that it is not the first. None of them is given up for that, as it was
    no fault of theirs."""
    is_seeded: bool = False
    """Whether all first requests of the segment's work have been pushed, with this exchange at the latest."""
    in_flight: int = 0
    """Requests that this worker has on the way."""
    ahead: int = 0
    """Leases of this worker that have not started."""
    share: int | None = None
    """Requests that it may have on the way. Only queues that several workers share look at it."""

    def __bool__(self) -> bool:
        return bool(self.pushed or self.taken_up or self.ended or self.is_seeded)

    @property
    def ended(self) -> list[Lease]:
        """The leases that their worker holds no more."""
        return [*self.finished, *(lease for lease, _ in self.failed), *self.returned, *self.cut_off]

    def go_on(self, later: Changes) -> None:
        """Adds what was said later."""
        self.pushed += later.pushed
        self.taken_up += later.taken_up
        self.finished += later.finished
        self.failed += later.failed
        self.returned += later.returned
        self.cut_off += later.cut_off
        self.is_seeded = self.is_seeded or later.is_seeded


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the queue answers."""

    leases: Sequence[Lease]
    """In the order in which they are to be offered; fewer than wanted if no more are due, or `held_until`."""
    duplicates: int = 0
    """Pushed entries that had been seen in their segment."""
    false_alarms: int = 0
    """Pushed entries of which the queue's filter said that they may have been seen, and that were new."""
    refused: int = 0
    """Finished, failed, returned or cut off leases that their worker did not hold any more."""
    next_due: float | None = None
    """The time at which the next delayed entry is due; None if nothing is delayed."""
    leased_elsewhere: int = 0
    """Leases that other workers hold."""
    has_more: bool = False
    """Whether something is left that is due now."""
    held_until: float | None = None
    """The time at which to ask again for what is due and was held back: the pace did not allow it, the host
    rests, or other workers are to have it. None if nothing was held back."""
    rests_until: float | None = None
    """The host asks to be left alone until then, as any worker has heard; None if it does not."""
    share: int | None = None
    """This worker may have so many requests on the way at the same time; None where others do not matter."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many requests are where: of all segments together, but for `done` and `seen`."""

    pending: Mapping[Lane, int]
    delayed: int
    leased: int
    failed: int
    done: int
    """Finished in the newest segment."""
    seen: int
    """Different requests that the newest segment has accepted. Those without fingerprint do not count."""
    dead: int = 0
    """What was found in place of requests, and is none. Such entries are set aside and never offered."""
    oldest_lease: float | None = None
    """Seconds since the oldest lease was handed out, however often it was extended. None if nothing is
    leased, or the queue keeps no such time."""

    @property
    def left(self) -> int:
        """Everything that is not finished and not given up."""
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


SILENT: Final = 30.0
"""The seconds that a lease of a shared queue lasts at most. A worker that was silent for so long is gone, and
its leases with it: it has missed six signs of life."""


class RequestQueue(Protocol):
    """Where the requests of one map wait.

    Guarantee: a call that returned has taken effect, and outlives a SIGKILL of the worker; one that was
    cut off has taken effect wholly or not at all. (Where requests live in memory only, they end with the
    process.) After a power cut a durable queue may be in an earlier state that it was in, never in a mixed
    one: work that was finished since is offered again, so its effects must bear repetition. An entry is
    leased to one worker at a time; when a lease expires the entry goes back to its lane with `attempt`
    + 1, or, when that exceeds the allowed attempts, to the failure list.

    Order: the plus lane, highest priority first; then normal; then minus, highest first; what is equal,
    first in, first out. An expired, returned or cut off entry keeps its place. While others wait, one of
    `minus_share` offers is taken from the minus lane first.

    Times are given by the caller, in seconds since 1970; a queue shared by several machines may use its
    own clock instead. Raises QueueError, one line for a person, when it cannot do its work.
    """

    async def open(self, now: float) -> None:
        """Begin to work on the queue. A local queue has one worker: it takes the leases of a former one back
        at once, and raises QueueError if another worker has it open."""
        ...

    async def exchange(self, changes: Changes, wanted: int, now: float) -> Exchange:
        """Apply the changes, then lease up to `wanted` entries that are due; one atomic step."""
        ...

    async def extend(self, leases: Sequence[Lease], now: float) -> int:
        """Let the leases last for the full time again, from now. Returns how many of them are still held."""
        ...

    async def counts(self, now: float) -> Counts:
        """Count everything. This may read all that waits: it is for people, not for every request."""
        ...

    async def failures(self) -> Sequence[Failure]:
        """Returns the failure list, oldest first. What an `exchange` takes up leaves it."""
        ...

    async def forget(self, segment: str) -> None:
        """Drop everything of the segment: what waits, what is leased and what was seen; failures stay."""
        ...

    async def forget_others(self, kept: int, current: str) -> Sequence[str]:
        """Drop everything of all segments but `current` and the `kept` - 1 newest others; failures stay, and
        so does what belongs to no segment. Returns the names of those dropped."""
        ...

    async def note(self, segment: str, key: str, value: str | None = None) -> str | None:
        """Read or write a remark, which is kept with the segment and dropped with it. Returns what it was
        before. A `value` is written; an empty one drops the remark. The segment without name is never
        dropped."""
        ...

    async def notes(self, segment: str) -> Mapping[str, str]:
        """Returns all remarks of the segment, by key. This is cheap: it is asked every second while requests
        are made."""
        ...

    async def workers(self) -> Sequence[Worker] | None:
        """Returns the workers of a shared queue that were heard of lately, the oldest first. A worker finds
        itself among them. Returns None for a queue that is not shared."""
        ...

    async def time(self, now: float) -> float:
        """Returns the present time by the clock of the workers' times. `now` is the caller's."""
        ...

    async def discard(self) -> None:
        """Delete everything, whatever it is and whoever wrote it, when a person has asked to start afresh.
        The queue must not be open here. Raises QueueError if somebody works on it. What a program beside it
        pushes at this moment may be lost."""
        ...

    async def close(self) -> None:
        """Let go; leases that are held stay held until they expire or the queue is opened again."""
        ...
