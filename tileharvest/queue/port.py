"""The port between the scheduler and the places where requests wait, and the values that cross it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import msgspec

from tileharvest.errors import QueueError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PUSHED: Final = ""
"""The segment of requests that a person has pushed. It never ends, so they wait until they are made. They
have no fingerprint, and are made whether the same were made before or not."""

LAST: Final = -(2**53)
"""The priority of a request whose workers have ended too often. It is made last of all, so that one that ends
its worker holds up no other."""

WORKER_ENDED: Final = "its worker ended {attempts} times while it was under way"
"""The reason for giving up a request whose worker was killed at each attempt."""

NOTHING_LOST: Final = "no request in it was lost"
AFRESH: Final = "start afresh with --fresh, or a spider with -a fresh=1"
"""The way out if a queue cannot be used. Nothing is lost, because the history has what was harvested:
requests are only made again."""


def emptied(queue: str) -> QueueError:
    """Returns the error about a queue whose content has gone while a worker was at it."""
    return QueueError(
        f"{queue} was emptied while a crawl worked on it; what was recorded is kept; run again, and the rest"
        " is asked for"
    )


def of_another_version(queue: str, found: object, own: object) -> QueueError:
    """Returns the error about a queue of a version that this program cannot read."""
    return QueueError(
        f"{queue} is not of this version of TileHarvest (its format is {found}, this one's {own}); nothing"
        f" was changed; finish it with that version, name another place, or {AFRESH}"
    )


class Entry(msgspec.Struct, frozen=True):
    """A request to be queued."""

    body: bytes
    """The encoded request. A queue does not look inside."""
    segment: str
    """The segment in which the request is made once, or `PUSHED`."""
    fingerprint: bytes | None
    """Two requests with the same fingerprint are the same request, which a segment accepts once. A request
    with None is never filtered, and does not count as seen."""
    priority: int = 0
    """Above 0 is the plus lane, 0 the normal lane, and below 0 the minus lane."""
    due: float | None = None
    """The seconds since 1970 before which the request is not offered. None offers it at once."""
    slot: str = ""
    """What the request shares a download slot with, which is usually the host. See `RequestQueue`."""


class Lease(msgspec.Struct, frozen=True):
    """A request that was handed out. `id` and `attempt` together name the lease: no other one has both."""

    id: int
    attempt: int
    """How often the request has been handed out, this time included."""
    body: bytes
    priority: int
    slot: str


class End(NamedTuple):
    """The end of a lease. It takes effect unless another worker has a newer lease of the same request, and it
    may be told any number of times."""

    id: int
    attempt: int
    how: Literal["finish", "fail", "release", "unsee"]
    """`finish`: the request is done. `fail`: it goes to the failure list. `release`: it waits again in its
    place. `unsee`: it fails, and its segment has not seen it."""
    reason: str = ""
    """Why it has failed."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What the queue replies to an exchange."""

    leases: Sequence[Lease] = ()
    """The leases in the order in which they are to be offered."""
    duplicates: Sequence[int] = ()
    """The places among the pushed entries of those that were not accepted."""
    has_more: bool = False
    """Whether something is left that is due and that nobody has leased."""
    next_due: float | None = None
    """The time at which the next delayed request is due. None if nothing is delayed."""
    elsewhere: int = 0
    """The number of leases that other workers hold."""


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


@dataclass(frozen=True, slots=True)
class Counts:
    """How many requests are where. All but `done` and `seen` count all segments together."""

    plus: int = 0
    """What waits in the plus lane: the requests with a priority above 0."""
    normal: int = 0
    minus: int = 0
    delayed: int = 0
    """The requests that were not due when a worker looked last."""
    leased: int = 0
    """The number of leases of all workers."""
    failed: int = 0
    done: int = 0
    """The requests finished in the segment."""
    seen: int = 0
    """The different requests that the segment has accepted. Those without fingerprint do not count."""

    @property
    def pending(self) -> dict[str, int]:
        """By lane: the requests that wait and are due."""
        return {"plus": self.plus, "normal": self.normal, "minus": self.minus}

    @property
    def left(self) -> int:
        """The number of requests that are neither finished nor given up."""
        return sum(self.pending.values()) + self.delayed + self.leased

    def as_plain(self) -> dict[str, int]:
        """Returns the counts by name, for statistics and for programs."""
        return {
            **{f"pending/{lane}": count for lane, count in self.pending.items()},
            **{name: getattr(self, name) for name in ("delayed", "leased", "failed", "done", "seen", "left")},
        }


class Worker(msgspec.Struct):
    """A process that works on a shared queue. Times are those of the server, in seconds since 1970."""

    host: str
    machine: str
    """All workers under one operating system have the same, in its containers too."""
    pid: int
    segment: str
    """The segment for which it works."""
    started: float
    finished: int = 0
    """The requests that it has finished since it started."""
    heartbeat: float = 0.0
    """When it was last heard of."""
    leased: int = 0
    """The leases that it holds."""
    looked_at: float = 0.0
    """When this was read."""

    def as_plain(self) -> dict[str, Any]:
        """Returns the worker for programs. The keys are stable."""
        return {
            "host": self.host,
            "machine": self.machine,
            "pid": self.pid,
            "segment": self.segment,
            "started": datetime.fromtimestamp(self.started, UTC).isoformat(timespec="seconds"),
            # A worker may have been heard of after the look.
            "heartbeat_age_seconds": round(max(0.0, self.looked_at - self.heartbeat), 3),
            "finished": self.finished,
            "leased": self.leased,
        }


SILENT: Final = 30.0
"""The seconds after which a worker of a shared queue that is silent is gone, and its leases with it."""


class RequestQueue(Protocol):
    """The requests of one crawl, which wait to be made.

    Guarantee: a call that returned has taken effect, and its effect outlives a SIGKILL of the worker. A call
    that was cut off has taken effect from its beginning to some point: what was pushed before what has ended.
    After a power cut a durable queue may be in an earlier state: work that was finished since is offered
    again, so its effects must bear repetition. A request is leased to one worker at a time. The leases of a
    worker last as long as the worker: when it is gone, its requests go back to their places, and those whose
    workers have gone too often wait last of all, and go to the failure list after as many again.

    Order: the highest priority first; among equals the slot of which the worker has the fewest under way;
    among these the one that came first. A request that comes back keeps its place.

    Callers give times in seconds since 1970. A queue that several machines share uses the server's clock
    instead. Every call raises QueueError if the queue cannot do its work, or was emptied since it was opened.
    """

    async def open(self, segment: str, now: float) -> None:
        """Becomes a worker for a segment. A local queue has one worker: the leases of a former one are taken
        back at once, and QueueError is raised if another process is the worker. A queue whose opening has
        failed, or was cancelled, must be closed."""
        ...

    async def open_beside(self) -> None:
        """Opens the queue for a command, which may do all but lease and end leases, beside workers. A queue
        that does not exist is made."""
        ...

    async def exchange(
        self, pushed: Sequence[Entry], ended: Sequence[End], number: int, held: Sequence[Lease], now: float
    ) -> Exchanged:
        """Queues what is pushed, then, or together with it, ends leases, and leases so many requests at most.

        `held` are all leases that the worker has. Another one, whose answer was lost, is handed out again."""
        ...

    async def counts(self, segment: str | None) -> Counts:
        """Counts everything, with `done` and `seen` of the segment, or of the newest one for None. This may
        read all that waits."""
        ...

    async def failures(self) -> Sequence[Failure]:
        """Returns the failure list, oldest first."""
        ...

    async def take_up(self, ids: Sequence[int], segment: str | None) -> int:
        """Removes failures from the failure list, and returns how many were there. They wait again as
        requests of the segment, in the plus lane, unless it has seen them. For None all are dropped."""
        ...

    async def segments(self) -> Sequence[str]:
        """Returns the segments of which the queue knows, in the order in which they were opened."""
        ...

    async def forget(self, segment: str) -> None:
        """Drops what waits, what is leased and what was seen in the segment. Failures stay."""
        ...

    async def note(self, key: str, value: str) -> None:
        """Writes a note for all workers and commands, in place of the one with the same key. An empty value
        drops it. Notes stay until the queue is discarded."""
        ...

    async def notes(self) -> Mapping[str, str]:
        """Returns all notes. This is cheap: it is called every second."""
        ...

    async def workers(self) -> Sequence[Worker] | None:
        """Returns the workers that are alive, the oldest first, or None if the queue is not shared."""
        ...

    async def discard(self) -> None:
        """Deletes everything, because a person has asked to start afresh and the queue cannot be opened.
        Raises QueueError if somebody works on a local queue."""
        ...

    async def close(self) -> None:
        """Closes the queue. Leases that were not ended are offered again. Closing twice is harmless."""
        ...
