"""Controls: what a person orders of a map's harvest while it runs.

An order is a note in the map's queue, which all workers of the map read. Orders
outlive restarts: a map stays paused until it is resumed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tileharvest.errors import program
from tileharvest.maps.rates import Delay, parse_rate, rate_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.queue.port import RequestQueue

_logger = logging.getLogger(__name__)

_PAUSED: Final = "paused"
_RATE: Final = "rate"
_STOP: Final = "stop"


@dataclass(frozen=True, slots=True)
class Controls:
    """All orders that hold at one moment."""

    paused: str | None = None
    """Since when the map is paused, as a person reads it. None if the map is not paused."""
    rate: Delay | None = None
    """The gap between two requests that a person has set in place of the map's own. None if nobody has."""
    stop: str | None = None
    """The name of the last order to stop. A worker that began after this order does not obey it."""

    @classmethod
    def read(cls, notes: Mapping[str, str]) -> Controls:
        """Returns the orders in these notes."""
        rate = parse_rate(notes[_RATE]) if _RATE in notes else None
        return cls(notes.get(_PAUSED), rate, notes.get(_STOP))

    def say_news(self, before: Controls, who: str, name: str) -> None:
        """Logs each order that was not given `before`. `who` is what it is about, such as `map 'small'`, and
        `name` its name on the command line."""
        if self.paused != before.paused:
            ends = f"nothing is asked; `{program()} resume {name}` lets it go on"
            words = "goes on" if self.paused is None else f"is paused since {self.paused}: {ends}"
            _logger.log(logging.INFO if self.paused is None else logging.WARNING, "%s %s", who, words)
        if self.rate != before.rate:
            own = f"the {who.partition(' ')[0]}'s own again"
            rate = own if self.rate is None else rate_in_words(self.rate)
            _logger.info("the rate of %s, set by hand: %s", who, rate)


async def controls_of(queue: RequestQueue) -> Controls:
    """Returns the orders that hold now."""
    return Controls.read(await queue.notes())


async def pause(queue: RequestQueue, since: str) -> str | None:
    """Lets no further request start. Returns since when the map was paused before, or None if it was not."""
    before = (await controls_of(queue)).paused
    if before is None:
        await queue.note(_PAUSED, since)
    return before


async def resume(queue: RequestQueue) -> bool:
    """Lets requests start again. Returns whether the map was paused."""
    before = (await controls_of(queue)).paused
    await queue.note(_PAUSED, "")
    return before is not None


async def set_rate(queue: RequestQueue, rate: str | None) -> None:
    """Sets a rate such as `2/s`, or the map's own again. Raises ValueError for a text that is no rate."""
    if rate is not None:
        parse_rate(rate)
    await queue.note(_RATE, rate or "")


async def stop(queue: RequestQueue) -> None:
    """Lets all workers that are at the map now end."""
    await queue.note(_STOP, uuid4().hex)
