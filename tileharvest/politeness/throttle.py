"""The throttle: when the next request to a host may start. What processes share of a host, with its pure
rules, and the port to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tileharvest.maps.rates import LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HORIZON: Final = 0.25
"""Seconds by which a start is reserved ahead. As long may one map of a host wait for the start that another
one has reserved."""

TURN: Final = 5.0
"""Seconds after which another worker has the place that cannot be divided."""

SET_BACK: Final = 60.0
"""Seconds for which a host waits at most when the clock was set back. Clocks of processes differ by less."""


class Spent(NamedTuple):
    """What the run of a map has spent, in the order of a budget's parts."""

    requests: int = 0
    received_bytes: int = 0
    seconds: float = 0.0
    """Seconds of work, of all workers added up."""


class Share(msgspec.Struct, frozen=True):
    """What a worker has of the places of a host. Each request that is on the way takes a place."""

    worker: str
    map: str
    places: int
    """The requests that it may have on the way, or has there if these are more."""
    is_busy: bool = True
    """Whether it wants places."""
    spent: Spent = Spent()
    ends: float = -inf
    """When the share ends. After that only what the worker has spent counts."""


class HostState(msgspec.Struct):
    """What processes share of a host. The methods are the rules of `Throttle`, at the time `now`."""

    rest_ends: float = -inf
    times: dict[str, float] = {}
    """The last start by each limit."""
    shares: dict[str, Share] = {}
    """The share of each worker."""

    def reserve(self, now: float, limits: Mapping[str, float]) -> tuple[float, bool]:
        """Returns the seconds until the next start, and whether it is reserved.

        This is GCRA without bursts: the spacing is read when the next start is reserved, so that another rate
        counts at once. A last start much later than the horizon was written before the clock was set back,
        and is moved.
        """
        start = now + self._rest_left(now)
        for name, spacing in limits.items():
            self.times[name] = min(self.times.get(name, -inf), now + SET_BACK)
            start = max(start, self.times[name] + spacing)
        is_granted = start <= now + HORIZON
        if is_granted:
            self.times |= dict.fromkeys(limits, start)
        return start - now, is_granted

    def rest(self, now: float, seconds: float) -> None:
        self.rest_ends = max(self.rest_ends, now + seconds)

    def _rest_left(self, now: float) -> float:
        """Returns the seconds for which the host still rests. A longer rest than there is was written before
        the clock was set back."""
        left = self.rest_ends - now
        return left if 0 < left <= LONGEST else 0.0

    def share(
        self, now: float, own: Share, of_map: int, of_host: int, lasts: float
    ) -> tuple[int, float, Spent]:
        """Returns how many requests a worker may have on the way: its part of the places of its map, and of
        those of the host. A worker that is not busy gets none. Returns also the seconds for which the host
        still rests, and what the others of the map have spent.

        Workers hold what they were given last until they ask again, or are gone. So all together never have
        more than there are.
        """
        # The run of a map ends with its last worker.
        running = {one.map for one in self.shares.values() if one.ends > now}
        others = [one for one in self.shares.values() if one.map in running and one.worker != own.worker]
        alive = [one for one in others if one.ends > now]
        number = 0
        if own.is_busy:
            mates = [one for one in alive if one.map == own.map]
            number = max(0, min(_part(now, own, of_map, mates), _part(now, own, of_host, alive)))
        kept = replace(own, places=max(own.places, number), ends=now + lasts)
        self.shares = {one.worker: one for one in (*others, kept)}
        spent = [Spent(), *(one.spent for one in others if one.map == own.map)]
        return number, self._rest_left(now), Spent(*map(sum, zip(*spent, strict=True)))


def _part(now: float, own: Share, places: int, beside: Sequence[Share]) -> int:
    """Returns a worker's part of these places beside others. What remains when they are divided goes to some
    workers, to others after each `TURN`."""
    names = sorted([own.worker, *(one.worker for one in beside if one.is_busy)])
    rank = (names.index(own.worker) + int(now / TURN)) % len(names)
    return min((places + len(names) - 1 - rank) // len(names), places - sum(one.places for one in beside))


class Throttle(ABC):
    """What all processes that ask a host share: the times of its last starts, the places, and the budgets.

    Guarantee: however many processes reserve, the starts that they are given keep every limit. What a killed
    process had reserved is lost: the host is asked more slowly, never faster. The shares that hold at one
    moment never add up to more than the places. The share of a killed process is free at once on one
    computer, and in a fleet when the process was silent for as long as the share lasts. A call whose answer
    is lost may take effect twice, which is slower, too.

    Times are seconds since 1970. Calls raise QueueError if the state cannot be kept.
    """

    clock: Callable[[], float]
    """Returns the time, by which starts and rests are given."""
    process: str
    """The name of this process, with which the names of its workers must begin, up to a colon."""

    @abstractmethod
    async def open(self) -> None:
        """Begins to take part. Touches nothing else than what the throttle keeps."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the part of this process. Closing twice is harmless."""

    @abstractmethod
    async def _do(self, act: str, host: str, *given: Any) -> tuple[float, Any]:
        """Calls the method of the host's state of that name. Returns when that was, by `clock`, and the
        answer."""

    async def reserve(self, host: str, limits: Mapping[str, float]) -> tuple[float, bool]:
        """Reserves the next start, unless that is further ahead than the horizon. While the host rests there
        is none. `limits` has the least seconds between two starts, by the names of the host's limit and of
        the map's.

        Returns the start, and whether it was reserved, so that nobody else has it. Otherwise it is time to
        ask again at `start - HORIZON`.
        """
        now, (wait, is_granted) = await self._do("reserve", host, limits)
        return now + wait, is_granted

    async def rest(self, host: str, seconds: float) -> None:
        """Lets nobody start at the host for these seconds. Of several rests the last one to end counts."""
        await self._do("rest", host, seconds)

    async def share(
        self, host: str, own: Share, of_map: int, of_host: int, lasts: float
    ) -> tuple[int, float, Spent]:
        """Writes down what a worker has on the way (`own.places`) and has spent. Returns how many requests it
        may have on the way for the seconds that this `lasts`, when the host's rest ends, which is now if it
        does not rest, and what the other workers of its map have spent. Call it every second. A worker that
        needs no places any more calls it with 0 seconds; what it has spent counts until the run ends.

        The first worker of a map begins the map's run: what was spent before is forgotten.
        """
        now, (number, rest, spent) = await self._do("share", host, own, of_map, of_host, lasts)
        return number, now + rest, Spent(*spent)
