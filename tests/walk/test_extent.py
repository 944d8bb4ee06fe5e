"""How far a layer may reach before its walk is ended."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tileharvest.tiles.grid import Tile
from tileharvest.walk.extent import MOST_ALIKE, Extent, most_tiles

SAME = "a" * 40


def square(side: int) -> list[Tile]:
    return [Tile.at(0, column, row) for column in range(side) for row in range(side)]


@pytest.mark.parametrize(
    ("found", "wish", "most"),
    [
        (0, None, 2_000_000),
        (1, None, 100_000),
        (5_000, None, 100_000),
        (50_000, None, 1_000_000),
        (900_000, None, 2_000_000),
        (1_398_100, None, 2_796_200),
        (0, 50, 50),
        (1_398_100, 9_000_000, 9_000_000),
        (2_500_000, None, 5_000_000),
        (2_500_000, 50, 50),
    ],
)
def test_a_layer_may_have_twenty_times_the_found_tiles_within_bounds_and_twice_as_many_always(
    found: int, wish: int | None, most: int
) -> None:
    assert most_tiles(found, wish) == most


@pytest.mark.parametrize(("found", "most"), [(500, 2_000_000), (1_398_100, 2_796_200)])
def test_what_was_found_in_other_zones_lowers_no_limit(found: int, most: int) -> None:
    assert most_tiles(found, is_same=False) == most


def test_a_layer_is_ended_with_the_first_tile_too_many() -> None:
    extent = Extent(20, found=17)
    said = [extent.add(tile, None) for tile in square(2)]
    assert said == [None, None, None, "has more than 20 tiles"]


def test_it_is_compared_after_an_eighth_of_what_is_left_and_at_the_end_after_the_two_hundredth() -> None:
    extent, compared = Extent(1_000), [0]
    for number, tile in enumerate(square(32)[:1_000], 1):
        extent.add(tile, None)
        if extent.is_to_be_compared:
            extent.learn(number)
            compared.append(number)
    steps = [after - before for before, after in pairwise(compared)]
    assert (steps[0], steps[-1]) == (125, 5)
    assert steps == sorted(steps, reverse=True)


def test_what_others_have_found_counts() -> None:
    extent = Extent(20)
    extent.learn(19)
    assert [extent.add(tile, None) for tile in square(1) * 2] == [None, "has more than 20 tiles"]


def test_the_same_image_at_many_neighbouring_places_ends_a_layer() -> None:
    extent = Extent(2_000_000)
    said = [extent.add(tile, SAME) for tile in square(101)]
    assert said.index(f"has the same image {SAME} at more than 10,000 neighbouring places") == MOST_ALIKE


def test_the_same_image_everywhere_is_no_end_where_the_layer_has_one() -> None:
    extent = Extent(2_000_000, is_alike_an_end=False)
    assert {extent.add(tile, SAME) for tile in square(101)} == {None}


def test_the_same_image_at_places_far_apart_ends_nothing() -> None:
    extent = Extent(2_000_000)
    for number in range(3 * MOST_ALIKE):
        assert extent.add(Tile.at(0, 130 * number, 0), SAME) is None


def test_it_is_found_among_as_many_other_images() -> None:
    extent, chance = Extent(2_000_000), random.Random(1)
    said = set()
    for tile in square(127):
        said.add(extent.add(tile, SAME))
        said.add(extent.add(tile, f"{chance.getrandbits(160):040x}"))
    assert said == {None, f"has the same image {SAME} at more than 10,000 neighbouring places"}
