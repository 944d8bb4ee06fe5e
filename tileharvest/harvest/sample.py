"""How large a walk is, told from a sample of its tiles. Pure: answers and random numbers are handed in.

The walk over a layer may be far larger than what may be asked to estimate it. So only a part of each level is
asked, and each answer counts for those that were left out, as in D. E. Knuth, "Estimating the efficiency of
backtrack programs" (1975). His descents are made side by side, a level at a time. Every level has an equal
share of the requests that are left: a narrow level is asked whole and leaves requests to the wide ones below.
"""

from __future__ import annotations

from collections import defaultdict
from math import fsum, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Final, TypeAlias

from tileharvest.harvest.plan import Expense, HarvestPlan
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tileharvest.tiles.grid import Tile
    from tileharvest.walk.walk import Walk

DESCENTS: Final = 2
"""Families asked on each level at least: from one alone nobody can tell how far off it is."""

ERRORS_EACH_WAY: Final = 2
"""Standard errors from the expected number to each end of the range.

Of a real map of 410 tiles, 200 requests gave a range that held the tiles in 99 of 100 samples, and the bytes,
most of which are in few tiles, in 83. With only two descents on most levels both are held less often.
"""


_Level: TypeAlias = tuple[float, list[tuple[int, Expense]]]
"""A level of the walk: the weight of the families that were asked, and each of them with its owner.

A family is the tiles below one tile of the level above. Its owner is the family asked above that has its
parent, by its place among them. Its expense is that of a first harvest, which fetches all that it keeps.
The weight says for how many families each asked one stands, itself included."""


class Sample:
    """A sample of one layer's walk.

    Until `is_complete`: ask for the tiles that `draw` gives, and hand what was found to `take`. Then
    `estimate` tells what the walk comes to. Where the requests suffice, everything is asked.
    """

    def __init__(self, walk: Walk, start: Iterable[Tile] | None = None) -> None:
        """`start` are the tiles of the walk's top, where more of them were found than it begins with."""
        self._walk = walk
        self._family = walk.pyramid.factor**2
        """Tiles below one tile."""
        self._left = walk.deepest - walk.top + 1
        """Levels that were not drawn."""
        self.levels: list[_Level] = []
        families = defaultdict(list)
        for tile in walk.start() if start is None else start:
            families[walk.pyramid.parent(tile)].append(tile)
        self._coming = [(0, tuple(family)) for family in families.values()]
        """The families of the next level, each with its owner."""
        self._drawn = self._coming

    @property
    def is_complete(self) -> bool:
        return not self._coming

    @property
    def needed(self) -> int:
        """Requests with which it can surely be completed."""
        return DESCENTS * self._family * self._left

    def draw(self, budget: int, random: Callable[[], float]) -> list[Tile]:
        """Returns the tiles to ask for next, of one level; `budget` requests are left for the whole sample.

        `random` gives numbers from 0 to 1, 1 excluded. Raises ValueError for a budget below `needed`. With
        one request per tile a budget that suffices at first does so to the end.
        """
        if budget < self.needed:
            raise ValueError(f"{budget} requests, where {self.needed} are needed")
        count, largest = len(self._coming), max(len(family) for _, family in self._coming)
        wanted = min(count, budget // (self._left * largest))
        # Each family is as likely as any other. Neighbours in the walk lie close to each other on the map,
        # so that steps of one length leave out no region.
        step, first = count / wanted, random()
        self._drawn = [self._coming[min(count - 1, int((place + first) * step))] for place in range(wanted)]
        self._left -= 1
        return [tile for _, family in self._drawn for tile in family]

    def take(self, sizes: Mapping[Tile, float]) -> None:
        """Takes what was found: those of the drawn tiles that are there, with their bytes, or NaN where the
        site does not tell them."""
        found = [(owner, self._expense(family, sizes)) for owner, family in self._drawn]
        self.levels.append((len(self._coming) / len(self._drawn), found))
        self._coming = [
            (place, below)
            for place, (_, family) in enumerate(self._drawn)
            for tile in family
            if tile in sizes and (below := self._walk.below(tile, Outcome.IGNORED, known=False))
        ]

    def _expense(self, family: Sequence[Tile], sizes: Mapping[Tile, float]) -> Expense:
        there = [sizes[tile] for tile in family if tile in sizes]
        missing = len(family) - len(there)
        if family[0].zoom not in self._walk.kept_zooms:
            return Expense(0, len(family), 0, passed=len(there), missing=missing)
        return Expense(len(there), len(family) + len(there), sum(there), missing=missing)


def estimate(samples: Sequence[Sample], *, looking: int = 0, each: float = 0.0) -> HarvestPlan:
    """Returns what the walks over several layers come to together, once all their samples are complete.

    `looking` requests are made before the first one for a tile. `each` is the seconds that a request of the
    sample took, which was made at the harvest's pace.

    On average over all possible samples the expected numbers are the true ones, whatever the form of the map.
    The range says how far off a single one may be; its least is never less than what was seen.
    """
    ranges = []
    for field in range(len(Expense._fields)):
        parts = [_upwards(sample.levels, field) for sample in samples]
        total, variance, seen = (fsum(numbers) for numbers in zip(*parts, strict=True))
        margin = ERRORS_EACH_WAY * sqrt(variance)
        ranges.append((total, total + margin, max(seen, total - margin)))
    expected, most, least = (
        one._replace(requests=looking + one.requests, seconds=each * (looking + one.requests))
        for one in (Expense(*numbers) for numbers in zip(*ranges, strict=True))
    )
    is_exact = all(weight == 1 for sample in samples for weight, _ in sample.levels)
    return HarvestPlan(expected, most, least, is_exact=is_exact)


def _upwards(levels: Sequence[_Level], field: int) -> tuple[float, float, float]:
    """Returns of one field of Expense what is expected, the variance of that, and how much of it was seen.

    The variance is that of sampling in several stages (W. G. Cochran, "Sampling Techniques", chapter 10).
    From the deepest level up it adds what the families of a level differ by to the variance from below, which
    counts once for each family that an asked one stands for. It is taken as if the families had been chosen
    by lot, which errs to the safe side.
    """
    variance = seen = 0.0
    below: dict[int, float] = {}
    for weight, found in reversed(levels):
        own = [expense[field] for _, expense in found]
        totals = [one + below.get(place, 0) for place, one in enumerate(own)]
        seen += fsum(own)
        if weight > 1:
            mean = fmean(totals)
            differ = fsum((total - mean) ** 2 for total in totals) / (len(totals) - 1)
            variance = weight * ((weight - 1) * len(totals) * differ + variance)
        below = defaultdict(float)
        for (owner, _), total in zip(found, totals, strict=True):
            below[owner] += weight * total
    return fsum(below.values()), variance, seen
