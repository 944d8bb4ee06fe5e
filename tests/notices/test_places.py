"""Where a map has changed, compared with the plain definition over all tiles."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.viewer.building import DAY_LAYER, FIRST, GREEN, MAP, NIGHT_LAYER, SECOND, World, picture, square
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.notices.places import best_view, changed_places, covering
from tileharvest.renderers.xyz import mercator
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from tileharvest.notices.places import ChangedPlace

SIDE = 40
"""Tiles across the world: blocks of 8 on both sides of both axes, whole ones and parts."""
BLOCK = square(-1, 8, left=-8)
"""The tiles of one block, two grid units apart from the map's middle."""


def centres(area: TileRange) -> list[Tile]:
    return [Tile(area.zoom, x, y) for x, y in product(area.columns, area.rows)]


@pytest.fixture(scope="module")
def changed() -> list[Tile]:
    """Some tiles, more of them to the right."""
    random = Random(7)
    ground = square(0, SIDE, left=-SIDE // 2, bottom=-SIDE // 2)
    return [tile for tile in ground if random.random() < (0.02 if tile.x < 0 else 0.3) and tile.x < 30]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, changed: list[Tile]) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    ground = square(0, SIDE, left=-SIDE // 2, bottom=-SIDE // 2)
    world.harvest(FIRST, dict.fromkeys(ground, picture()))
    world.harvest(SECOND, dict.fromkeys(changed, picture(GREEN)), finished=False)
    world.harvest(SECOND, dict.fromkeys(changed[:9], picture()), layer=NIGHT_LAYER)
    return world


def history(world: World) -> History:
    return History.open_read_only(f"sqlite:///{world.history_file}")


def test_the_places_are_the_blocks_that_changed_most(world: World, changed: list[Tile]) -> None:
    with history(world) as opened:
        places = changed_places(opened, map_outline(opened, MAP), SECOND, limit=3)
    by_block = Counter(tile.ancestor(3) for tile in changed)
    counts = [place.count for place in places]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == max(by_block.values())
    for place in places:
        assert by_block[place.tile.ancestor(place.tile.zoom + 3)] == place.count
    assert {place.layer for place in places} == {DAY_LAYER}


def test_a_day_without_changes_has_no_places(world: World) -> None:
    with history(world) as opened:
        assert changed_places(opened, map_outline(opened, MAP), SECOND + timedelta(days=1)) == []


def place_of(world: World, layer: Layer, tiles: list[Tile], renderer: str) -> ChangedPlace:
    """The only place where anything changed, which is where anything is."""
    for day, body in ((FIRST, picture()), (SECOND, picture(GREEN))):
        world.harvest(day, dict.fromkeys(tiles, body), layer=layer.name, described=layer, renderer=renderer)
    with history(world) as opened:
        (place,) = changed_places(opened, map_outline(opened, MAP), SECOND)
    return place


def test_places_of_plain_tiles_are_degrees(tmp_path: Path) -> None:
    """By the formula of "Slippy map tilenames" 47.37 north, 8.54 east is in the tile 536/358 of zoom 10."""
    layer = Layer("zoom10", Pyramid(8), "png", projection=mercator(10))
    tiles = [Tile.at(0, column, row) for column in (535, 536, 537) for row in (357, 358, 359)]
    place = place_of(World(tmp_path), layer, tiles, "xyz")
    middle = 536.5 / 1024 * 360 - 180
    assert place.degrees == pytest.approx((47.37, middle), abs=0.15)
    assert place.x == pytest.approx(middle - 0.5)
    # The page, too, counts from the middle of a unit, and has degrees as the projection stretches them.
    assert place.z + 0.5 == pytest.approx(358.5 / 1024 * 360 - 180)


def test_where_tiles_nest_by_five_a_place_lies_where_its_tiles_do(tmp_path: Path) -> None:
    """Of the tile (-3, 1) of BlueMap's second level, which is 2,500 blocks wide."""
    blocks = Projection((2 / 500, 0, 0, 0), (0, 0, -2 / 500, 0))
    layer = Layer("hub", Pyramid.kept(3, 5), "png", tile_size=(500, 500), projection=blocks)
    tiles = [Tile.at(-1, column, row) for column in (-4, -3, -2) for row in (0, 1, 2)]
    place = place_of(World(tmp_path), layer, tiles, "bluemap")
    assert (place.x, place.z) == pytest.approx((-6250, 3750), abs=1)
    assert (place.zoom, place.degrees) == (-1.5, None)


@given(st.sets(st.sampled_from(BLOCK), min_size=1))
def test_the_smallest_tile_that_covers_is_found(tiles: AbstractSet[Tile]) -> None:
    above = [{tile.ancestor(levels) for tile in tiles} for levels in range(4)]
    assert {covering(tiles)} == next(covers for covers in above if len(covers) == 1)


@given(st.sets(st.sampled_from(BLOCK), min_size=1), st.sets(st.sampled_from(BLOCK)))
def test_no_other_view_shows_more(tiles: AbstractSet[Tile], more: AbstractSet[Tile]) -> None:
    near = tiles | more
    area = TileRange(-1, BLOCK[0].x, BLOCK[-1].x, BLOCK[0].y, BLOCK[-1].y)
    view = best_view(tiles, near, area)
    across = len(view.columns)
    assert across == len(view.rows)
    assert 2 <= across <= 4
    shown = set(centres(view))
    assert shown <= set(BLOCK)
    for corner in BLOCK:
        other = {Tile(-1, corner.x + 4 * i, corner.y + 4 * j) for i in range(across) for j in range(across)}
        if other <= set(BLOCK):
            assert (len(other & tiles), len(other & near)) <= (len(shown & tiles), len(shown & near))
