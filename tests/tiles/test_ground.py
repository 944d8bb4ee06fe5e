"""Rectangles of the grid, against the tiles that they are made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground
from tileharvest.tiles.projection import Projection

CENTRES = st.integers(-200, 200).map(lambda number: 2 * number + 1)
ABOVE = Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0))
"""Seen from above: eight blocks are a grid unit."""
ASLANT = Projection((0.0625, 0, 0.0625, -1), (0.03125, 0.0625, -0.03125, -16))
"""Overviewer's."""


@given(CENTRES, CENTRES, st.sampled_from([2, 5]), st.integers(-3, 0))
def test_the_tiles_of_what_tiles_cover_are_these_tiles(x: int, y: int, factor: int, zoom: int) -> None:
    area = TileRange.of(Tile(zoom, x << -zoom, y << -zoom)).wider(2)
    assert Ground.of(area, factor).tiles(zoom, factor) == area


def test_a_tile_covers_its_reach_on_each_side() -> None:
    assert Ground.of(TileRange.of(Tile(-2, 4, -12))) == Ground(0, -16, 8, -8)


def test_a_rectangle_within_a_tile_has_that_tile_of_each_zoom() -> None:
    ground = Ground(0.5, 0.5, 1.5, 1.5)
    assert [ground.tiles(zoom) for zoom in (0, -1)] == [
        TileRange.of(Tile(0, 1, 1)),
        TileRange.of(Tile(-1, 2, 2)),
    ]


def test_pixels_are_counted_from_the_upper_left_corner_of_the_tiles() -> None:
    # A tile of 384 pixels is two grid units wide.
    assert Ground(0.5, 0.5, 1.0, 1.75).pixels(0, (384, 384)) == (96, 48, 192, 288)


def test_pixels_go_on_over_the_edge_of_a_tile() -> None:
    assert Ground(1, -1, 3, 1).pixels(0, (384, 384)) == (192, 192, 576, 576)
    assert Ground(1, -1, 3, 1).pixels(0, (384, 256)) == (192, 128, 576, 384)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(1, 300), st.integers(1, 300))
def test_a_rectangle_of_whole_pixels_has_exactly_these(x: int, y: int, wide: int, high: int) -> None:
    unit = 2 / 384
    ground = Ground(x * unit, -(y + high) * unit, (x + wide) * unit, -y * unit)
    assert ground.pixels(0, (384, 384)) == (x % 384, y % 384, x % 384 + wide, y % 384 + high)


@pytest.mark.parametrize("edges", [(1, 0, 1, 2), (0, 2, 1, 1), (0, 0, float("inf"), 1)])
def test_what_has_no_size_is_no_rectangle(edges: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="a rectangle"):
        Ground(*edges)


def test_rectangles_that_share_only_an_edge_do_not_touch() -> None:
    one = Ground(0, 0, 2, 2)
    assert [one.touches(Ground(*edges)) for edges in [(2, 0, 4, 2), (1.9, 1.9, 4, 4)]] == [False, True]


def test_a_rectangle_of_the_world_seen_from_above_is_one_of_the_picture() -> None:
    ground = Ground.of_places((-8, 16), (24, 80), ABOVE)
    assert ground == Ground(-1, -10, 3, -2)
    assert ground.places(ABOVE) == (-8, 16, 24, 80)


def test_all_of_a_rectangle_of_the_world_lies_in_that_of_the_picture() -> None:
    ground = Ground.of_places((100, -300), (180, -250), ASLANT)
    for corner in [(100, -300), (100, -250), (180, -300), (180, -250), (140, -275)]:
        x, y = ASLANT.point_of(*corner)
        assert ground.west <= x <= ground.east
        assert ground.south <= y <= ground.north
