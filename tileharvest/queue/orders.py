"""Orders: what a person tells a map's harvest while it runs.

An order is a remark in the map's queue, which all workers of the map read. Orders belong to no segment and
outlive restarts: a map stays paused until it is resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tileharvest.maps.rates import Gap, parse_rate
from tileharvest.queue.requests import PUSHED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.queue.port import RequestQueue

_PAUSED: Final = "paused"
_RATE: Final = "rate"
_STOP: Final = "stop"


@dataclass(frozen=True, slots=True)
class Orders:
    """All orders that hold at one moment."""

    paused: str | None = None
    """Since when the map is paused, as a person reads it. None if the map is not paused."""
    rate: Gap | None = None
    """The gap between two requests that a person has set in place of the map's own. None if nobody has."""
    stop: str | None = None
    """The name of the last order to stop. A worker that began after this order does not obey it."""
    spent: str | None = None
    """The budget that is spent, if that was the reason to stop."""

    @classmethod
    def read(cls, notes: Mapping[str, str]) -> Orders:
        """Returns the orders in these remarks. An order that cannot be read, because a later version has
        written it, counts as not given."""
        stop, _, spent = notes.get(_STOP, "").partition(" ")
        try:
            rate = parse_rate(notes[_RATE]) if notes.get(_RATE) else None
        except ValueError:
            rate = None
        return cls(notes.get(_PAUSED) or None, rate, stop or None, spent or None)


async def orders_of(queue: RequestQueue) -> Orders:
    """Returns the orders that hold now. Raises QueueError, as the functions below do."""
    return Orders.read(await queue.notes(PUSHED))


async def pause(queue: RequestQueue, since: str) -> str | None:
    """Lets no further request start. Returns since when the map was paused before, or None if it was not."""
    before = (await orders_of(queue)).paused
    if before is None:
        await queue.note(PUSHED, _PAUSED, since)
    return before


async def resume(queue: RequestQueue) -> bool:
    """Lets requests start again. Returns whether the map was paused."""
    before = (await orders_of(queue)).paused
    await queue.note(PUSHED, _PAUSED, "")
    return before is not None


async def set_rate(queue: RequestQueue, rate: str | None) -> None:
    """Sets a rate such as `2/s`, or with None the map's own rate again. Raises ValueError for a text that is
    no rate."""
    if rate is not None:
        parse_rate(rate)
    await queue.note(PUSHED, _RATE, rate or "")


async def stop(queue: RequestQueue, spent: str | None = None) -> None:
    """Lets all workers that are at the map now end. `spent` names the budget that is the reason, if any."""
    await queue.note(PUSHED, _STOP, f"{uuid4().hex} {spent or ''}".strip())
