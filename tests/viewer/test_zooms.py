"""Which zoom an answer is taken from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.viewer.building import FIRST, SECOND, THIRD
from tileharvest.history.changes import counted_zooms
from tileharvest.history.outlines import LayerOutline
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.viewer.api import heated_in

LAYER = LayerOutline(
    1, "day", {0: SECOND, -1: THIRD, -4: FIRST}, {FIRST: Layer("day", Pyramid(6), "png")}, THIRD
)


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
    [(-9, [-5, 0]), (-5, [-5, 0]), (-3, [-3, 0]), (-1, [-1, 0]), (0, [0])],
)
def test_changes_are_counted_at_the_deepest_zoom_and_at_the_one_that_is_shown(
    zoom: int, counted: list[int]
) -> None:
    assert counted_zooms(dict.fromkeys(range(-5, 1), FIRST), zoom) == counted


@pytest.mark.parametrize(("zoom", "counted"), [(-9, [-4, 0]), (-3, [-1, 0]), (0, [0])])
def test_where_deeper_zooms_came_later_days_before_count_the_deepest_of_their_time(
    zoom: int, counted: list[int]
) -> None:
    assert counted_zooms(LAYER.zooms, zoom) == counted
    older = {0: THIRD, -1: THIRD, -2: SECOND, -3: THIRD, -4: FIRST, -5: SECOND}
    assert counted_zooms(older, -9) == [-5, -4, -2, 0]


@pytest.mark.parametrize("zoom", [-9, -2, 0])
def test_where_only_one_zoom_is_kept_that_is_counted(zoom: int) -> None:
    assert counted_zooms({-2: FIRST}, zoom) == [-2]
    assert counted_zooms({}, zoom) == []


@pytest.mark.parametrize(("zoom", "heated"), [(-9, -5), (-8, -5), (-6, -3), (-3, 0), (-2, 0), (0, 0)])
def test_heat_has_cells_three_levels_deeper_or_as_deep_as_there_are(zoom: int, heated: int) -> None:
    assert heated_in([-5, -4, -3, -2, -1, 0], zoom) == heated


def test_where_tiles_nest_by_five_heat_has_five_by_five_cells() -> None:
    kept = [-3, -2, -1, 0]
    assert [heated_in(kept, zoom, 5) for zoom in (-4, -3, -1, 0)] == [-3, -2, 0, 0]


def test_heat_is_never_deeper_than_what_is_kept() -> None:
    assert heated_in([-5, -4], 0) == -4
