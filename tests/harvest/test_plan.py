"""Plans: by the last harvest, and by samples of pyramids whose size is counted here, tile by tile."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from statistics import fmean
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.harvest.plan import Expense, LayerSample, estimate, plan_by_last, sample
from tileharvest.history.costs import Cost
from tileharvest.history.summaries import HarvestSummary, Precedent
from tileharvest.maps.rates import Delay
from tileharvest.politeness.rules import Rules
from tileharvest.tiles.grid import Tile, TileRange, Zone
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import ListedTiles
from tileharvest.tiles.pyramid import Pyramid as Form
from tileharvest.walk.walk import Walk


@dataclass(frozen=True)
class Pyramid:
    """What a site has: the tiles and their bytes."""

    depth: int
    sizes: dict[Tile, float]

    @classmethod
    def over(cls, depth: int, is_drawn: Callable[[int, int], bool]) -> Pyramid:
        """Of the deepest tiles that are drawn, and what lies above them."""
        tiles = {tile for tile in TileRange.whole(depth, 0) if is_drawn(tile.x, tile.y)}
        tiles |= {tile.ancestor(levels) for tile in tiles for levels in range(depth)}
        return cls(depth, {tile: 1000 + 37 * (abs(tile.x + tile.y) % 101) for tile in tiles})

    def walked(self, walk: Walk) -> set[Tile]:
        """All that the whole walk asks for."""
        asked, coming = set(), list(walk.start())
        while coming:
            tile = coming.pop()
            asked.add(tile)
            coming += walk.below(tile) if tile in self.sizes else ()
        return asked


def island(depth: int, radius: float) -> Pyramid:
    """Round, with a bay, off the centre."""
    return Pyramid.over(
        depth,
        lambda x, y: math.hypot(x - radius / 3, y) < radius and not (0 < y < radius / 4 and x > 0),
    )


def scattered(seed: int, depth: int = 4) -> Pyramid:
    choice = random.Random(seed)
    share = choice.random()
    return Pyramid.over(depth, lambda x, y: choice.random() < share)


def sampled(pyramid: Pyramid, walk: Walk, most: int, seed: int = 1) -> tuple[LayerSample, list[Tile]]:
    """The sample, and what was asked for it."""
    asked: list[Tile] = []

    async def ask(drawn: Sequence[Tile]) -> dict[Tile, float]:
        asked.extend(drawn)
        return {tile: pyramid.sizes[tile] for tile in drawn if tile in pyramid.sizes}

    return asyncio.run(sample(walk, ask, most, random.Random(seed))), asked


def test_on_average_samples_are_true_and_the_range_holds_the_truth_nearly_always() -> None:
    """Of an island, in a zone of deep zooms."""
    pyramid, zone = island(7, 60), Zone(center=(20, 4), width=40, height=48, zoom=0)
    walk = Walk(Form(7), (-1, 0), (zone,))
    asked = pyramid.walked(walk)
    kept = [tile for tile in asked if tile in pyramid.sizes and tile.zoom in walk.kept_zooms]
    truth = {"tiles": len(kept), "requests": len(asked) + len(kept)}
    truth["received_bytes"] = sum(pyramid.sizes[tile] for tile in kept)
    plans = [estimate([sampled(pyramid, walk, 200, seed)[0]]) for seed in range(200)]
    for field, value in truth.items():
        expected = [getattr(one.expected, field) for one in plans]
        error = math.sqrt(fmean((one - value) ** 2 for one in expected))
        assert fmean(expected) == pytest.approx(value, abs=4 * error / math.sqrt(len(plans)))
    held = sum(one.least.tiles <= len(kept) <= one.most.tiles for one in plans if one.least)
    assert held >= 0.9 * len(plans)


@given(seed=st.integers(0, 10_000))
def test_what_can_be_asked_whole_is_counted_exactly(seed: int) -> None:
    pyramid, walk = scattered(seed), Walk(Form(4), (-2, 0))
    found, asked = sampled(pyramid, walk, 10_000, seed)
    plan = estimate([found], looking=3, each=0.5)
    kept = [tile for tile in pyramid.sizes if tile.zoom >= -2]
    assert plan.is_exact
    assert set(asked) == pyramid.walked(walk)
    assert plan.least == plan.expected == plan.most
    assert plan.expected.tiles == len(kept)
    assert plan.expected.requests == 3 + len(asked) + len(kept)
    assert plan.expected.seconds == plan.expected.requests / 2
    assert plan.expected.received_bytes == sum(pyramid.sizes[tile] for tile in kept)
    assert estimate([found], at_once=True).expected.requests == len(asked)


def test_of_a_layer_whose_site_lists_its_tiles_those_are_asked_and_no_others() -> None:
    pyramid = scattered(1)
    found, asked = sampled(pyramid, Walk(Form.listed(4, ListedTiles(pyramid.sizes))), 10_000)
    assert set(asked) == set(pyramid.sizes)
    assert estimate([found]).most.requests == 2 * len(asked)


@pytest.mark.parametrize(("tiles", "most", "is_exact"), [(6, 300, True), (200, 200, False)])
def test_the_top_of_a_layer_without_an_end_is_searched_first(tiles: int, most: int, is_exact: bool) -> None:
    row = {Tile.at(-1, column, 0): 1000.0 for column in range(tiles)}
    pyramid = Pyramid(2, row | {child: 100.0 for tile in row for child in tile.children()})
    found, asked = sampled(pyramid, Walk(Form.endless(2, (Tile.at(-1, 0, 0),))), most)
    assert estimate([found]).is_exact is is_exact
    assert len(asked) <= most
    assert not is_exact or found.tiles == len(pyramid.sizes)


@pytest.mark.parametrize("step", [2, 64])
def test_of_a_canvas_with_millions_of_places_two_hundred_are_asked(step: int) -> None:
    """Tiles of every second column and row exist, or of every 64th: of these the sample finds none."""
    walk = Walk(Form(1, area=TileRange.between(Tile.at(0, 0, 0), Tile.at(0, 2047, 2047))))
    asked: list[Tile] = []

    async def ask(drawn: Sequence[Tile]) -> dict[Tile, float]:
        asked.extend(drawn)
        return {tile: 100.0 for tile in drawn if tile.column % step == tile.row % step == 0}

    plan = estimate([asyncio.run(sample(walk, ask, 200, random.Random(1)))])
    assert len(set(asked)) == len(asked) == 200
    assert plan.least is not None
    assert plan.least.tiles <= (2048 // step) ** 2 <= plan.most.tiles
    assert plan.expected.requests == 2048**2 + plan.expected.tiles
    # Each place is asked for certain, and half to twice as many tiles.
    assert plan.least.requests == 2048**2 + plan.least.tiles
    assert plan.most.requests == 2048**2 + plan.most.tiles
    assert (plan.expected.tiles > 0) is (step == 2)


BEGAN = datetime(2026, 11, 20, 3, tzinfo=UTC)


FULL: Final = HarvestSummary(
    id=1,
    segment="2026-11-20",
    day=date(2026, 11, 20),
    started=BEGAN,
    ended=BEGAN + timedelta(seconds=600),
    reason="finished",
    cost=Cost(135, 11_000, 8000, 95_000, 300.0),
    depth={"day": 3},
    renderer="overviewer",
    counts={
        Outcome.NOTHING: 20,
        Outcome.IGNORED: 90,
        Outcome.NOT_MODIFIED: 2,
        Outcome.UPDATED: 5,
        Outcome.ADDED: 3,
        Outcome.GONE: 5,
    },
)
"""100 tiles, 90 of them unchanged; 20 places with nothing, 5 tiles gone; no request of another kind."""
PRUNED: Final = replace(
    FULL,
    id=2,
    cost=Cost(16, 4_000, seconds=9.0),
    counts={Outcome.IGNORED: 6, Outcome.UPDATED: 4, Outcome.SKIPPED: 90},
    walk="pruned",
)
"""The harvest after it: of its 100 tiles 90 were not asked, nor the places with nothing."""
AFTER_FULL: Final = Precedent(FULL, present_bytes=105_000)
AFTER_PRUNED: Final = Precedent(PRUNED, 105_000, PRUNED, FULL)
RULES: Final = Rules("map.example.net", 4)


def test_of_the_empty_places_of_one_zoom_the_next_harvest_asks_a_share() -> None:
    assert plan_by_last(AFTER_FULL, RULES, is_pruned=False, share=5).expected.requests == 135 - 20 * 4 / 5
    after = Precedent(replace(FULL, walk="share", cost=Cost(120, 9_000, seconds=1.0)), 105_000, full=FULL)
    assert plan_by_last(after, RULES, is_pruned=False, share=5).expected.requests == 120


@pytest.mark.parametrize(
    ("last", "is_pruned", "expected"),
    [
        (AFTER_FULL, False, Expense(100, 135, 11_000, 300.0)),
        (AFTER_FULL, True, Expense(100, 135, 11_000, 300.0)),
        (AFTER_PRUNED, True, Expense(100, 16, 4_000, 9.0)),
        (AFTER_PRUNED, False, Expense(100, 135, 11_000, 300.0)),
    ],
    ids=["full", "no pruned one yet", "pruned", "full after a pruned one"],
)
def test_the_next_harvest_costs_as_the_last_did(last: Precedent, is_pruned: bool, expected: Expense) -> None:
    assert plan_by_last(last, RULES, is_pruned=is_pruned).expected == pytest.approx(expected)


@pytest.mark.parametrize(("gap", "each"), [(Delay(2.0, 4.0), 3.0), (Delay(0.1, 0.3), 300 / 135)])
def test_a_limit_that_has_become_slower_since_counts(gap: Delay, each: float) -> None:
    plan = plan_by_last(AFTER_FULL, replace(RULES, gap=gap), is_pruned=False)
    assert plan.expected.seconds == pytest.approx(135 * each)
    # At most every tile is fetched.
    assert plan.most == pytest.approx(Expense(100, 235, 105_000, 235 * each))
