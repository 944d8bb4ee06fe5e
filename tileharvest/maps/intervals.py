"""Intervals between harvests, and times of the day. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Final

_INTERVAL: Final = re.compile(r"([1-9][0-9]{0,3})([hdw])", re.ASCII)
_HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24}
_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)

AUTO: Final = "auto"
"""The word for an interval that follows the map's own changes."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number of hours, days or weeks."""

    count: int
    unit: str
    """`h`, `d` or `w`."""

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Returns the interval of a text such as `6h`, `1d` or `2w`. Raises ValueError, with an example."""
        found = _INTERVAL.fullmatch(text)
        if found is None:
            raise ValueError(f"'{text}' is no interval: write for example 1d, 6h or 7d")
        return cls(int(found[1]), found[2])

    @property
    def length(self) -> timedelta:
        """The length of the interval. A day has 24 hours, also when the clocks change."""
        return timedelta(hours=self.count * _HOURS[self.unit])

    @property
    def segment(self) -> str:
        """The name of segments of this length, in the form of the setting SEGMENT.

        Segments of one day have the name of the default, `day`, so that a map keeps its history.
        """
        return "day" if str(self) == "1d" else f"every:{self}"

    @property
    def repeats(self) -> timedelta | None:
        """The time between two beginnings within a day, or None for whole days.

        Raises ValueError for hours that neither divide a day nor add up to whole days. Their beginnings would
        be at another time each day.
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
    """Returns a time of the day such as `04:00`. Raises ValueError, with an example."""
    found = _TIME.fullmatch(text)
    if found is None or int(found[1]) > 23 or int(found[2]) > 59:
        raise ValueError(f"'{text}' is no time of the day: write for example 04:00")
    return time(int(found[1]), int(found[2]))
