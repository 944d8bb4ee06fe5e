"""How fast a map's host may be asked, and what a queue that keeps to it does besides: the port of a pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tileharvest.maps.rates import NO_GAP, Gap
from tileharvest.scheduler.port import RequestQueue

if TYPE_CHECKING:
    from tileharvest.maps.budgets import Budget


@dataclass(frozen=True, slots=True)
class Pace:
    """How all workers of a map together may ask its host. Raises ValueError for a pace that asks nothing."""

    host: str
    concurrency: int
    """Requests of the map on the way at the same time."""
    gap: Gap = NO_GAP
    """From the start of one request of the map to the start of its next, whichever workers make them."""
    host_concurrency: int | None = None
    """Requests to the host on the way at the same time, of all maps together; None: as many as its maps
    may."""
    host_gap: Gap = NO_GAP
    """From the start of one request to the host to the start of the next, of whichever maps."""

    def __post_init__(self) -> None:
        if not self.host or self.concurrency < 1:
            raise ValueError(f"a pace of {self.concurrency} requests at once to '{self.host}' asks nothing")
        if self.host_concurrency is not None and self.host_concurrency < 1:
            raise ValueError(f"{self.host_concurrency} requests at once to '{self.host}' ask nothing")

    @property
    def least(self) -> float:
        """Seconds from the start of one request to that of the next at least."""
        return max(self.gap.least, self.host_gap.least)


@dataclass(frozen=True, slots=True)
class Amount:
    """Of what a budget limits, and several workers may have to divide."""

    requests: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Granted:
    """What a purse answers."""

    is_granted: bool
    """Whether all that was asked for may be spent now; else none of it."""
    others_hold: bool = False
    """Whether other workers that are alive have been granted what they may yet return."""


@dataclass(frozen=True, slots=True)
class Worked:
    """For how long the run of a map has been worked for, by whichever of its workers the longest."""

    seconds: float
    """Pauses left out; those of workers that came before counted for those that came later."""
    is_spent: bool = False
    """Whether that is all that the budget allows."""


class PacedQueue(RequestQueue, Protocol):
    """A queue whose `exchange` leases no faster than the pace of the map, and of all maps of its host,
    allows.

    Each lease has its own `start`; `held_until` tells when to ask again for what the pace held back, `share`
    how many requests this worker may have on the way, `rests_until` how long the host is to be left alone.
    The shares of all workers of a map never add up to more than its concurrency, those of all workers of a
    host to no more than the host's.
    """

    async def set_pace(self, pace: Pace) -> None:
        """From now on this pace holds, for all workers of the map; what has been leased keeps its start. The
        host stays the same."""
        ...

    async def rest(self, host: str, seconds: float) -> float:
        """The host asks to be left alone for so long: nothing is leased to any worker of it meanwhile, of
        whatever map. Of several rests the one that ends last counts: for how many seconds that is from now
        on, is told; with 0 seconds nothing else is done."""
        ...

    async def claim_probe(self, host: str, seconds: float) -> bool:
        """Whether this worker, and for so many seconds no other one of the host, may make the one request
        that finds out whether a host that was down answers again."""
        ...

    async def open_purse(self, budget: Budget) -> None:
        """Begin to spend. The first worker of a run sets what all workers of it may spend together, and
        begins anew; to those that come while others are at it their budget does not matter."""
        ...

    async def grant(self, wanted: Amount, returned: Amount) -> Granted:
        """Ask the purse for an amount, and give back of what was granted earlier what will not be spent.

        What has been granted to all workers and was not returned never exceeds the budget, whoever is killed:
        what a worker was granted that ended without returning it counts as spent.
        """
        ...

    async def worked(self, seconds: float) -> Worked:
        """Tell for how long the run has been worked for, as far as this worker knows, and hear for how long
        it has: the most that any worker of it has told."""
        ...
