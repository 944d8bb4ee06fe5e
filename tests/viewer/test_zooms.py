"""Which zoom an answer is taken from, and the same ground at another zoom."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.viewer.building import FIRST, SECOND, THIRD
from tileharvest.history.outlines import LayerOutline
from tileharvest.tiles.grid import Tile, TileRange, at_zoom
from tileharvest.viewer.api import counted_in, heated_in

LAYER = LayerOutline(1, "day", {0: SECOND, -1: THIRD, -4: FIRST}, {})


def test_zooms_are_kept_from_the_day_of_their_first_version_on() -> None:
    assert LAYER.kept_zooms() == [-4, -1, 0]
    assert LAYER.kept_zooms(FIRST) == [-4]
    assert LAYER.kept_zooms(SECOND) == [-4, 0]
    assert LAYER.kept_zooms(THIRD) == [-4, -1, 0]


@pytest.mark.parametrize(("zoom", "deeper"), [(-9, -4), (-4, -4), (-3, -1), (-1, -1), (0, 0)])
def test_the_next_deeper_zoom(zoom: int, deeper: int) -> None:
    assert LAYER.source_zoom(zoom, THIRD) == deeper


def test_nothing_is_deeper_than_the_deepest() -> None:
    assert LAYER.source_zoom(-1, FIRST) is None
    assert replace(LAYER, zooms={}).source_zoom(-1, THIRD) is None


@pytest.mark.parametrize(
    ("zoom", "counted"),
    [
        (-9, (-5, True)),
        (-8, (-5, True)),
        (-7, (-4, True)),
        (-3, (0, True)),
        (-2, (-2, False)),
        (0, (0, False)),
    ],
)
def test_changes_are_counted_three_levels_deeper_where_the_layer_has_that(
    zoom: int, counted: tuple[int, bool]
) -> None:
    assert counted_in([-5, -4, -3, -2, -1, 0], zoom) == counted


@pytest.mark.parametrize(
    ("zoom", "counted"),
    [(-9, (-2, True)), (-5, (-2, True)), (-4, (-2, False)), (-2, (-2, False)), (0, (-2, False))],
)
def test_where_only_one_zoom_is_kept_that_is_counted(zoom: int, counted: tuple[int, bool]) -> None:
    assert counted_in([-2], zoom) == counted


@pytest.mark.parametrize(("zoom", "heated"), [(-9, -5), (-8, -5), (-6, -3), (-3, 0), (-2, 0), (0, 0)])
def test_heat_has_cells_three_levels_deeper_or_as_deep_as_there_are(zoom: int, heated: int) -> None:
    assert heated_in([-5, -4, -3, -2, -1, 0], zoom) == heated


def test_heat_is_never_deeper_than_what_is_kept() -> None:
    assert heated_in([-5, -4], 0) == -4


tiles = st.builds(
    lambda levels, column, row: Tile(-levels, (2 * column + 1) << levels, (2 * row + 1) << levels),
    st.integers(0, 9),
    st.integers(-300, 300),
    st.integers(-300, 300),
)


def only(tile: Tile) -> TileRange:
    return TileRange(tile.zoom, tile.x, tile.x, tile.y, tile.y)


@given(tiles, st.integers(0, 12))
def test_a_coarser_zoom_has_the_ancestor_on_the_same_ground(tile: Tile, levels: int) -> None:
    ancestor = tile
    for _ in range(levels):
        ancestor = ancestor.parent()
    assert at_zoom(only(tile), tile.zoom - levels) == only(ancestor)


@given(tiles.filter(lambda tile: tile.zoom < 0))
def test_children_are_the_four_tiles_one_level_deeper(tile: Tile) -> None:
    area = at_zoom(only(tile), tile.zoom + 1)
    assert len(area) == 4
    assert all(child in area for child in tile.children())


@given(tiles, st.integers(0, 20), st.integers(0, 20), st.integers(1, 4))
def test_the_ground_of_an_area_is_that_of_its_corners(
    corner: Tile, columns: int, rows: int, levels: int
) -> None:
    unit = 2 * corner.reach
    far = Tile(corner.zoom, corner.x + columns * unit, corner.y + rows * unit)
    area = TileRange(corner.zoom, corner.x, far.x, corner.y, far.y)
    coarser = at_zoom(area, area.zoom - levels)
    first, last = (at_zoom(only(tile), area.zoom - levels) for tile in (corner, far))
    assert coarser == TileRange(first.zoom, first.x_from, last.x_to, first.y_from, last.y_to)
    assert len(at_zoom(coarser, area.zoom)) == len(coarser) * 4**levels
