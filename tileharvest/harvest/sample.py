"""A sample of a layer's tiles, and the size of the layer that follows from it. Pure, except for the function
that asks.

A layer may have far more tiles than may be asked to estimate their number. So only a part of each level is
asked, drawn at random from the tiles below those that were found, as in D. E. Knuth, "Estimating the
efficiency of backtrack programs" (1975). An asked tile stands for as many others as were left out. On average
the expected numbers are the true ones, whatever the form of the map.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tileharvest.harvest.plan import Expense, HarvestPlan
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from random import Random

    from tileharvest.tiles.grid import Tile
    from tileharvest.walk.walk import Walk

TILES: Final = 200
"""The most tiles of all layers together that a sample asks for, besides one on each level of each layer."""
_MOST_BLOCKS: Final = 1024
"""The blocks among which the sample of the first level is drawn, so that no list has millions of tiles."""

Ask: TypeAlias = "Callable[[Sequence[Tile]], Awaitable[Mapping[Tile, float]]]"
"""Asks for tiles of one zoom. Returns the tiles that are there, each with its bytes, or NaN if the site does
not tell them."""


class LayerSample(NamedTuple):
    """What a sample of a layer says about it."""

    tiles: float = 0.0
    """The number of tiles that are kept."""
    places: float = 0.0
    """The number of places that the walk asks for, with and without a tile."""
    received_bytes: float = 0.0
    seen: int = 0
    """The number of kept tiles that were found."""
    variance: float = 0.0
    """The square of the relative error of these numbers. 0 if all places were asked."""
    sure: float = 0.0
    """The number of places that the walk asks for in any case: those of its first level."""

    @property
    def spread(self) -> float:
        """The factor from the expected number to each end of the range: two standard errors."""
        return 1 + 2 * sqrt(self.variance)


async def sample(walk: Walk, ask: Ask, most: int, random: Random) -> LayerSample:
    """Returns a sample of one layer, for which about `most` tiles are asked at most."""
    asked: set[Tile] = set()
    sizes: dict[Tile, float] = {}

    async def found_among(tiles: Sequence[Tile]) -> list[Tile]:
        new = [tile for tile in tiles if tile not in asked]
        asked.update(new)
        sizes.update(await ask(new))
        return [tile for tile in tiles if tile in sizes]

    weight, result = 1.0, LayerSample(sure=0.0 if walk.goes_sideways else walk.start_size)
    blocks = list(walk.start_blocks(""))
    if len(blocks) > _MOST_BLOCKS:
        weight = len(blocks) / _MOST_BLOCKS
        blocks = random.sample(blocks, _MOST_BLOCKS)
    level = [tile for block in blocks for _, tile in block.tiles()]
    if walk.goes_sideways:
        level = await _top(walk, level, found_among, most // 2)
    while level:
        zoom, places = level[0].zoom, len(level)
        share = max(1, (most - len(asked)) // (walk.deepest - zoom + 1))
        is_part = places > share and not asked.issuperset(level)
        if is_part:
            level, weight = random.sample(level, share), weight * places / share
        found = await found_among(level)
        kept = found if zoom in walk.kept_zooms else []
        result = LayerSample(
            result.tiles + weight * len(kept),
            result.places + weight * len(level),
            result.received_bytes + weight * sum(sizes[tile] for tile in kept),
            result.seen + len(kept),
            result.variance + (1 / max(1, len(found)) if is_part else 0.0),
            result.sure,
        )
        level = [below for tile in found for below in walk.below(tile, Outcome.IGNORED, known=False)]
    return result


async def _top(
    walk: Walk,
    start: Sequence[Tile],
    found_among: Callable[[Sequence[Tile]], Awaitable[list[Tile]]],
    most: int,
) -> list[Tile]:
    """Returns the tiles of the top of a walk that goes sideways, as far as so many questions lead."""
    top, coming = dict.fromkeys(start), list(start)
    while coming and most > 0:
        asked, coming = coming[:most], coming[most:]
        most -= len(asked)
        for tile in await found_among(asked):
            around = [one for one in walk.beside(tile, Outcome.IGNORED, known=False) if one not in top]
            top |= dict.fromkeys(around)
            coming += around
    return list(top)


def estimate(
    samples: Sequence[LayerSample], *, looking: int = 0, each: float = 0.0, at_once: bool = False
) -> HarvestPlan:
    """Returns the plan of a harvest of these layers together, in which every tile is fetched.

    `looking` is the number of requests before the first one for a tile, and `each` the seconds of a request.
    `at_once` says that the harvest asks for tiles by GET, with no HEAD before.
    """
    tiles, places, received = (sum(one[place] for one in samples) for place in range(3))
    expected = looking + places + (0 if at_once else tiles)
    spread = max(one.spread for one in samples)
    seen, sure = sum(one.seen for one in samples), looking + sum(one.sure for one in samples)

    def cost(factor: float) -> Expense:
        requests = sure + max(0.0, expected - sure) * factor
        return Expense(max(seen, tiles * factor), requests, received * factor, requests * each)

    return HarvestPlan(cost(1.0), cost(spread), cost(1 / spread), is_exact=spread == 1)
