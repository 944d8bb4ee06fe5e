"""Rectangles of the world and the tiles that show them, compared with every point of a fine raster."""

from __future__ import annotations

from itertools import product
from math import floor
from typing import TYPE_CHECKING

import pytest

from tileharvest.renderers.overviewer import projection_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Rectangle
from tileharvest.tiles.projection import ON_GRID, Projection

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP_DOWN = Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0))
SLANTED = projection_of(384, 0)
SOME = Rectangle(13, 77, -40, 9)


def points(rectangle: Rectangle) -> Iterator[tuple[float, float]]:
    """A raster of places inside, three to a block."""
    east = range(int(3 * rectangle.east_from), int(3 * rectangle.east_to))
    south = range(int(3 * rectangle.south_from), int(3 * rectangle.south_to))
    return product(((n + 0.5) / 3 for n in east), ((n + 0.5) / 3 for n in south))


@pytest.mark.parametrize("projection", [TOP_DOWN, SLANTED, ON_GRID])
@pytest.mark.parametrize(("zoom", "factor"), [(0, 2), (-1, 2), (-3, 2), (-1, 5)])
def test_the_tiles_that_show_it_are_those_on_which_its_points_are_drawn(
    projection: Projection, zoom: int, factor: int
) -> None:
    side = 2 * factor**-zoom
    drawn = (projection.point_of(*point) for point in points(SOME))
    wanted = {Tile.at(zoom, floor(x / side), floor(-y / side)) for x, y in drawn}
    around = SOME.ground(projection).tiles(zoom, factor)
    assert wanted == {tile for tile in around if SOME.is_on(tile, projection, factor)}


def test_seen_from_the_side_many_tiles_around_it_do_not_show_it() -> None:
    large = Rectangle(0, 512, 0, 512)
    around = large.ground(SLANTED).tiles(0)
    assert sum(large.is_on(tile, SLANTED) for tile in around) < 0.6 * len(around)


def test_a_tile_that_it_only_touches_does_not_show_it() -> None:
    chunk = Rectangle(0, 16, 0, 16)
    assert [str(tile) for tile in chunk.ground(TOP_DOWN).tiles(0)] == ["0_1_-1"]
    assert not chunk.is_on(Tile(0, 3, -1), TOP_DOWN)


@pytest.mark.parametrize(
    "edges", [(1, 1, 0, 5), (0, 5, 3, 2), (0, float("nan"), 0, 1), (0, float("inf"), 0, 1)]
)
def test_what_has_no_ground_is_refused(edges: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="no rectangle"):
        Rectangle(*edges)
