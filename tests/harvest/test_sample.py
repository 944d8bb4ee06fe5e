"""Samples of walks over pyramids whose size is counted here, tile by tile."""

from __future__ import annotations

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
from tileharvest.harvest.sample import Found, Quantity, Sample, TooFewRequestsError
from tileharvest.tiles.grid import Tile, first_level, tile_at
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.zones import Zone
from tileharvest.walk.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tileharvest.harvest.sample import Estimate

NOTHING = Found(Outcome.NOTHING)


@dataclass(frozen=True)
class Pyramid:
    """What a site has: the tiles and their bytes."""

    depth: int
    sizes: dict[Tile, int]

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

    def ask(self, tile: Tile) -> Found:
        return Found(Outcome.IGNORED, self.sizes[tile]) if tile in self.sizes else NOTHING

    def walked(self, walk: Walk) -> set[Tile]:
        """All that the whole walk asks for."""
        asked, coming = set(), list(walk.start())
        while coming:
            tile = coming.pop()
            asked.add(tile)
            coming += walk.below(tile, self.ask(tile).outcome, known=False)
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


def sampled(pyramid: Pyramid, walk: Walk, budget: int, seed: int) -> tuple[Estimate, list[Tile]]:
    """The estimate, and what was asked for it."""
    sample, asked, choice = Sample(walk), [], random.Random(seed)
    while not sample.is_complete:
        drawn = sample.draw(budget - len(asked), choice.random)
        asked += drawn
        sample.take({tile: pyramid.ask(tile) for tile in drawn})
    return sample.estimate(), asked


ZONES = (
    Zone(center=(20, 4), width=20, height=24, zoom=0),
    Zone(center=(-30, -30), width=6, height=6, zoom=-1),
)
MAPS = [
    pytest.param(island(7, 50), Walk(7), 150, id="an island"),
    pytest.param(roads(6), Walk(6), 150, id="roads"),
    pytest.param(island(7, 60), Walk(7, (-1, 0), ZONES), 120, id="zones of deep zooms"),
]


@pytest.mark.parametrize(("pyramid", "walk", "budget"), MAPS)
def test_on_average_samples_tell_the_truth(pyramid: Pyramid, walk: Walk, budget: int) -> None:
    asked = pyramid.walked(walk)
    there = [tile for tile in asked if tile in pyramid.sizes]
    kept = [tile for tile in there if walk.keeps(tile.zoom)]
    estimates = [sampled(pyramid, walk, budget, seed)[0] for seed in range(300)]
    for quantities, truth in (
        ([one.tiles for one in estimates], len(kept)),
        ([one.passed for one in estimates], len(there) - len(kept)),
        ([one.missing for one in estimates], len(asked) - len(there)),
        ([one.requests for one in estimates], len(asked) + len(kept)),
        ([one.received_bytes for one in estimates], sum(pyramid.sizes[tile] for tile in kept)),
    ):
        expected = [quantity.expected for quantity in quantities if quantity is not None]
        error = math.sqrt(fmean((value - truth) ** 2 for value in expected))
        assert fmean(expected) == pytest.approx(truth, abs=4 * error / math.sqrt(len(expected)))


@pytest.mark.parametrize(("pyramid", "walk", "budget"), MAPS)
def test_the_range_holds_the_truth_nearly_always(pyramid: Pyramid, walk: Walk, budget: int) -> None:
    truth = sum(tile in pyramid.sizes and walk.keeps(tile.zoom) for tile in pyramid.walked(walk))
    quantities = [sampled(pyramid, walk, budget, seed)[0].tiles for seed in range(300)]
    assert sum(one.least <= truth <= one.most for one in quantities) >= 0.9 * len(quantities)
    error = math.sqrt(fmean((one.expected - truth) ** 2 for one in quantities))
    assert error <= 1.1 * math.sqrt(fmean(one.spread**2 for one in quantities))


def test_of_a_real_map_the_range_holds_the_tiles_nearly_always_and_the_bytes_mostly(
    shared_maps: Path, tmp_path: Path
) -> None:
    rendering = Rendering(published(shared_maps, "antworld", 4, tmp_path), 7)
    sizes = {tile_at(path, 7): rendering.file(path).stat().st_size for path in rendering.paths()}
    estimates = [sampled(Pyramid(7, sizes), Walk(7), 198, seed)[0] for seed in range(300)]
    tiles = [one.tiles for one in estimates]
    received = [one.received_bytes for one in estimates if one.received_bytes is not None]
    assert sum(one.least <= len(sizes) <= one.most for one in tiles) >= 0.95 * 300
    assert sum(one.least <= sum(sizes.values()) <= one.most for one in received) >= 0.75 * 300
    assert fmean(one.expected for one in tiles) == pytest.approx(len(sizes), rel=0.02)
    assert fmean(one.expected for one in received) == pytest.approx(sum(sizes.values()), rel=0.05)


@given(seed=st.integers(0, 10_000), budget=st.integers(8 * 4, 400))
def test_no_more_is_asked_than_allowed_and_nothing_that_a_harvest_would_not_ask(
    seed: int, budget: int
) -> None:
    pyramid, walk = scattered(seed), Walk(4)
    _, asked = sampled(pyramid, walk, budget, seed)
    assert len(asked) <= budget
    assert len(set(asked)) == len(asked)
    assert pyramid.walked(walk).issuperset(asked)


@given(seed=st.integers(0, 10_000))
def test_what_can_be_asked_whole_is_counted_exactly(seed: int) -> None:
    pyramid, walk = scattered(seed), Walk(4, (-2, 0))
    estimate, asked = sampled(pyramid, walk, 4 + 16 + 64 + 256, seed)
    kept = [tile for tile in pyramid.sizes if tile.zoom >= -2]
    assert estimate.is_exact
    assert set(asked) == pyramid.walked(walk)
    assert (estimate.tiles.expected, estimate.tiles.least, estimate.tiles.most) == (len(kept),) * 3
    assert estimate.requests.expected == len(asked) + len(kept)
    assert estimate.received_bytes is not None
    assert estimate.received_bytes.expected == sum(pyramid.sizes[tile] for tile in kept)


def test_what_was_asked_in_part_is_not_exact_though_its_upper_levels_were_asked_whole() -> None:
    estimate, asked = sampled(island(6, 30), Walk(6), 100, 1)
    assert {tile for tile in asked if tile.zoom == -5} == set(first_level(6))
    assert not estimate.is_exact


def test_there_are_at_least_as_many_tiles_as_were_seen() -> None:
    pyramid = roads(6)
    samples = [sampled(pyramid, Walk(6), 8 * 6, seed) for seed in range(100)]
    seen = [sum(tile in pyramid.sizes for tile in asked) for _, asked in samples]
    least = [estimate.tiles.least for estimate, _ in samples]
    assert all(one >= found for one, found in zip(least, seen, strict=True))
    # Else the range alone would have said so.
    assert any(one == found for one, found in zip(least, seen, strict=True))


def test_too_few_requests_are_refused_before_any_is_made() -> None:
    sample = Sample(Walk(9))
    with pytest.raises(TooFewRequestsError) as refused:
        sample.draw(71, random.Random(1).random)
    assert refused.value.needed == 72


def test_a_walk_that_may_not_go_to_the_bottom_ends_where_it_must() -> None:
    pyramid = island(5, 20)
    sample, asked = Sample(Walk(5, max_depth=2)), set()
    while not sample.is_complete:
        drawn = sample.draw(1000, random.Random(1).random)
        asked.update(drawn)
        sample.take({tile: pyramid.ask(tile) for tile in drawn})
    assert {tile.zoom for tile in asked} == {-4, -3, -2}


def test_a_site_that_does_not_tell_sizes_leaves_the_bytes_open() -> None:
    sample = Sample(Walk(1))
    sample.draw(100, random.Random(1).random)
    sample.take(dict.fromkeys(first_level(1), Found(Outcome.IGNORED)))
    estimate = sample.estimate()
    assert estimate.tiles.expected == 4
    assert estimate.received_bytes is None


def test_bytes_are_left_open_where_the_size_of_any_tile_is_not_told() -> None:
    sample = Sample(Walk(2))
    for sized in (None, 10):
        drawn = sample.draw(100, random.Random(1).random)
        sample.take(dict.fromkeys(drawn, Found(Outcome.IGNORED, sized)))
    assert sample.estimate().received_bytes is None


def test_errors_of_two_layers_add_up_as_those_of_independent_samples() -> None:
    assert Quantity(10, 3, 4) + Quantity(20, 4, 5) == Quantity(30, 5, 9)


def test_below_a_tile_that_failed_nothing_is_asked() -> None:
    sample = Sample(Walk(2))
    sample.draw(100, random.Random(1).random)
    sample.take(dict.fromkeys(first_level(2), Found(Outcome.FAILED)))
    assert sample.is_complete
    assert sample.estimate().requests.expected == 4
