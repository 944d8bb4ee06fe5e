"""The changes in a named area."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, World, picture, square
from tileharvest.history.area_changes import changed_in, rectangle_of
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.renderers.xyz import Xyz, mercator
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

TOP_DOWN = Layer(
    DAY_LAYER,
    Pyramid(10),
    "png",
    tile_size=(512, 512),
    projection=Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0)),
)
"""A tile is 16 x 16 blocks."""
EARTH = replace(TOP_DOWN, projection=mercator(10))
Corners: TypeAlias = tuple[tuple[float, float], tuple[float, float]]


def test_each_day_has_the_tiles_that_changed_in_it_and_no_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    tiles = square(0, 4, bottom=-4)
    world.harvest(FIRST, dict.fromkeys(tiles, picture()), described=TOP_DOWN)
    world.harvest(SECOND, {tiles[0]: picture(BLUE), tiles[15]: picture(BLUE)}, described=TOP_DOWN)
    with History.open(f"sqlite:///{world.database}") as history:
        layer = map_outline(history, MAP).layers[0]
        # The upper two rows of tiles, all but the last column: blocks 0 to 47 east, 0 to 31 south.
        found = changed_in(history, layer, rectangle_of(((0, 0), (47, 31)), TOP_DOWN, None), date.min)
        assert {day: len(changed) for day, changed in found.items()} == {FIRST: 6}
        found = changed_in(history, layer, rectangle_of(((47, 31), (48, 32)), TOP_DOWN, None), date.min)
        assert {day: sorted(map(str, changed)) for day, changed in found.items()} == {
            FIRST: ["0_5_-3", "0_5_-5", "0_7_-3", "0_7_-5"]
        }
        found = changed_in(history, layer, rectangle_of(((48, 0), (63, 15)), TOP_DOWN, None), SECOND)
        assert found == {SECOND: [tiles[15]]}


def test_corners_of_blocks_belong_to_the_area_whichever_is_named_first() -> None:
    wanted = (-3, -8, 6, 1)
    assert rectangle_of(((-3, -8), (5, 0)), TOP_DOWN, "overviewer") == wanted
    assert rectangle_of(((5.9, -7.5), (-2.1, 0.2)), TOP_DOWN, "overviewer") == wanted


def test_corners_of_the_earth_are_degrees() -> None:
    """At 85.0511287 degrees the square world ends, as far from the equator as 180 degrees east are."""
    found = rectangle_of(((0, 180), (85.0511287, -90)), EARTH, Xyz.name)
    assert found == pytest.approx((-90, -180, 180, 0), abs=1e-6)


@pytest.mark.parametrize("corners", [((86, 0), (0, 1)), ((10, 5), (20, 5))])
def test_corners_that_are_none_of_plain_tiles_are_refused(corners: Corners) -> None:
    with pytest.raises(ValueError, match=r"85.05 degrees|not a rectangle"):
        rectangle_of(corners, EARTH, Xyz.name)
