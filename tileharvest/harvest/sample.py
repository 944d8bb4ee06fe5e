"""A sample of a walk's tiles, and the size of the walk that it tells. Pure, except for the function that
asks.

The walk over a layer may be far larger than the number of requests that may be spent to estimate it. Only a
part of each level is asked, and each answer also counts for tiles that were left out, as in D. E. Knuth,
"Estimating the efficiency of backtrack programs" (1975). His descents are made side by side, one level at a
time. Each level gets an equal share of the requests that are left. A narrow level is asked as a whole, and
leaves requests to the wide ones below.
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
"""The fewest families that are asked on each level. One family alone does not tell how much families
differ."""

ERRORS_EACH_WAY: Final = 2
"""The number of standard errors from the expected number to each end of the range.

For a real map of 410 tiles and 100 samples of 200 requests, the range held the number of tiles in 99 samples.
It held the bytes, most of which are in few tiles, in 83. With only two descents on most levels it holds them
less often.
"""


Ask: TypeAlias = "Callable[[Sequence[Tile]], Awaitable[Mapping[Tile, float]]]"
"""Asks for tiles of one zoom. Returns the tiles with an answer, each with its bytes, or NaN if the site does
not tell them. The bytes are negative for a blank image, which stands for a tile that is not there."""

Level: TypeAlias = tuple[float, list[tuple[int, Expense]]]
"""A level of a sampled walk: the weight of its asked families, and the owner and expense of each.

A family is the tiles below one tile of the level above. Its owner is the asked family of the level above that
has this tile, by its index. Its expense is that of a first harvest, which fetches all kept tiles. The weight
is the number of families for which each asked one stands, itself included."""


def needed(walk: Walk) -> int:
    """Returns the number of tiles that is surely enough to complete a sample of the walk."""
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

    `at_once` says that the harvest will ask for tiles by GET, with no HEAD before. `left` returns the number
    of tiles for which the sample may still ask. `random` returns numbers from 0 to 1, without 1. If `left` is
    at least `needed` at the beginning, the sample never asks for more. If it is enough for all tiles, all are
    asked.
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
        # Each family is as likely as any other. Neighbours in the walk lie close to each other on the map, so
        # that equal steps leave out no region.
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
    """Returns the tiles of the walk's top, those of them that were asked, and the answers to these.

    If the walk goes sideways, its top is searched, as far as there are requests left for that.
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
    """Returns the plan of the walks over several layers together, by a sample of each.

    `looking` is the number of requests before the first one for a tile. `each` is the time, in seconds, of a
    request of the sample, which was made at the harvest's pace.

    On average over all possible samples the expected numbers are the true ones, whatever the form of the map.
    The range says how far off a single sample may be. Its lower end is never less than what was seen.
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
    """Returns the expected number of one field of Expense, its variance, and the number that was seen.

    The variance is that of sampling in several stages (W. G. Cochran, "Sampling Techniques", chapter 10).
    From the deepest level up, the variance between the families of a level is added to the variance from
    below. The latter counts once for each family for which an asked one stands. The formula assumes that
    families were drawn at random, which errs to the safe side.
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
