"""How far a layer may reach before a harvest stops."""

from __future__ import annotations

import random

import pytest

from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.walk.tile_count_guard import MOST_ALIKE, TileCountGuard, most_tiles
from tileharvest.walk.walk import Walk

SAME = "a" * 40
ALIKE = f"has the same image {SAME} at more than 10,000 neighbouring places"


def square(side: int) -> list[Tile]:
    return [Tile.at(0, column, row) for column in range(side) for row in range(side)]


@pytest.mark.parametrize(
    ("found", "wish", "is_same", "most"),
    [
        # Twenty times the found tiles within bounds, and always twice as many.
        (0, None, True, 2_000_000),
        (1, None, True, 100_000),
        (50_000, None, True, 1_000_000),
        (900_000, None, True, 2_000_000),
        (1_398_100, None, True, 2_796_200),
        (1_398_100, 9_000_000, True, 9_000_000),
        (2_500_000, 50, True, 50),
        # What was found in other zones lowers no limit.
        (500, None, False, 2_000_000),
        (1_398_100, None, False, 2_796_200),
    ],
)
def test_how_many_tiles_a_layer_may_have(found: int, wish: int | None, is_same: bool, most: int) -> None:
    assert most_tiles(found, wish, is_same=is_same) == most


def test_a_layer_may_have_all_tiles_of_the_area_in_which_its_map_says_they_lie() -> None:
    canvas = Walk(Pyramid(1, area=TileRange.between(Tile.at(0, 0, 0), Tile.at(0, 2047, 2047))))
    assert most_tiles(0, described=canvas.described_size) == 2048**2
    assert most_tiles(0, 50, described=canvas.described_size) == 50
    assert Walk(Pyramid(9)).described_size == 0
    assert Walk(Pyramid.endless(1, (Tile.at(0, 0, 0),))).described_size == 0


def test_a_layer_is_ended_with_the_first_tile_too_many() -> None:
    guard = TileCountGuard(20, found=16)
    assert [guard.add(2), guard.add(2), guard.add(1)] == [None, None, "has more than 20 tiles"]


def test_the_same_image_at_many_neighbouring_places_ends_a_layer_without_an_end() -> None:
    guard, chance = TileCountGuard(2_000_000), random.Random(1)
    said = [guard.add_image(tile, SAME) for tile in square(101)]
    assert said.index(ALIKE) == MOST_ALIKE
    among_others = TileCountGuard(2_000_000)
    found = {
        among_others.add_image(tile, one) for tile in square(127) for one in (SAME, f"{chance.random():040}")
    }
    assert found == {None, ALIKE}


def test_the_same_image_ends_nothing_far_apart_or_where_the_layer_has_an_end() -> None:
    ended, endless = TileCountGuard(2_000_000, is_alike_an_end=False), TileCountGuard(2_000_000)
    assert {ended.add_image(tile, SAME) for tile in square(101)} == {None}
    assert {endless.add_image(Tile.at(0, 130 * one, 0), SAME) for one in range(3 * MOST_ALIKE)} == {None}
