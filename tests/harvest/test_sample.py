"""Samples of walks over pyramids whose size is counted here, tile by tile."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.end_to_end.rendering import Rendering
from tests.servers.published import published
from tileharvest.harvest.sample import ERRORS_EACH_WAY, estimate, needed, sample
from tileharvest.tiles.grid import Tile, first_level, tile_at
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid as Form
from tileharvest.tiles.zones import Zone
from tileharvest.walk.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tileharvest.harvest.plan import Expense, HarvestPlan
    from tileharvest.harvest.sample import Level


@dataclass(frozen=True)
class Pyramid:
    """What a site has: the tiles and their bytes."""

    depth: int
    sizes: dict[Tile, float]

    @classmethod
    def over(cls, depth: int, is_drawn: Callable[[int, int], bool]) -> Pyramid:
        """Of the deepest tiles that are drawn, and what lies above them."""
        side = 1 << depth
        tiles = {
            Tile(0, x, y)
            for x in range(1 - side, side, 2)
            for y in range(1 - side, side, 2)
            if is_drawn(x, y)
        }
        for zoom in range(0, 1 - depth, -1):
            tiles |= {tile.parent() for tile in tiles if tile.zoom == zoom}
        return cls(depth, {tile: 1000 + 37 * (abs(tile.x + tile.y) % 101) for tile in tiles})

    def ask(self, drawn: Sequence[Tile]) -> dict[Tile, float]:
        return {tile: self.sizes[tile] for tile in drawn if tile in self.sizes}

    def walked(self, walk: Walk) -> set[Tile]:
        """All that the whole walk asks for."""
        asked, coming = set(), list(walk.start())
        while coming:
            tile = coming.pop()
            asked.add(tile)
            outcome = Outcome.IGNORED if tile in self.sizes else Outcome.NOTHING
            coming += walk.below(tile, outcome, known=False)
        return asked


def island(depth: int, radius: float) -> Pyramid:
    """Round, with a bay, off the centre."""
    return Pyramid.over(
        depth,
        lambda x, y: math.hypot(x - radius / 3, y) < radius and not (0 < y < radius / 4 and x > 0),
    )


def roads(depth: int) -> Pyramid:
    """A cross with a ring: narrow everywhere."""
    return Pyramid.over(
        depth, lambda x, y: abs(x - 7) < 2 or abs(y + 5) < 2 or abs(math.hypot(x, y) - 40) < 1.5
    )


def scattered(seed: int, depth: int = 4) -> Pyramid:
    choice = random.Random(seed)
    share = choice.random()
    return Pyramid.over(depth, lambda x, y: choice.random() < share)


def complete(
    pyramid: Pyramid, walk: Walk, budget: int, choice: random.Random
) -> tuple[list[Level], list[Tile]]:
    """The sample, and what was asked for it."""
    asked: list[Tile] = []

    async def ask(drawn: Sequence[Tile]) -> dict[Tile, float]:
        asked.extend(drawn)
        return pyramid.ask(drawn)

    def left() -> int:
        return budget - len(asked)

    return asyncio.run(sample(walk, ask, left, choice.random)), asked


def sampled(pyramid: Pyramid, walk: Walk, budget: int, seed: int) -> tuple[HarvestPlan, list[Tile]]:
    """The estimate, and what was asked for it."""
    levels, asked = complete(pyramid, walk, budget, random.Random(seed))
    return estimate([levels]), asked


def least_of(plan: HarvestPlan) -> Expense:
    assert plan.least is not None
    return plan.least


ZONES = (
    Zone(center=(20, 4), width=20, height=24, zoom=0),
    Zone(center=(-30, -30), width=6, height=6, zoom=-1),
)
MAPS = [
    pytest.param((island(7, 50), Walk(Form(7)), 150), id="an island"),
    pytest.param((roads(6), Walk(Form(6)), 150), id="roads"),
    pytest.param((island(7, 60), Walk(Form(7), (-1, 0), ZONES), 120), id="zones of deep zooms"),
]


@dataclass(frozen=True)
class Estimated:
    """A made-up map, and what samples of it tell."""

    pyramid: Pyramid
    walk: Walk
    estimates: list[HarvestPlan]


@pytest.fixture(scope="module", params=MAPS)
def estimated(request: pytest.FixtureRequest) -> Estimated:
    pyramid, walk, budget = request.param
    return Estimated(pyramid, walk, [sampled(pyramid, walk, budget, seed)[0] for seed in range(300)])


def test_on_average_samples_tell_the_truth(estimated: Estimated) -> None:
    pyramid, walk = estimated.pyramid, estimated.walk
    asked = pyramid.walked(walk)
    there = [tile for tile in asked if tile in pyramid.sizes]
    kept = [tile for tile in there if tile.zoom in walk.kept_zooms]
    truth = {
        "tiles": len(kept),
        "passed": len(there) - len(kept),
        "missing": len(asked) - len(there),
        "requests": len(asked) + len(kept),
        "received_bytes": sum(pyramid.sizes[tile] for tile in kept),
    }
    for field, value in truth.items():
        assert_true_on_average([getattr(one.expected, field) for one in estimated.estimates], value)


def assert_true_on_average(expected: Sequence[float], truth: float) -> None:
    error = math.sqrt(fmean((value - truth) ** 2 for value in expected))
    assert fmean(expected) == pytest.approx(truth, abs=4 * error / math.sqrt(len(expected)))


def test_layers_sampled_independently_add_up() -> None:
    layers = [(island(7, 50), Walk(Form(7))), (island(7, 50), Walk(Form(7))), (roads(6), Walk(Form(6)))]
    truth = sum(len(pyramid.sizes) for pyramid, _ in layers)
    estimates = []
    for seed in range(200):
        choice = random.Random(seed)
        estimates.append(estimate([complete(pyramid, walk, 150, choice)[0] for pyramid, walk in layers]))
    assert_true_on_average([one.expected.tiles for one in estimates], truth)
    assert sum(least_of(one).tiles <= truth <= one.most.tiles for one in estimates) >= 0.9 * len(estimates)


def test_the_range_holds_the_truth_nearly_always(estimated: Estimated) -> None:
    pyramid, walk, estimates = estimated.pyramid, estimated.walk, estimated.estimates
    truth = sum(tile in pyramid.sizes and tile.zoom in walk.kept_zooms for tile in pyramid.walked(walk))
    held = sum(least_of(one).tiles <= truth <= one.most.tiles for one in estimates)
    assert held >= 0.9 * len(estimates)
    error = math.sqrt(fmean((one.expected.tiles - truth) ** 2 for one in estimates))
    told = [(one.most.tiles - one.expected.tiles) / ERRORS_EACH_WAY for one in estimates]
    assert error <= 1.1 * math.sqrt(fmean(one**2 for one in told))


def test_of_a_real_map_the_range_holds_the_tiles_nearly_always_and_the_bytes_mostly(
    shared_maps: Path, tmp_path: Path
) -> None:
    rendering = Rendering(published(shared_maps, "antworld", 4, tmp_path), 7)
    sizes = {tile_at(path, 7): rendering.file(path).stat().st_size for path in rendering.paths()}
    estimates = [sampled(Pyramid(7, sizes), Walk(Form(7)), 198, seed)[0] for seed in range(300)]
    size = sum(sizes.values())
    assert sum(least_of(one).tiles <= len(sizes) <= one.most.tiles for one in estimates) >= 0.95 * 300
    assert (
        sum(least_of(one).received_bytes <= size <= one.most.received_bytes for one in estimates)
        >= 0.75 * 300
    )
    assert fmean(one.expected.tiles for one in estimates) == pytest.approx(len(sizes), rel=0.02)
    assert fmean(one.expected.received_bytes for one in estimates) == pytest.approx(size, rel=0.05)


@given(seed=st.integers(0, 10_000), budget=st.integers(8 * 4, 400))
def test_no_more_is_asked_than_allowed_and_nothing_that_a_harvest_would_not_ask(
    seed: int, budget: int
) -> None:
    pyramid, walk = scattered(seed), Walk(Form(4))
    _, asked = sampled(pyramid, walk, budget, seed)
    assert len(asked) <= budget
    assert len(set(asked)) == len(asked)
    assert pyramid.walked(walk).issuperset(asked)


@given(seed=st.integers(0, 10_000))
def test_what_can_be_asked_whole_is_counted_exactly(seed: int) -> None:
    pyramid, walk = scattered(seed), Walk(Form(4), (-2, 0))
    whole, asked = sampled(pyramid, walk, 4 + 16 + 64 + 256, seed)
    kept = [tile for tile in pyramid.sizes if tile.zoom >= -2]
    assert whole.is_exact
    assert set(asked) == pyramid.walked(walk)
    assert whole.least == whole.expected == whole.most
    assert whole.expected.tiles == len(kept)
    assert whole.expected.requests == len(asked) + len(kept)
    assert whole.expected.received_bytes == sum(pyramid.sizes[tile] for tile in kept)


def test_each_request_of_a_sampled_harvest_takes_as_long_as_one_of_the_sample() -> None:
    levels, _ = complete(roads(6), Walk(Form(6)), 150, random.Random(1))
    tiles_alone, whole = estimate([levels]), estimate([levels], looking=3, each=0.3)
    assert tiles_alone.least is not None
    assert whole.least is not None
    pairs = zip(tiles_alone[:3], whole[:3], strict=True)
    for asked, one in pairs:
        assert one.requests == pytest.approx(asked.requests + 3)
        assert one.seconds == pytest.approx(one.requests * 0.3)
        assert one.tiles == asked.tiles


def test_what_was_asked_in_part_is_not_exact_though_its_upper_levels_were_asked_whole() -> None:
    part, asked = sampled(island(6, 30), Walk(Form(6)), 100, 1)
    assert {tile for tile in asked if tile.zoom == -5} == set(first_level(6))
    assert not part.is_exact


def test_there_are_at_least_as_many_tiles_as_were_seen() -> None:
    pyramid = roads(6)
    samples = [sampled(pyramid, Walk(Form(6)), 8 * 6, seed) for seed in range(100)]
    seen = [sum(tile in pyramid.sizes for tile in asked) for _, asked in samples]
    least = [least_of(part).tiles for part, _ in samples]
    assert all(one >= found for one, found in zip(least, seen, strict=True))
    # Else the range alone would have said so.
    assert any(one == found for one, found in zip(least, seen, strict=True))


def test_two_families_of_each_level_are_needed() -> None:
    assert needed(Walk(Form(9))) == 72


def test_a_walk_that_may_not_go_to_the_bottom_ends_where_it_must() -> None:
    _, asked = sampled(island(5, 20), Walk(Form(5), max_depth=2), 1000, 1)
    assert {tile.zoom for tile in asked} == {-4, -3, -2}


def test_bytes_are_left_open_where_the_size_of_any_tile_is_not_told() -> None:
    sizes = dict.fromkeys(Pyramid.over(2, lambda x, y: True).sizes, 10.0) | dict.fromkeys(
        first_level(2), math.nan
    )
    assert len(sizes) == 20
    levels, _ = complete(Pyramid(2, sizes), Walk(Form(2)), 100, random.Random(1))
    expected, most, least, *_ = estimate([levels])
    assert least is not None
    assert expected.tiles == 20
    assert all(math.isnan(one.received_bytes) for one in (expected, least, most))


def test_below_what_was_not_found_nothing_is_asked() -> None:
    levels, asked = complete(Pyramid(2, {}), Walk(Form(2)), 100, random.Random(1))
    assert len(asked) == 4
    assert estimate([levels]).expected.requests == 4
