"""Made-up maps for the simulation of a fleet: their sizes, changes, limits and times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from math import exp, inf, log
from typing import TYPE_CHECKING, Final, TypeVar
from zoneinfo import ZoneInfo

from tileharvest.harvest.due import Times
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import Gap
from tileharvest.politeness.rate_limit import Pace
from tileharvest.queue.segments import parse_resolver

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    Value = TypeVar("Value")

BEGINNING: Final = datetime(2026, 3, 23, tzinfo=UTC)
"""When the simulation begins: a Monday, six days before Europe's summer time."""


@dataclass(frozen=True, slots=True)
class MeasuredMap:
    """A map that was published, and what changed in it."""

    name: str
    tiles: int
    """In its last version."""
    steps: tuple[int, ...]
    """How many tiles each version added, changed and removed."""
    days: int
    """From the first version to the last."""
    is_pruned: bool = True
    """Whether its site's times or validators let a harvest leave out what lies below unchanged tiles."""

    @property
    def chance(self) -> float:
        """That it changes on a day."""
        return min(1.0, len(self.steps) / self.days)


MEASURED: Final = (
    MeasuredMap("antworld", 411, (53, 85, 44), 88),
    MeasuredMap("alexjj", 63, (79,), 1),
    MeasuredMap("jgore43", 18, (5, 11, 7), 2),
    MeasuredMap("duckmap", 77, (43, 15, 57, 15), 1),
    MeasuredMap("sbatserver", 160, (10, 79, 27, 32, 24), 31),
    # BlueMap's own server gives neither ETag nor Last-Modified.
    MeasuredMap("labyrinthmc", 64, (5, 3, 3, 3), 60, is_pruned=False),
    # It is not known when uNmINeD writes the tiles above a changed one.
    MeasuredMap("helmetgreen", 550, (332, 271, 40), 35, is_pruned=False),
    MeasuredMap("mrozbarry", 334, (184, 41, 4), 22),
    MeasuredMap("KedamaDiff's", 1_361, (241,), 1),
)
"""The published maps that the tests use, and the records of KedamaDiff's archive, 31,574 rows of 131 days.

Their figures are from the README beside the published maps. `richhall` has one version and is left out."""

_SIZES: Final = ((1, 0.4), (4, 0.3), (16, 0.2), (64, 0.1))
"""How many times as large as the measured map a simulated one is, and how often. The published maps are cuts;
a level more has four times the tiles. The largest have 87,104 tiles, about as many as the largest map of
`make bench`. The shares are assumed."""

_RATES: Final = ((1.0, 0.25), (2.0, 0.30), (5.0, 0.25), (10.0, 0.15), (None, 0.05))
"""Requests per second that a map's entry allows, and how often. They are assumed: it is people who choose
them. None leaves it to the concurrency."""

_ANSWERS: Final = (0.02, 0.4)
"""Seconds that a site takes to answer, from and to, evenly by their logarithm. The benchmarks' sites answer
after 30 and 50 ms; that others are up to ten times slower is assumed."""

_CONCURRENCY: Final = 4
"""The default."""

_ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe")
_AT: Final = 0.2
"""The share of maps with a time of their own. It lies in the first three quarters of the day, as a map's does
that has none: one whose site is down just before midnight has no time left for a second attempt."""
_ADAPTIVE: Final = 0.2
"""The share of maps whose changes decide when they are visited."""
_BUDGETED: Final = 0.05
"""The share of maps with a budget, which a day with changes exceeds."""
_SHARED: Final = 0.1
"""The share of maps that stand on a host together with three others."""
_TOGETHER: Final = 4

_SPARED: Final = 0.02
_AUDITED: Final = 20
"""A pruned walk asks again for so much of what it spares, and for no fewer tiles than so many."""
_FIRST_LEVEL: Final = 4
_PER_CHANGE: Final = 4.2
"""Requests of a pruned walk for each tile that has changed, its GET among them, where few have. That is the
pruned walk of docs/benchmarks.md without its audit: 942 requests for 222 changed tiles."""


@dataclass(frozen=True, slots=True)
class Site:
    """A map as it is simulated.

    What it is asked for is counted in batches, each of so many requests that it takes a while: the pace and
    the budget are those of batches, too. Of the requests of one batch nothing is simulated but the time that
    they take together.
    """

    times: Times
    tiles: int
    measured: MeasuredMap
    pace: Pace
    budget: Budget
    batch: int
    """Requests."""
    answer: float
    """Seconds from a request to its answer."""

    @property
    def name(self) -> str:
        return self.times.name

    def requests(self, random: Random) -> tuple[int, int]:
        """Returns how many requests a visit takes, and how many tiles it finds changed."""
        changed = 0
        if random.random() < self.measured.chance:
            share = random.choice(self.measured.steps) / self.measured.tiles
            changed = min(self.tiles, max(1, round(self.tiles * share)))
        full = self.tiles + changed
        if not self.measured.is_pruned:
            return full, changed
        pruned = _FIRST_LEVEL + round(max(_AUDITED, _SPARED * self.tiles) + _PER_CHANGE * changed)
        return min(full, pruned), changed

    def seconds(self, batches: int, share: int) -> float:
        """Returns the seconds from the start of so many batches to the last answer, for a worker that may
        have `share` requests on the way."""
        return (batches * self.batch - 1) * self._apart(share) + self.answer

    def rate(self, share: int) -> float:
        """Returns the batches per second that a worker with such a share reaches."""
        return 1 / (self.batch * self._apart(share)) if share else 0.0

    def _apart(self, share: int) -> float:
        return max(self.pace.least / self.batch, self.answer / share)


def sites(number: int, random: Random, quantum: float) -> list[Site]:
    """Returns so many maps. A batch of requests takes about `quantum` seconds, or is one request where that
    is 0."""
    found: list[Site] = []
    host, rate, batch = "", None, 1
    for each in range(number):
        measured, answer = random.choice(MEASURED), exp(random.uniform(*map(log, _ANSWERS)))
        tiles = measured.tiles * _drawn(_SIZES, random)
        # Every fortieth host has four maps, and so has a tenth of the maps such a host.
        is_alone = each % round(_TOGETHER / _SHARED) >= _TOGETHER
        if is_alone or each % _TOGETHER == 0:
            host, rate = f"host-{each}", _drawn(_RATES, random)
            batch = max(1, int(quantum * (rate or _CONCURRENCY / answer)))
        gap = batch / rate if rate else 0.0
        pace = Pace(host, _CONCURRENCY, Gap.of(gap), host_gap=Gap.of(0.0 if is_alone else gap))
        longest = 2 * tiles / min(rate or inf, _CONCURRENCY / answer)
        quiet = max(1, (tiles * _SPARED + _AUDITED) / batch)
        budget = Budget(requests=round(2 * quiet) if random.random() < _BUDGETED else None)
        times = _times(f"map-{each}", longest, random)
        found.append(Site(times, tiles, measured, pace, budget, batch, answer))
    return found


def _times(name: str, longest: float, random: Random) -> Times:
    """Returns when a map is visited whose visits take so many seconds at most: each day if that is a short
    part of it, else each week."""
    zone, is_short = ZoneInfo(random.choice(_ZONES)), longest < timedelta(hours=3).total_seconds()
    at = time(random.randrange(18), random.choice((0, 15, 30, 45))) if random.random() < _AT else None
    adaptive = random.random() < _ADAPTIVE and is_short
    return Times(
        name,
        zone,
        parse_resolver("day" if is_short else "week", zone, BEGINNING),
        at=at,
        adaptive=(timedelta(days=1), timedelta(days=28)) if adaptive else None,
    )


def _drawn(shares: Sequence[tuple[Value, float]], random: Random) -> Value:
    values: list[Value] = [value for value, _ in shares]
    return random.choices(values, [weight for _, weight in shares])[0]
