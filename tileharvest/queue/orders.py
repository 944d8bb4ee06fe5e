"""Orders: what a person tells a map's harvest while it runs. They are remarks in its queue, which all of its
workers read.

They belong to the map and to no segment, so that they outlive restarts: a map stays paused until it is
resumed.
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
    """All that hold at one moment."""

    paused: str | None = None
    """Since when the map is paused, for a person; None while it is not."""
    rate: Gap | None = None
    """Between two requests, set by hand in place of the map's own; None if it is not."""
    stop: str | None = None
    """Names the last order to stop. Whoever began after it does not obey it."""
    spent: str | None = None
    """Which budget is spent, where that was the reason to stop."""

    @classmethod
    def read(cls, notes: Mapping[str, str]) -> Orders:
        """Returns the orders in these remarks. One that a later version has written, and that cannot be
        understood, counts as not given."""
        stop, _, spent = notes.get(_STOP, "").partition(" ")
        try:
            rate = parse_rate(notes[_RATE]) if notes.get(_RATE) else None
        except ValueError:
            rate = None
        return cls(notes.get(_PAUSED) or None, rate, stop or None, spent or None)


async def orders_of(queue: RequestQueue) -> Orders:
    """Returns those that hold now. Raises QueueError, as all that follow do."""
    return Orders.read(await queue.notes(PUSHED))


async def pause(queue: RequestQueue, since: str) -> str | None:
    """Let no further request start. Returns since when it was paused already, None if it was not."""
    before = (await orders_of(queue)).paused
    if before is None:
        await queue.note(PUSHED, _PAUSED, since)
    return before


async def resume(queue: RequestQueue) -> bool:
    """Let requests start again. Returns whether it was paused."""
    return bool(await queue.note(PUSHED, _PAUSED, ""))


async def set_rate(queue: RequestQueue, rate: str | None) -> None:
    """Set a rate such as `2/s`; None: the map's own again. Raises ValueError for what is no rate."""
    if rate is not None:
        parse_rate(rate)
    await queue.note(PUSHED, _RATE, rate or "")


async def stop(queue: RequestQueue, spent: str | None = None) -> None:
    """Let all who work on it now end, as the `spent` budget has it or without a reason."""
    await queue.note(PUSHED, _STOP, f"{uuid4().hex} {spent or ''}".strip())
