"""The throttle: when the next request to a host may start. One rule, and the port of the state that processes
share."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tileharvest.maps.budgets import PARTS, Budget
from tileharvest.maps.rates import LONGEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HORIZON: Final = 0.25
"""Seconds by which starts are reserved ahead. As much is lost at most when a worker is killed, and one map of
a host may wait as long for the start that another one has reserved."""

TURN: Final = 5.0
"""Seconds for which a worker keeps a place if there are more workers than places."""

SET_BACK: Final = 60.0
"""Seconds by which a clock may be set back when it is corrected, or by which a process may be late."""

REST: Final = "rest"
"""The name of the time until which a host is left alone."""
PROBE: Final = "probe"
"""The name of the time until which another worker finds out whether a host is up again."""


class Limit(NamedTuple):
    """The rate of a host, or of one of its maps."""

    name: str
    spacing: float
    """Seconds from the start of one request to the start of the next. One that is random is drawn anew for
    each reservation, of one start."""


class Reservation(NamedTuple):
    """Starts that nobody else has: the first of `number` at `start`, the others `spacing` seconds apart.

    If `number` is 0, nothing may start now. At `start - HORIZON` it is time to ask again.
    """

    start: float
    spacing: float
    number: int


class Share(NamedTuple):
    """What a worker has of the places of a host. Each request that is on the way takes a place."""

    worker: str
    map: str
    places: int
    """The requests that it may have on the way, or has there if these are more."""
    wanted: int
    """The places that it can use."""
    until: float
    """When the share ends unless the worker is heard of."""


@dataclass(frozen=True, slots=True)
class Places:
    """How many requests may be on the way at the same time."""

    of_map: int
    of_host: int | None = None
    """All maps of the host together. None if only the maps have a limit."""


class Spent(NamedTuple):
    """What was spent of a budget, in the order of its parts."""

    requests: int = 0
    received_bytes: int = 0
    seconds: float = 0.0
    """Seconds of work. Workers work side by side, so the largest number of any worker counts."""


class Throttle(Protocol):
    """What all processes that ask a host share: the times of its last starts, the places, and the budgets.

    Guarantee: however many processes reserve, the starts that they are given keep every limit. What a killed
    process had reserved is lost: the host is asked more slowly, never faster. The shares that hold at one
    moment never add up to more than the places. The share of a killed process is free at once on one
    computer, and in a fleet when the process was silent for as long as the share lasts. A call whose answer
    is lost may take effect twice, which is slower, too.

    Times are seconds since 1970 on the caller's clock. Calls raise QueueError if the state cannot be kept.
    """

    async def open(self) -> None:
        """Begins to take part. Touches nothing else than what the throttle keeps."""
        ...

    async def reserve(
        self, host: str, number: int, limits: Sequence[Limit], now: float, horizon: float = HORIZON
    ) -> Reservation:
        """Reserves at most `number` starts, by `reserve`. While the host rests there are none."""
        ...

    async def rest(self, host: str, seconds: float, now: float) -> None:
        """Lets nobody start at the host for these seconds. Of several rests the last one to end counts."""
        ...

    async def share(self, host: str, own: Share, places: Places, now: float) -> int:
        """Tells what a worker has on the way (`own.places`) and wants, and returns how many requests it may
        have on the way until `own.until`. Call it every second.

        The first worker of a map begins the map's run: what was spent before is forgotten.
        """
        ...

    async def leave(self, host: str, worker: str) -> None:
        """Gives back the share of a worker that has ended."""
        ...

    async def spend(self, host: str, name: str, spent: Spent) -> Spent:
        """Adds to what the run of a map at its host has spent, and returns the sums of all workers."""
        ...

    async def close(self) -> None:
        """Ends the part of this process. Closing twice is harmless."""
        ...


def reserve(
    times: Mapping[str, float], limits: Sequence[Limit], number: int, now: float, horizon: float = HORIZON
) -> tuple[Reservation, dict[str, float]]:
    """Returns a reservation of at most `number` starts, and the times that have changed with it.

    `times` has by limit its last start, and when the rest ends. This is GCRA without bursts: the gap is read
    when the next start is reserved, so that another rate counts at once. Nothing is reserved further ahead
    than the horizon. A last start that is much later was written before the clock was set back, and counts as
    now. The number is 1 if limits differ, as the starts of the slower one would make the others of the faster
    one wait.
    """
    last = {one.name: times.get(one.name, -inf) for one in limits}
    start = max([now, *((now if last[name] > now + SET_BACK else last[name]) + gap for name, gap in limits)])
    rest = times.get(REST, -inf)
    start = max(start, rest if rest <= now + LONGEST else now)
    spacing = max((one.spacing for one in limits), default=0.0)
    if start > now + horizon or number < 1:
        return Reservation(start, spacing, 0), {name: now for name, at in last.items() if at > now + SET_BACK}
    if spacing:
        is_even = all(one.spacing == spacing for one in limits)
        # A billionth is added, because sums of floating-point starts are not exact.
        number = min(number, 1 + floor((now + horizon - start) / spacing + 1e-9)) if is_even else 1
    return Reservation(start, spacing, number), dict.fromkeys(last, start + (number - 1) * spacing)


def share(own: Share, others: Sequence[Share], places: Places, now: float) -> int:
    """Returns how many requests a worker may have on the way.

    It gets its fair share as far as the others have left places. They hold what they were told last until
    they ask again, or are gone. So all together never have more than there are, at any moment.
    """
    mates = sum(other.places for other in others if other.map == own.map)
    left = places.of_map - mates
    if places.of_host is not None:
        left = min(left, places.of_host - sum(other.places for other in others))
    return max(0, min(fair_share(own, others, places, now), left))


def fair_share(own: Share, others: Sequence[Share], places: Places, now: float) -> int:
    """Returns the share that a worker has when all workers have heard of theirs.

    The workers of a map divide its places, and all workers of a host divide the host's. Nobody gets more than
    it can use. If there are more workers than places, each has one for `TURN` seconds in turn.
    """
    workers = sorted([own, *others])
    mates = [one for one in workers if one.map == own.map]
    parts = [
        _divided([one.wanted for one in several], most, int(now / TURN))[several.index(own)]
        for several, most in ((mates, places.of_map), (workers, places.of_host))
        if most is not None
    ]
    return min(parts)


def _divided(wanted: Sequence[int], total: int, turn: int) -> list[int]:
    """Divides the total equally. Nobody gets more than is wanted; the others get the rest. If it cannot be
    divided equally, those that stand first get one more; who stands first changes with each turn if not all
    get one."""
    shift = turn if sum(1 for one in wanted if one) > total else 0
    parts, left = [0] * len(wanted), total
    order = sorted(range(len(wanted)), key=lambda place: (wanted[place], -((place + shift) % len(wanted))))
    for number, place in enumerate(order):
        parts[place] = min(wanted[place], left // (len(wanted) - number))
        left -= parts[place]
    return parts


def spent_part(budget: Budget, spent: Spent, parts: Sequence[str] = PARTS) -> str | None:
    """Returns the first of these parts of the budget that is spent, or None if something of each is left."""
    for part, most, so_far in zip(PARTS, budget.limits, spent, strict=True):
        if part in parts and most is not None and so_far >= most:
            return part
    return None
