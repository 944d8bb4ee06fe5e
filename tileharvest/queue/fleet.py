"""The port of a queue that several workers share, and who they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from tileharvest.queue.port import RequestQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Ending(Enum):
    """How far the work of a segment is."""

    GOES_ON = auto()
    """Something waits, is leased or delayed, or another worker is about to end it."""
    YOURS = auto()
    """Nothing is left, and this worker, no other, is to end it, or to push what is missing."""
    ENDED = auto()
    """It has been ended."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Who works on a queue. Times are Redis' own, in seconds since 1970."""

    host: str
    machine: str
    """The same for all workers under one operating system, containers too; another on every other one."""
    pid: int
    segment: str
    """What it works for; empty before it has joined."""
    started: float
    heartbeat: float
    """When it was last heard of."""
    leased: int
    share: int | None
    """Requests that it may have on the way at the same time; None without a pace."""
    finished: int
    """Requests since it started."""
    rate: float
    """Requests per second finished lately."""


SILENT: Final = 30.0
"""Seconds after which a worker that was not heard of is taken for gone: six signs of life missed."""


def silent_after(lease_seconds: float) -> float:
    """Seconds after which a worker that was not heard of is taken for gone: when its leases have run out
    there is no more reason to wait for it."""
    return min(SILENT, lease_seconds)


@runtime_checkable
class SharedQueue(RequestQueue, Protocol):
    """A queue that any number of workers share, each of which may come, go, freeze or be killed at any time.

    Its `exchange` leases to each worker no more than its part of what waits. What it drops as seen it may
    drop by mistake, at the rate of its filter's errors: where requests are `doubtful`, each one dropped is
    kept for being looked up.
    """

    async def join(self, segment: str, harvest: str) -> bool:
        """Work for a harvest from now on.

        Whether the first requests are still to be pushed, in which case every worker that is told so may push
        them. Where the segment holds the work of another harvest, all of that is forgotten before.
        """
        ...

    async def ending(self, segment: str) -> Ending:
        """How far the work is. Who is told that it is theirs to end keeps that right until it has pushed
        something or called `ended`, or `close`, or was not heard of for half a minute. Raises QueueError
        where the queue has lost the work."""
        ...

    async def ended(self, segment: str) -> None:
        """The work of the segment is done, and its end is written: the other workers learn of it at once."""
        ...

    async def doubtful(self, segment: str) -> Mapping[bytes, bytes]:
        """Requests dropped as seen, body by fingerprint, each once."""
        ...

    async def confirm(self, segment: str, fingerprints: Sequence[bytes]) -> None:
        """These are doubtful no more: they were seen, or have been pushed again."""
        ...

    async def wait_for_work(self, timeout: float) -> bool:  # noqa: ASYNC109 - the time is the purpose, no limit
        """Whether there may be something to lease, or the work has ended, before so many seconds are over.
        A hint: it may be missed."""
        ...

    async def workers(self) -> Sequence[Worker]:
        """Those that were heard of lately, the oldest first, this one among them."""
        ...

    def surely_pushed(self, segment: str, fingerprint: bytes) -> bool:
        """Whether this worker has pushed the request lately, so that pushing it again would change nothing.
        At once, from memory. False where it is not known, and of everything after the queue was away."""
        ...

    async def time(self, now: float) -> float:
        """The present time by the clock that workers' times are of; `now` is the caller's."""
        ...

    async def oldest_lease(self) -> float | None:
        """Seconds since the oldest lease was handed out; None if nothing is leased."""
        ...

    async def dead_letters(self) -> Sequence[object]:
        """What was found to be no request, the oldest first."""
        ...
