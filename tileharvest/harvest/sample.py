"""How large a walk is, told from a sample of its tiles. Pure but for the asking, which is handed in.

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
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from tileharvest.tiles.grid import Tile
    from tileharvest.walk.walk import Walk

DESCENTS: Final = 2
"""Families asked on each level at least: from one alone nobody can tell how far off it is."""

ERRORS_EACH_WAY: Final = 2
"""Standard errors from the expected number to each end of the range.

Of a real map of 410 tiles, 200 requests gave a range that held the tiles in 99 of 100 samples, and the bytes,
most of which are in few tiles, in 83. With only two descents on most levels both are held less often.
"""


Ask: TypeAlias = "Callable[[Sequence[Tile]], Awaitable[Mapping[Tile, float]]]"
"""Asks for tiles of one zoom. Returns those that are there, with their bytes, or NaN where the site does not
tell them. Of a blank image, which stands for a tile that is not there, they are negative."""

Level: TypeAlias = tuple[float, list[tuple[int, Expense]]]
"""A level of a sampled walk: the weight of the families that were asked, and each of them with its owner.

A family is the tiles below one tile of the level above. Its owner is the family asked above that has its
parent, by its place among them. Its expense is that of a first harvest, which fetches all that it keeps.
The weight says for how many families each asked one stands, itself included."""


def needed(walk: Walk) -> int:
    """Returns with how many tiles a sample of the walk can surely be completed."""
    return DESCENTS * walk.pyramid.factor**2 * (walk.deepest - walk.top + 1)


async def sample(
    walk: Walk,
    ask: Ask,
    left: Callable[[], int],
    random: Callable[[], float],
    *,
    at_once: bool = False,
) -> list[Level]:
    """Returns the levels of a sample of one layer's walk, the coarsest first.

    `at_once` says that the harvest will ask for tiles by GET, with no HEAD before.
    `left` returns for how many tiles the sample may still ask, and `random` numbers from 0 to 1, 1 excluded.
    A sample that has as many as are `needed` never asks for more. Where they suffice everything is asked.
    """
    families: defaultdict[Tile, list[Tile]] = defaultdict(list)
    top, asked, found = await _top(walk, ask, left)
    for tile in top:
        families[walk.pyramid.parent(tile)].append(tile)
    coming, levels = [(0, tuple(family)) for family in families.values()], list[Level]()
    while coming:
        count, largest = len(coming), max(len(family) for _, family in coming)
        share = left() // ((walk.deepest - walk.top + 1 - len(levels)) * largest)
        wanted = min(count, max(DESCENTS, share))
        # Each family is as likely as any other. Neighbours in the walk lie close to each other on the map,
        # so that steps of one length leave out no region.
        step, first = count / wanted, random()
        drawn = [coming[min(count - 1, int((place + first) * step))] for place in range(wanted)]
        new = [tile for _, family in drawn for tile in family if tile not in asked]
        sizes = {**found, **await ask(new)}
        found_in = [(owner, _expense(walk, family, sizes, at_once=at_once)) for owner, family in drawn]
        levels.append((count / wanted, found_in))
        coming = [
            (place, below)
            for place, (_, family) in enumerate(drawn)
            for tile in family
            if _is_there(tile, sizes) and (below := walk.below(tile, Outcome.IGNORED, known=False))
        ]
    return levels


async def _top(
    walk: Walk, ask: Ask, left: Callable[[], int]
) -> tuple[Iterable[Tile], Collection[Tile], Mapping[Tile, float]]:
    """Returns the tiles of the walk's top; which of them were asked for; and those of these that are there.

    A walk that goes sideways is searched for them, as far as there are requests for that.
    """
    top = dict.fromkeys(walk.start())
    asked: set[Tile] = set()
    found: dict[Tile, float] = {}
    coming = list(top) if walk.goes_sideways else []
    while coming and (most := left() - needed(walk)) > 0:
        some, coming = coming[:most], coming[most:]
        there = await ask(some)
        asked.update(some)
        found.update(there)
        for tile in filter(lambda one: _is_there(one, there), there):
            around = walk.beside(tile, Outcome.IGNORED, known=False)
            coming += (one for one in around if one not in top)
            top |= dict.fromkeys(around)
    return top, asked, found


def _expense(walk: Walk, family: Sequence[Tile], sizes: Mapping[Tile, float], *, at_once: bool) -> Expense:
    fetched = [abs(sizes[tile]) for tile in family if tile in sizes]
    there = sum(_is_there(tile, sizes) for tile in family)
    missing = len(family) - there
    if family[0].zoom not in walk.kept_zooms:
        return Expense(0, len(family), 0, passed=there, missing=missing)
    gets = 0 if at_once else len(fetched)
    return Expense(there, len(family) + gets, sum(fetched), missing=missing)


def _is_there(tile: Tile, sizes: Mapping[Tile, float]) -> bool:
    return tile in sizes and not sizes[tile] < 0


def estimate(samples: Sequence[Sequence[Level]], *, looking: int = 0, each: float = 0.0) -> HarvestPlan:
    """Returns what the walks over several layers come to together, of each of which there is a sample.

    `looking` requests are made before the first one for a tile. `each` is the seconds that a request of the
    sample took, which was made at the harvest's pace.

    On average over all possible samples the expected numbers are the true ones, whatever the form of the map.
    The range says how far off a single one may be; its least is never less than what was seen.
    """
    ranges = []
    for field in range(len(Expense._fields)):
        parts = [_upwards(levels, field) for levels in samples]
        total, variance, seen = (fsum(numbers) for numbers in zip(*parts, strict=True))
        margin = ERRORS_EACH_WAY * sqrt(variance)
        ranges.append((total, total + margin, max(seen, total - margin)))
    expected, most, least = (
        one._replace(requests=looking + one.requests, seconds=each * (looking + one.requests))
        for one in (Expense(*numbers) for numbers in zip(*ranges, strict=True))
    )
    is_exact = all(weight == 1 for levels in samples for weight, _ in levels)
    return HarvestPlan(expected, most, least, is_exact=is_exact)


def _upwards(levels: Sequence[Level], field: int) -> tuple[float, float, float]:
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
