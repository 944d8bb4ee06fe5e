"""The plan of a harvest: its cost by the last harvest, or by a sample of the map. Pure, except for the
function that asks for a sample.

A layer may have far more tiles than may be asked to estimate their number. So only a part of each level is
asked, drawn at random from the tiles below those that were found, as in D. E. Knuth, "Estimating the
efficiency of backtrack programs" (1975). An asked tile stands for as many others as were left out. On average
the expected numbers are the true ones, whatever the form of the map.
"""

from __future__ import annotations

from math import floor, isnan, log10, nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from random import Random

    from tileharvest.history.summaries import Precedent
    from tileharvest.politeness.rules import Rules
    from tileharvest.tiles.grid import Tile
    from tileharvest.walk.walk import Walk

TILES: Final = 200
"""The most tiles of all layers together that a sample asks for, besides one on each level of each layer."""
_MOST_BLOCKS: Final = 1024
"""The blocks among which the sample of the first level is drawn, so that no list has millions of tiles."""

Ask: TypeAlias = "Callable[[Sequence[Tile]], Awaitable[Mapping[Tile, float]]]"
"""Asks for tiles of one zoom. Returns the tiles that are there, each with its bytes, or NaN if the site does
not tell them."""


class Expense(NamedTuple):
    """The cost of a harvest, or of a part of it."""

    tiles: float
    """The number of tiles that are kept."""
    requests: float
    received_bytes: float
    """Bytes of bodies. NaN if the site does not say the size of a tile; every sum with it is NaN, too."""
    seconds: float = 0.0

    def as_plain(self) -> dict[str, Any]:
        """Returns the cost for programs. The names never change, and an unknown number is None."""
        return {
            "tiles": round(self.tiles),
            "requests": round(self.requests),
            "received_bytes": None if isnan(self.received_bytes) else round(self.received_bytes),
            "seconds": round(self.seconds, 1),
        }


class HarvestPlan(NamedTuple):
    """The cost of the next harvest."""

    expected: Expense
    most: Expense
    least: Expense | None = None
    """None if it may cost next to nothing."""
    is_exact: bool = True
    """Whether numbers are shown to the last digit. They are not if only a part of the map was sampled."""

    def shown(self, number: float) -> int:
        """Returns a number of the plan as it is shown to people. If it is not exact, it has two digits from
        100 on: 5,461 becomes 5,500."""
        digits = 0 if self.is_exact or number < 100 else 1 - floor(log10(number))
        return int(round(number, digits))


def plan_by_last(last: Precedent, rules: Rules, *, is_pruned: bool, share: int = 1) -> HarvestPlan:
    """Returns the cost of the next harvest, without asking the site.

    It is expected to cost what the last harvest has cost that walked as the next one will (`is_pruned`), or
    else the last full one. The most is a full walk in which every tile has changed: one more request for each
    tile, and the bytes of all of them. A request takes as long as in that harvest, or longer if the map's
    limit is slower now. `share` is the number of days over which the empty places of a map of one zoom are
    asked again, and 1 for other maps.
    """
    full = last.full or last.summary
    like = last.pruned if is_pruned and last.pruned is not None else full
    if share > 1 and last.summary.walk == "share":
        like = last.summary
    _, of_host = rules.limits_at(rules.host)
    tiles, gap = last.summary.present, max(rules.gap.mean, of_host.mean)
    each = max(gap, like.cost.seconds / max(1, like.cost.requests))
    requests: float = like.cost.requests
    if like.walk != "share":
        requests -= like.counts.get(Outcome.NOTHING, 0) * (1 - 1 / share)
    most = full.cost.requests + tiles
    return HarvestPlan(
        expected=Expense(tiles, requests, like.cost.received_bytes, requests * each),
        most=Expense(tiles, most, max(full.cost.received_bytes, last.present_bytes), most * each),
    )


class LayerSample(NamedTuple):
    """What a sample of a layer says about it."""

    tiles: float = 0.0
    """The number of tiles that are kept."""
    places: float = 0.0
    """The number of places that the walk asks for, with and without a tile."""
    received_bytes: float = 0.0
    is_part: bool = False
    """Whether some places were left out. The range is then from half of what is not sure to twice as much."""
    sure: float = 0.0
    """The number of places that the walk asks for in any case: those of its first level."""
    unseen: float = 0.0
    """The most tiles that levels have of which a part was asked, and no tile found: with a certainty of 95 %,
    three for each place that an asked one stands for (the rule of three)."""


async def sample(walk: Walk, ask: Ask, most: int, random: Random) -> LayerSample:
    """Returns a sample of one layer, for which about `most` tiles are asked at most."""
    asked: set[Tile] = set()
    sizes: dict[Tile, float] = {}

    async def found_among(tiles: Sequence[Tile]) -> list[Tile]:
        new = [tile for tile in tiles if tile not in asked]
        asked.update(new)
        sizes.update(await ask(new))
        return [tile for tile in tiles if tile in sizes]

    blocks = list(walk.start_blocks(""))
    weight, result = 1.0, LayerSample(sure=0.0 if walk.goes_sideways else sum(map(len, blocks)))
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
            result.is_part or is_part,
            result.sure,
            result.unseen + (3 * weight if is_part and not found else 0.0),
        )
        level = [below for tile in found for below in walk.below(tile)]
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
            around = [one for one in walk.pyramid.beside(tile) if one not in top]
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
    tiles, places, received, _, sure, unseen = (sum(numbers) for numbers in zip(*samples, strict=True))
    is_part = any(one.is_part for one in samples)
    sure, expected = looking + sure, looking + places + (0 if at_once else tiles)

    def cost(factor: float, unseen: float = 0.0) -> Expense:
        requests = sure + max(0.0, expected - sure) * factor + (0 if at_once else unseen)
        size = nan if unseen else received * factor
        return Expense(tiles * factor + unseen, requests, size, requests * each)

    if not is_part:
        return HarvestPlan(cost(1.0), cost(1.0), cost(1.0))
    return HarvestPlan(cost(1.0), cost(2.0, unseen), cost(0.5), is_exact=False)
