"""How fast a map's host may be asked, and what a queue that keeps to it does besides: the port of a pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tileharvest.queue.port import RequestQueue

if TYPE_CHECKING:
    from tileharvest.maps.budgets import Budget
    from tileharvest.politeness.pace import Pace


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
