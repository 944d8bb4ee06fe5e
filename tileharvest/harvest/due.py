"""When a map's next harvest begins, and in which order those of several maps do.

Pure: the moment and what the history knows are arguments.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Final

from tileharvest.maps.quiet_hours import QuietHours, quiet_until
from tileharvest.queue.segments import first_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from zoneinfo import ZoneInfo

    from tileharvest.history.costs import Cost
    from tileharvest.history.past import Past, Visit
    from tileharvest.politeness.rules import Rules
    from tileharvest.queue.segments import Segment, SegmentResolver

INC_RATE: Final = 0.4
"""The part by which an interval grows after a harvest that found nothing new."""
DEC_RATE: Final = 0.2
"""The part by which it shrinks after one that found something new."""

_SPREAD: Final = 0.75
"""The part of a segment over which the maps without a time of their own are spread. What is left is for maps
that take long, and for those that fail and are tried again."""

_REACHED: Final = 0.9
"""The part of a limit with which it counts as reached: a rate that was measured is never quite that of the
limit."""

_SETTLED: Final = 15.0
"""Seconds until the rate of a worker tells anything. A worker measures it over 5 seconds, the first of which
go to the beginning of the harvest."""

_FIRST_PAUSE: Final = timedelta(minutes=5)
_LONGEST_PAUSE: Final = timedelta(hours=6)

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Times:
    """What decides when a map is harvested."""

    name: str
    zone: ZoneInfo
    segments: SegmentResolver
    """It is never asked about a request."""
    at: time | None = None
    """None: its name decides."""
    repeats: timedelta | None = None
    """The time from one `at` to the next within a day; None: it comes once a day."""
    adaptive: tuple[timedelta, timedelta] | None = None
    """The shortest and the longest interval where the map's changes decide it. The shortest is that of the
    segments."""
    quiet: tuple[QuietHours, ...] = ()
    """Hours in which no harvest begins."""


@dataclass(frozen=True, slots=True)
class Due:
    """When a map's next harvest begins, in UTC, and why then."""

    name: str
    moment: datetime
    """It is due at this moment, and from then on."""
    why: str
    """For a person, such as `every day` or `its first harvest`."""

    def is_now(self, now: datetime) -> bool:
        return self.moment <= now


def due(times: Times, past: Past | None, now: datetime) -> Due | None:
    """Returns when the map's next harvest begins, or None where its segment has no end and is complete.

    `past` is what the history knows in the segment of `now`. A map without any finished harvest is due at
    once, and so is one whose harvest of this segment was begun and not finished. Else a harvest begins at the
    map's time in each segment. Where the map's changes decide, it begins in the segment in which the interval
    since the last harvest is over.
    """
    segment = times.segments.segment_at(None, now)
    if past is None or past.is_begun or not (past.is_complete or past.was_ever_finished):
        why = "to be continued" if past is not None and past.is_begun else "its first harvest"
        return Due(times.name, _after_quiet(times, segment.begins, now), why)
    if past.is_complete:
        if segment.ends is None:
            return None
        segment = times.segments.segment_at(None, segment.ends)
    why = "once a segment"
    if times.adaptive is not None and past.visits:
        interval = adapted(past.visits, *times.adaptive)
        why = f"every {_in_words(interval)}, by its changes"
        ready = past.visits[-1].started + interval
        if segment.ends is not None and ready >= segment.ends:
            segment = times.segments.segment_at(None, ready)
    return Due(times.name, _after_quiet(times, beginning(times, segment), now), why)


def first_day(segment: Segment) -> date:
    """Returns a day before which no harvest of the segment began. The day of a harvest is that of the map's
    zone, and a segment begins by the clock of UTC."""
    return (segment.begins - timedelta(days=1)).date()


def beginning(times: Times, segment: Segment) -> datetime:
    """Returns the moment at which the map's harvest of the segment begins, in UTC.

    That is the first instant in the segment at which the clocks of the map's zone show `at`, or have just
    jumped over it; the segment's beginning where they do neither. Without `at` it is a part of the segment
    that the map's name decides, the same in each segment, within its first three quarters.
    """
    if times.at is not None:
        moments = (moment for moment in _moments(times, times.at, segment) if moment >= segment.begins)
        first = next(moments, segment.begins)
        return first if segment.ends is None or first < segment.ends else segment.begins
    if segment.ends is None:
        return segment.begins
    share = int.from_bytes(sha256(times.name.encode()).digest()[:8]) / 2**64
    seconds = int((segment.ends - segment.begins).total_seconds() * _SPREAD * share)
    return segment.begins + timedelta(seconds=seconds)


def adapted(visits: Sequence[Visit], shortest: timedelta, longest: timedelta) -> timedelta:
    """Returns the interval from the last of the map's finished harvests to the next.

    The rule is that of Nutch's AdaptiveFetchSchedule, with the rates of its nutch-default.xml. StormCrawler's
    AdaptiveScheduler follows the same rule. After each harvest

        interval := interval * (1 + INC_RATE)    where it found nothing new
        interval := interval * (1 - DEC_RATE)    where it found something new

    and then not below the shortest, nor above the longest. It begins with the shortest. It stays about the
    same where three harvests of five find something new: 1.4^2 * 0.8^3 = 1.004. Nutch shifts the next time
    towards the last change besides (SYNC_DELTA); a page of tiles changes at many moments, so this does not.
    """
    interval = shortest
    for visit in visits:
        interval *= 1 - DEC_RATE if visit.has_changed else 1 + INC_RATE
        interval = min(max(interval, shortest), longest)
    return interval


def pause_after(failures: int, segment: timedelta | None) -> timedelta:
    """Returns for how long a map is left alone whose harvest has failed so many times in a row.

    It is 5 minutes after the first time, and twice as long after each further one: 5, 10, 20, 40 minutes. It
    is never longer than 6 hours, nor than a quarter of the segment, whose length is None where it has no end.
    """
    if failures < 1:
        raise ValueError(f"after {failures} failures there is nothing to wait for")
    longest = _LONGEST_PAUSE if segment is None else min(_LONGEST_PAUSE, segment / 4)
    # Before the multiplication, as the number may be any.
    return longest if failures > 32 else min(longest, _FIRST_PAUSE * 2 ** (failures - 1))


def leaves_room(*, limit: float | None, concurrency: int, rates: Sequence[float], since: float) -> bool:
    """Returns whether one more worker at a map makes its harvest faster.

    `limit` is that of the map and its host together, in requests per second, None where there is none;
    `rates` are those that its workers reach, and `since` the seconds since the last of them came. A worker
    beyond the requests that may be on the way at once would have none. Below a limit there is room while the
    workers reach less than nine tenths of it, and that is known after a while only.
    """
    if not rates or len(rates) >= concurrency:
        return False
    return limit is None or (since >= _SETTLED and sum(rates) < _REACHED * limit)


def longest_first(rules: Mapping[str, Rules], costs: Mapping[str, Cost]) -> list[str]:
    """Returns the maps in the order of how long they are expected to take, the longest first.

    What takes longest decides when the last map is done, so it must not begin last. `costs` are those of the
    maps' last finished harvests. A map without any comes first: all of it is to be fetched. Maps that are
    expected to take equally long keep their order.
    """
    by_host: defaultdict[str, int] = defaultdict(int)
    for name, cost in costs.items():
        if name in rules:
            by_host[rules[name].host] += cost.requests

    def seconds(name: str) -> float:
        if name not in costs:
            return inf
        its, cost = rules[name], costs[name]
        # Without any limit it takes as long as last time. The maps of a host have to share its limit.
        own = cost.requests * its.gap.mean if its.gap else cost.seconds
        return max(own, by_host[its.host] * its.host_gap.mean)

    return sorted(rules, key=seconds, reverse=True)


def _moments(times: Times, at: time, segment: Segment) -> Iterator[datetime]:
    """Yields the instants that belong to `at` on the days that the segment touches, in order."""
    day = segment.begins.astimezone(times.zone).date()
    last = day if segment.ends is None else segment.ends.astimezone(times.zone).date()
    clocks = [at] if times.repeats is None else _repeated(at, times.repeats)
    while day <= last:
        for clock in clocks:
            yield first_moment(day, times.zone, clock)
        day += _DAY


def _repeated(at: time, repeats: timedelta) -> list[time]:
    """Returns `at` and the times that follow in such steps until it comes again, in the order of a day."""
    any_day = datetime.combine(date.min, at)
    return sorted((any_day + number * repeats).time() for number in range(_DAY // repeats))


def _after_quiet(times: Times, moment: datetime, now: datetime) -> datetime:
    """Returns the moment, or the end of the quiet hours in which a harvest would begin."""
    begins = max(moment, now)
    until = quiet_until(times.quiet, begins.astimezone(times.zone))
    return moment if until is None else until.astimezone(UTC)


def _in_words(interval: timedelta) -> str:
    days = interval / _DAY
    return f"{days:.1f} days" if days >= 2 else f"{interval / timedelta(hours=1):.0f} hours"
