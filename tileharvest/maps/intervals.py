"""Intervals: how often a map is harvested, and at what time of its day. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Final

_INTERVAL: Final = re.compile(r"([1-9][0-9]{0,3})([hdw])", re.ASCII)
_HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24}
_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)

AUTO: Final = "auto"
"""Stands in place of an interval that the map's own changes decide."""


@dataclass(frozen=True, slots=True)
class Interval:
    """So many hours, days or weeks."""

    count: int
    unit: str
    """`h`, `d` or `w`."""

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Reads a text such as `6h`, `1d` or `2w`. Raises ValueError with an example."""
        found = _INTERVAL.fullmatch(text)
        if found is None:
            raise ValueError(f"'{text}' is no interval: write for example 1d, 6h or 7d")
        return cls(int(found[1]), found[2])

    @property
    def length(self) -> timedelta:
        """A day counts 24 hours here, also where the clocks change."""
        return timedelta(hours=self.count * _HOURS[self.unit])

    @property
    def segment(self) -> str:
        """The name of the segments of this length, as the setting SEGMENT has it.

        Those of one day have the name that they have without an interval, so that a map's history goes on.
        """
        return "day" if str(self) == "1d" else f"every:{self}"

    @property
    def repeats(self) -> timedelta | None:
        """The time from one beginning to the next within a day, where a segment is shorter than a day.

        None for whole days. Raises ValueError for hours that neither divide a day nor make whole days: with
        them no time of the day comes again.
        """
        hours = self.length // timedelta(hours=1)
        if hours % 24 == 0:
            return None
        if 24 % hours:
            raise ValueError(f"every {self} is at another time each day")
        return self.length

    def __str__(self) -> str:
        return f"{self.count}{self.unit}"


def parse_time(text: str) -> time:
    """Reads a time of the day such as `04:00`. Raises ValueError with an example."""
    found = _TIME.fullmatch(text)
    if found is None or int(found[1]) > 23 or int(found[2]) > 59:
        raise ValueError(f"'{text}' is no time of the day: write for example 04:00")
    return time(int(found[1]), int(found[2]))
