"""The port of a queue that several workers share, and who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from tileharvest.queue.port import RequestQueue

if TYPE_CHECKING:
    from collections.abc import Sequence


Ending: TypeAlias = Literal["goes on", "yours", "ended"]
"""How far the work of a segment is. It `goes on` where something waits, is leased or delayed, or another
worker is about to end it. It is `yours` where nothing is left, and this worker, no other, is to end it, or to
push what is missing."""


class Worker(msgspec.Struct, array_like=True):
    """A process that works on a queue. Times are Redis' own, in seconds since 1970."""

    host: str
    machine: str
    """All workers under one operating system have the same, in its containers too."""
    pid: int
    segment: str
    """The segment that it works for; empty before it has joined."""
    started: float
    share: int | None = None
    """It may have so many requests on the way at the same time; None without a pace."""
    finished: int = 0
    """Requests that it has finished since it started."""
    rate: float = 0.0
    """Requests per second that it has finished lately."""
    heartbeat: float = 0.0
    """The time at which it was last heard of."""
    leased: int = 0


SILENT: Final = 30.0
"""Seconds that a lease of a shared queue lasts at most. A worker that was not heard of for so long is gone,
with what it had: it has missed six signs of life."""


@runtime_checkable
class SharedQueue(RequestQueue, Protocol):
    """A queue that any number of workers share, each of which may come, go, freeze or be killed at any time.

    Its `exchange` leases to each worker no more than its part of what waits.
    """

    async def join(self, segment: str, harvest: str) -> bool:
        """Work for a harvest from now on.

        Returns whether the first requests are still to be pushed; every worker that is told so may push them.
        Where the segment holds the work of another harvest, all of that is forgotten before.
        """
        ...

    async def ending(self, segment: str) -> Ending:
        """Returns how far the work is. A worker that is told `yours` keeps that right until it pushes, or
        calls `ended` or `close`, or was not heard of for the time of a lease. Raises QueueError where the
        queue has lost the work."""
        ...

    async def ended(self, segment: str) -> None:
        """The work of the segment is done, and its end is written: the other workers learn of it when they
        look."""
        ...

    async def workers(self) -> Sequence[Worker]:
        """Returns those that were heard of lately, the oldest first. A worker finds itself among them."""
        ...

    async def time(self, now: float) -> float:
        """Returns the present time by the clock that the workers' times are of; `now` is the caller's."""
        ...
