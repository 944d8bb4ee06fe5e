"""Rectangles of the grid, against the tiles that they are made of."""

from collections.abc import Iterator
from itertools import product
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.renderers.overviewer import projection_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import ON_GRID, Ground, Places, Projection, shows

CENTRES = st.integers(-200, 200).map(lambda number: 2 * number + 1)
ABOVE = Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0))
"""Seen from above: eight blocks are a grid unit."""


@given(CENTRES, CENTRES, st.sampled_from([2, 5]), st.integers(-3, 0))
def test_the_tiles_of_what_tiles_cover_are_these_tiles(x: int, y: int, factor: int, zoom: int) -> None:
    area = TileRange.of(Tile(zoom, x << -zoom, y << -zoom)).wider(2)
    assert Ground.of(area, factor).tiles(zoom, factor) == area


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
    ground = Ground.of_places((-8, 16, 24, 80), ABOVE)
    assert ground == Ground(-1, -10, 3, -2)
    assert ground.places(ABOVE) == (-8, 16, 24, 80)


SOME: Places = (13, -40, 77, 9)


def points(places: Places) -> Iterator[tuple[float, float]]:
    """A raster of places inside, three to a block."""
    west, north, east, south = (int(3 * edge) for edge in places)
    across, down = range(west, east), range(north, south)
    return product(((n + 0.5) / 3 for n in across), ((n + 0.5) / 3 for n in down))


@pytest.mark.parametrize("projection", [ABOVE, projection_of(384, 0), ON_GRID])
@pytest.mark.parametrize(("zoom", "factor"), [(0, 2), (-1, 2), (-3, 2), (-1, 5)])
def test_the_tiles_that_show_it_are_those_on_which_its_points_are_drawn(
    projection: Projection, zoom: int, factor: int
) -> None:
    side = 2 * factor**-zoom
    drawn = (projection.point_of(*point) for point in points(SOME))
    wanted = {Tile.at(zoom, floor(x / side), floor(-y / side)) for x, y in drawn}
    around = Ground.of_places(SOME, projection).tiles(zoom, factor)
    assert wanted == {tile for tile in around if shows(tile, SOME, projection, factor)}


def test_a_tile_that_it_only_touches_does_not_show_it() -> None:
    chunk = (0, 0, 16, 16)
    assert [str(tile) for tile in Ground.of_places(chunk, ABOVE).tiles(0)] == ["0_1_-1"]
    assert not shows(Tile(0, 3, -1), chunk, ABOVE)
