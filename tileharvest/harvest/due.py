"""When a map's next harvest begins, and in which order the harvests of several maps begin.

Pure: the moment and the past harvests are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from tileharvest.maps.times import QuietHours, quiet_until
from tileharvest.queue.segments import first_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tileharvest.history.summaries import Past
    from tileharvest.maps.description import MapDescription
    from tileharvest.queue.segments import Segment

INC_RATE: Final = 0.4
"""The part of an interval by which it grows after a harvest that found nothing new."""
DEC_RATE: Final = 0.2
"""The part of an interval by which it shrinks after a harvest that found something new."""

_SPREAD: Final = 0.75
"""The part of a segment over which maps without a time of their own are spread. The rest is for maps that
take long, and for those that fail and are tried again."""

_FIRST_PAUSE: Final = timedelta(minutes=5)
_LONGEST_PAUSE: Final = timedelta(hours=6)

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Times:
    """What decides when a map is due: its entry, and what the settings say where it has none."""

    description: MapDescription
    segments: Callable[[datetime], Segment]
    """Returns the segment of a moment."""
    quiet: tuple[QuietHours, ...] = ()
    """Hours in which no harvest begins."""


@dataclass(frozen=True, slots=True)
class Due:
    """The moment at which a map's next harvest begins, and the reason."""

    name: str
    moment: datetime
    """The moment, in UTC, from which on the map is due."""
    why: str
    """The reason for a person, such as `once a segment` or `its first harvest`."""


def due(times: Times, past: Past, now: datetime) -> Due | None:
    """Returns when the map's next harvest begins, or None if its segment has no end and is complete.

    `past` has the past harvests, seen from the segment of `now`. A map is due at once if it has no finished
    harvest, or if its harvest of this segment was begun and not finished. Otherwise a harvest begins at the
    map's time in each segment. If the map's changes decide the interval, it begins in the segment in which
    the interval since the last harvest ends.
    """
    name, adaptive, segment = times.description.name, times.description.adaptive, times.segments(now)
    if past.is_begun or not (past.is_complete or past.was_ever_finished):
        why = "to be continued" if past.is_begun else "its first harvest"
        return Due(name, _after_quiet(times, segment.begins, now), why)
    if past.is_complete:
        if segment.ends is None:
            return None
        segment = times.segments(segment.ends)
    why = "once a segment"
    if adaptive is not None and past.last_visit is not None:
        interval = adapted(past.visits, *(one.length for one in adaptive))
        why = f"every {_in_words(interval)}, by its changes"
        ready = past.last_visit + interval
        if segment.ends is not None and ready >= segment.ends:
            segment = times.segments(ready)
    return Due(name, _after_quiet(times, beginning(times, segment), now), why)


def beginning(times: Times, segment: Segment) -> datetime:
    """Returns the moment, in UTC, at which the map's harvest of the segment begins.

    It is the first moment in the segment at which the clocks of the map's time zone show `at`, or have just
    jumped over it. If they do neither, it is the segment's beginning. Without `at` the map's name decides the
    moment: it is the same in each segment, and within the first three quarters.
    """
    if (at := times.description.at_time) is not None:
        moments = (moment for moment in _moments(times.description, at, segment) if moment >= segment.begins)
        first = next(moments, segment.begins)
        return first if segment.ends is None or first < segment.ends else segment.begins
    if segment.ends is None:
        return segment.begins
    share = int.from_bytes(sha256(times.description.name.encode()).digest()[:8]) / 2**64
    seconds = int((segment.ends - segment.begins).total_seconds() * _SPREAD * share)
    return segment.begins + timedelta(seconds=seconds)


def adapted(visits: Sequence[bool], shortest: timedelta, longest: timedelta) -> timedelta:
    """Returns the interval from the last of the map's finished harvests to the next.

    The rule is that of Nutch's AdaptiveFetchSchedule, with the rates of its nutch-default.xml. StormCrawler's
    AdaptiveScheduler follows the same rule. After each harvest

        interval := interval * (1 + INC_RATE)    if it found nothing new
        interval := interval * (1 - DEC_RATE)    if it found something new

    and the result is bounded by the shortest and the longest interval. The first interval is the shortest. It
    stays about the same if three harvests of five find something new: 1.4^2 * 0.8^3 = 1.004. Nutch also
    shifts the next time towards the last change (SYNC_DELTA). This rule does not, because a map changes at
    many moments.
    """
    interval = shortest
    for has_changed in visits:
        interval *= 1 - DEC_RATE if has_changed else 1 + INC_RATE
        interval = min(max(interval, shortest), longest)
    return interval


def pause_after(failures: int, segment: timedelta | None) -> timedelta:
    """Returns how long a map is left alone after this many failures of its harvest in a row.

    It is 5 minutes after the first failure, and twice as long after each further one: 5, 10, 20, 40 minutes.
    It is at most 6 hours, and at most a quarter of the segment. `segment` is the segment's length, or None if
    it has no end.
    """
    if failures < 1:
        raise ValueError(f"after {failures} failures there is nothing to wait for")
    longest = _LONGEST_PAUSE if segment is None else min(_LONGEST_PAUSE, segment / 4)
    # Large numbers are excluded here, because the power would be too large for a timedelta.
    return longest if failures > 32 else min(longest, _FIRST_PAUSE * 2 ** (failures - 1))


def _moments(description: MapDescription, at: time, segment: Segment) -> Iterator[datetime]:
    """Yields the moments of `at`, with its repetitions, on the days that the segment touches, in order."""
    zone, interval = description.zone_info, description.interval
    day = segment.begins.astimezone(zone).date()
    last = day if segment.ends is None else segment.ends.astimezone(zone).date()
    clocks = [at] if interval is None or interval.repeats is None else _repeated(at, interval.repeats)
    while day <= last:
        for clock in clocks:
            yield first_moment(day, zone, clock)
        day += _DAY


def _repeated(at: time, repeats: timedelta) -> list[time]:
    """Returns `at` and its repetitions within 24 hours, in the order of a day."""
    any_day = datetime.combine(date.min, at)
    return sorted((any_day + number * repeats).time() for number in range(_DAY // repeats))


def _after_quiet(times: Times, moment: datetime, now: datetime) -> datetime:
    """Returns the moment, or the end of the quiet hours if the harvest would begin in them."""
    begins = max(moment, now)
    until = quiet_until(times.quiet, begins.astimezone(times.description.zone_info))
    return moment if until is None else until.astimezone(UTC)


def _in_words(interval: timedelta) -> str:
    days = interval / _DAY
    return f"{days:.1f} days" if days >= 2 else f"{interval / timedelta(hours=1):.0f} hours"
