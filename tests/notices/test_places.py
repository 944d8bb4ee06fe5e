"""Where a map has changed, compared with the plain definition over all tiles."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.viewer.building import DAY_LAYER, FIRST, GREEN, MAP, NIGHT_LAYER, SECOND, World, picture, square
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.notices.notice import changed_places, covering, view_around
from tileharvest.renderers.xyz import mercator
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from tileharvest.notices.notice import ChangedPlace

SIDE: Final = 40
"""Tiles across the world: blocks of 8 on both sides of both axes, whole ones and parts."""
BLOCK: Final = square(-1, 8, left=-8)
"""The tiles of one block, two grid units apart from the map's middle."""


def test_the_places_are_the_blocks_that_changed_most(tmp_path: Path) -> None:
    random, world = Random(7), World(tmp_path)
    ground = square(0, SIDE, left=-SIDE // 2, bottom=-SIDE // 2)
    changed = [tile for tile in ground if random.random() < (0.02 if tile.x < 0 else 0.3) and tile.x < 30]
    world.harvest(FIRST, dict.fromkeys(ground, picture()))
    world.harvest(SECOND, dict.fromkeys(changed, picture(GREEN)), finished=False)
    world.harvest(SECOND, dict.fromkeys(changed[:9], picture()), layer=NIGHT_LAYER)
    places = places_of(world, limit=3)
    by_block = Counter(tile.ancestor(3) for tile in changed)
    assert [place.count for place in places] == sorted((place.count for place in places), reverse=True)
    assert places[0].count == max(by_block.values())
    for place in places:
        assert place.tile is not None
        assert by_block[place.tile.ancestor(place.tile.zoom + 3)] == place.count
    assert {place.layer for place in places} == {DAY_LAYER}
    assert places_of(world, days=1) == []


def places_of(world: World, limit: int = 5, days: int = 0) -> list[ChangedPlace]:
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        return changed_places(history, map_outline(history, MAP), SECOND + timedelta(days), limit)


def only_place(world: World, layer: Layer, tiles: list[Tile], renderer: str) -> ChangedPlace:
    """The only place where anything changed, which is where anything is."""
    for day, body in ((FIRST, picture()), (SECOND, picture(GREEN))):
        world.harvest(day, dict.fromkeys(tiles, body), layer=layer.name, described=layer, renderer=renderer)
    (place,) = places_of(world)
    return place


def test_places_of_plain_tiles_are_degrees(tmp_path: Path) -> None:
    """By the formula of "Slippy map tilenames" 47.37 north, 8.54 east is in the tile 536/358 of zoom 10."""
    layer = Layer("zoom10", Pyramid(8), "png", projection=mercator(10))
    tiles = [Tile.at(0, column, row) for column in (535, 536, 537) for row in (357, 358, 359)]
    place = only_place(World(tmp_path), layer, tiles, "xyz")
    middle = 536.5 / 1024 * 360 - 180
    assert place.degrees == pytest.approx((47.37, middle), abs=0.15)
    # The page counts from the middle of a unit, and has degrees as the projection stretches them.
    assert (place.x, place.z) == pytest.approx((middle - 0.5, 358.5 / 1024 * 360 - 180.5))


@given(st.sets(st.sampled_from(BLOCK), min_size=1))
def test_the_smallest_tile_that_covers_is_found_and_a_small_view_shows_some(tiles: AbstractSet[Tile]) -> None:
    above = [{tile.ancestor(levels) for tile in tiles} for levels in range(4)]
    assert {covering(tiles)} == next(covers for covers in above if len(covers) == 1)
    view = view_around(tiles)
    assert 2 <= len(view.columns) == len(view.rows) <= 4
    assert any(tile in view for tile in tiles)
