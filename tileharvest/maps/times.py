"""Intervals between harvests, times of the day, and quiet hours. Pure: the time is an argument."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

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
            raise ValueError(f"'{text}' is not an interval: write for example 1d, 6h or 7d")
        return cls(int(found[1]), found[2])

    @property
    def length(self) -> timedelta:
        """The length of the interval. A day has 24 hours, also when the clocks change."""
        return timedelta(hours=self.count * _HOURS[self.unit])

    @property
    def segment(self) -> str:
        """The name of segments of this length, in the form of the setting SEGMENT. That of one day is the
        default, `day`."""
        return "day" if str(self) == "1d" else f"every:{self}"

    @property
    def repeats(self) -> timedelta | None:
        """The time between two beginnings within a day, or None for whole days. Raises ValueError for hours
        that neither divide a day nor add up to whole days."""
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
        raise ValueError(f"'{text}' is not a time of the day: write for example 04:00")
    return time(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A part of the day, from `begin` (included) to `end` (excluded).

    If `begin` is later than `end`, the hours span midnight. They are not the same.
    """

    begin: time
    end: time

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Reads a text such as `18:00-23:00`; `24:00` is midnight. Raises ValueError with an example."""
        first, _, last = (part.strip() for part in text.partition("-"))
        with suppress(ValueError):
            begin, end = parse_time(first), parse_time("00:00" if last == "24:00" else last)
            if begin != end:
                return cls(begin, end)
        raise ValueError(f"'{text}' are not hours of a day: write for example 18:00-23:00")

    def until(self, moment: datetime) -> datetime | None:
        """Returns the end of these quiet hours if they hold at this moment, or else None. It is in the
        moment's time zone. If the clocks are put back in between, the quiet hours last an hour longer."""
        now = moment.timetz().replace(tzinfo=None)
        if self.begin < self.end:
            if not self.begin <= now < self.end:
                return None
            day = moment.date()
        elif now >= self.begin:
            day = moment.date() + timedelta(days=1)
        elif now < self.end:
            day = moment.date()
        else:
            return None
        end = datetime.combine(day, self.end, tzinfo=moment.tzinfo)
        # In the night in which an hour comes twice, the second one counts once the first is over.
        return end if end.astimezone(UTC) > moment.astimezone(UTC) else end.replace(fold=1)

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"


def is_whole_day(hours: Iterable[QuietHours]) -> bool:
    """Returns whether the quiet hours together cover the whole day."""
    midnight = datetime(2000, 1, 1, tzinfo=UTC)
    end = quiet_until(hours, midnight)
    return end is not None and end - midnight > timedelta(days=1)


def quiet_until(hours: Iterable[QuietHours], moment: datetime) -> datetime | None:
    """Returns the end of the quiet hours that hold at this moment, and of those that follow without a break,
    or None if none hold."""
    several, end = tuple(hours), None
    while True:
        ends = [found for one in several if (found := one.until(end or moment)) is not None]
        # Compared in UTC: Python compares times of one zone by the clocks on the wall. There an hour comes
        # twice on the day on which they are put back.
        later = max(ends, key=lambda found: found.astimezone(UTC), default=None)
        if later is None or (end is not None and later - moment > timedelta(days=2)):
            return end
        end = later
