"""Segments: slices of time in each of which a request is made once. Pure: the moment is an argument."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

_FIRST_MONDAY: Final = date(1970, 1, 5)
"""Intervals of days and weeks are counted from this day, so that a week begins on Monday (ISO 8601)."""
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Intervals of hours are counted from this moment."""
_HOUR: Final = timedelta(hours=1)
_MIDNIGHT: Final = time()
_INTERVAL: Final = re.compile(r"every:([1-9][0-9]{0,3})([dhw])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Segment:
    """A slice of time, from `begins` until just before `ends`.

    Both are in UTC, because Python compares two times of one zone by their wall clocks, which go back once a
    year. No other segment of the same resolver has the same name. A segment has the same name after a
    restart.
    """

    name: str
    begins: datetime
    ends: datetime | None
    """The very instant at which the next segment begins. None for the last segment."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a segment needs a name")
        if self.begins.tzinfo is not UTC or (self.ends is not None and self.ends.tzinfo is not UTC):
            raise ValueError(f"segment {self.name}: times must be in UTC")
        if self.ends is not None and self.ends <= self.begins:
            raise ValueError(f"segment {self.name} ends before it begins")


def parse_resolver(text: str, zone: ZoneInfo, started: datetime) -> Callable[[datetime], Segment]:
    """Returns the function that gives the segment of a moment, for `day`, `hour`, `week`, `run`, or an
    interval such as `every:3d`. Segments do not overlap, and leave no gap.

    `zone` is the map's time zone, and `started` the moment at which the run began. An interval is a number
    from 1 to 9999 of hours (h), days (d) or weeks (w). Raises ConfigurationError for any other text.
    """
    match text:
        case "day":
            return lambda moment: _days_around(moment, zone, 1, date.isoformat)
        case "week":
            return lambda moment: _days_around(moment, zone, 7, _week_name)
        case "hour":
            return lambda moment: _hours_around(moment, 1, "")
        case "run":
            # A request may come before the start if the clock was set back, so the moment does not matter.
            began = started.astimezone(UTC)
            only = Segment(f"run-{began:%Y%m%dT%H%M%S.%fZ}", began, None)
            return lambda _: only
    interval = _INTERVAL.fullmatch(text)
    if interval is None:
        raise ConfigurationError(
            f"segment '{text}' cannot be: write day, hour, week or run, or an interval such as every:3d, "
            "every:6h or every:2w"
        )
    count, unit = interval.groups()
    if unit == "h":
        return lambda moment: _hours_around(moment, int(count), f"every-{count}h-")
    prefix, days = f"every-{count}{unit}", int(count) * (7 if unit == "w" else 1)
    return lambda moment: _days_around(moment, zone, days, lambda first: f"{prefix}-{first}")


def _days_around(moment: datetime, zone: ZoneInfo, days: int, named: Callable[[date], str]) -> Segment:
    """Returns a segment of whole days of the zone, from local midnight to local midnight.

    `named` makes the segment's name of its first day. A day that loses or gains an hour is one segment of 23
    or 25 hours. If the clocks skip midnight, the day begins when they jump. A day that they skip has no
    segment. If they are set back over midnight (in Newfoundland at 00:01, until 2011), the day that had begun
    goes on.
    """
    utc = moment.astimezone(UTC)
    length, today = timedelta(days=days), utc.astimezone(zone).date()
    first = today - (today - _FIRST_MONDAY) % length
    begins, ends = first_moment(first, zone), first_moment(first + length, zone)
    while ends <= utc:
        first += length
        begins, ends = ends, first_moment(first + length, zone)
    return Segment(named(first), begins, ends)


def _hours_around(moment: datetime, hours: int, prefix: str) -> Segment:
    """Returns a segment of whole hours. They are counted from 1970-01-01 in UTC, whatever the clocks of the
    zone do. Its name begins with the prefix."""
    utc, length = moment.astimezone(UTC), hours * _HOUR
    begins = utc - (utc - _UNIX_EPOCH) % length
    hour = begins.replace(tzinfo=None).isoformat(timespec="hours")
    return Segment(f"{prefix}{hour}Z", begins, begins + length)


def _week_name(monday: date) -> str:
    year, week, _ = monday.isocalendar()
    return f"{year}-W{week:02}"


def first_moment(day: date, zone: ZoneInfo, clock: time = _MIDNIGHT) -> datetime:
    """Returns the first instant, in UTC, at which the clocks of the zone show this day and time. A time that
    they skip is as long after the jump as it would be after the last time before it."""
    # PEP 495: of a repeated time fold=0 is the first.
    return datetime.combine(day, clock, zone).astimezone(UTC)
