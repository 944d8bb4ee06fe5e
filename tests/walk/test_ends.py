"""What ends a harvest: a map that has moved, or was never there, and a layer without an end."""

import random

import pytest

from tileharvest.tiles.grid import Tile
from tileharvest.walk.ends import CANVAS, NEIGHBOURS, SAMPLE, Missing, TileCountGuard, most_tiles


@pytest.mark.parametrize(
    ("known", "gone", "unasked", "has_moved"),
    [
        (8, 4, 0, False),
        (8, 5, 0, True),
        # Most of a map that is drawn with fewer zooms was not reached. Nothing was asked of it yet.
        (1000, 0, 750, False),
        (1000, 4, 996, False),
        (1000, SAMPLE - 1, 1000 - SAMPLE, False),
        (1000, SAMPLE, 1000 - SAMPLE, True),
        # Most of the tiles that were asked are there.
        (1000, SAMPLE, 600, False),
        (1000, 300, 100, False),
    ],
)
def test_a_map_has_moved_where_most_asked_tiles_are_gone(
    known: int, gone: int, unasked: int, has_moved: bool
) -> None:
    assert Missing(known, gone, unasked).has_moved is has_moved


def test_the_line_fits_what_happened() -> None:
    missing = Missing(1000, 600)
    assert "the map has moved rather than vanished" in missing.in_words("m", 0)
    assert "put the new url into maps.toml" in missing.in_words("m", 0)
    anew = missing.in_words("m", 31)
    assert "and 31 tiles are there: the map was begun anew at its address" in anew
    assert "new url" not in anew


SAME = "a" * 40
ALIKE = f"has the same image {SAME} at more than 10,000 places"


def square(side: int) -> list[Tile]:
    return [Tile.at(0, column, row) for column in range(side) for row in range(side)]


@pytest.mark.parametrize(
    ("found", "wish", "described", "most"),
    [
        (0, None, 0, 2_000_000),
        (1_398_100, None, 0, 2_796_200),
        (1_398_100, 9_000_000, 0, 9_000_000),
        (2_500_000, 50, 4_194_304, 50),
        (0, None, 4_194_304, 4_194_304),
    ],
)
def test_how_many_tiles_a_layer_may_have(found: int, wish: int | None, described: int, most: int) -> None:
    assert most_tiles(found, wish, described) == most


def test_a_layer_is_ended_with_the_first_tile_too_many() -> None:
    guard = TileCountGuard(20, found=16)
    hint = "max_tiles = 40 into maps.toml where it is that large"
    assert [guard.add(2), guard.add(2), guard.add(1)] == [None, None, ("has more than 20 tiles", hint)]


def test_the_same_image_at_many_neighbouring_places_ends_a_layer_without_an_end() -> None:
    guard, chance = TileCountGuard(2_000_000, alike=NEIGHBOURS), random.Random(1)
    said = [guard.add_image(tile, SAME) for tile in square(101)]
    assert said.index(next(filter(None, said))) == NEIGHBOURS[0]
    among_others = TileCountGuard(2_000_000, alike=NEIGHBOURS)
    images = ((tile, image) for tile in square(127) for image in (SAME, f"{chance.random():040}"))
    said = {among_others.add_image(*one) for one in images}
    assert {one and one[0] for one in said} == {None, ALIKE}


def test_the_same_image_ends_nothing_far_apart_or_where_the_layer_has_an_end() -> None:
    ended, endless = TileCountGuard(2_000_000), TileCountGuard(2_000_000, alike=NEIGHBOURS)
    assert {ended.add_image(tile, SAME) for tile in square(101)} == {None}
    apart = {endless.add_image(Tile.at(0, 130 * one, 0), SAME) for one in range(3 * NEIGHBOURS[0])}
    assert apart == {None}


def test_on_a_canvas_the_same_image_counts_wherever_it_lies() -> None:
    guard = TileCountGuard(2_000_000, alike=CANVAS)
    said = [guard.add_image(Tile.at(0, 130 * one, 0), SAME) for one in range(CANVAS[0] + 1)]
    assert [one[0] for one in said if one] == [f"has the same image {SAME} at more than 1,000 places"]
