"""Where a map has changed, and the notices of areas: when there is one, and what it says."""

from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings

from tests.notices.receiver import Posted
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    NIGHT_LAYER,
    SECOND,
    THIRD,
    World,
    picture,
    square,
)
from tileharvest.errors import SiteError
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.maps.description import MapDescription
from tileharvest.maps.named_areas import NamedArea, add_area
from tileharvest.notices.delivery import wishes_for
from tileharvest.notices.notice import ChangedPlace, changed_places, covering, view_around
from tileharvest.renderers.xyz import mercator
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

# A tile is 16 x 16 blocks.
PROJECTION: Final = Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0))
LAYER: Final = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(8, 8), projection=PROJECTION)
BASE: Final = NamedArea(name="my base", layer=DAY_LAYER, corners=((0, 0), (31, 31)))
FARM: Final = NamedArea(name="farm", layer=DAY_LAYER, corners=((64, 0), (127, 63)))
LOST: Final = NamedArea(name="lost", layer="cave", corners=((0, 0), (31, 31)))
BOTH: Final = (BASE, FARM)
VIEWER: Final = "http://viewer.example.net/"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The base changes on the second day, and what lies beside it on the third."""
    world = World(tmp_path_factory.mktemp("world"))
    tiles = square(0, 8, bottom=-8)
    world.harvest(FIRST, dict.fromkeys(tiles, picture()), described=LAYER)
    upper_left = max(tiles, key=lambda tile: (tile.y - tile.x, tile))
    world.harvest(SECOND, {upper_left: picture(BLUE)}, described=LAYER)
    world.harvest(THIRD, {tiles[0]: picture(BLUE)}, described=LAYER)
    return world


def test_an_area_that_has_changed_is_named_with_a_link_and_a_picture(
    world: World, told: Callable[..., list[Posted]]
) -> None:
    (message,) = told(world, SECOND, areas=BOTH, viewer=VIEWER)
    assert message.title == f"{MAP}, {SECOND}: my base has changed, 1 tile changed"
    link = f"<{VIEWER}#map={MAP}&layer={DAY_LAYER}&day={SECOND}&x=15.5&z=15.5&zoom=0>"
    assert f"Areas that changed:\n\n- `my base`: 1 tile\n  {link}" in message.body
    assert "Where most changed" not in message.body
    assert message.picture.width > 0


@pytest.mark.parametrize(
    ("day", "areas", "more", "titles"),
    [
        (THIRD, BOTH, {}, []),
        (FIRST, BOTH, {}, ["my base has changed, farm has changed, 1 tile changed"]),
        (THIRD, (BASE,), {"error": SiteError("no")}, ["the harvest failed, 1 tile changed"]),
        (THIRD, (BASE,), {"occasions": ("always",)}, ["1 tile changed"]),
        (SECOND, (LOST,), {}, []),
    ],
    ids=["a change elsewhere", "several areas", "a failure", "always", "an area of a layer that is gone"],
)
def test_a_change_elsewhere_is_no_occasion_by_itself(
    world: World,
    told: Callable[..., list[Posted]],
    day: object,
    areas: object,
    more: dict[str, object],
    titles: list[str],
) -> None:
    found = [one.title.partition(": ")[2] for one in told(world, day, areas=areas, **more)]
    assert found == titles


def test_a_change_is_told_where_the_history_cannot_say_whether_it_lies_in_an_area(
    world: World, told: Callable[..., list[Posted]], tmp_path: Path
) -> None:
    (tmp_path / "history.sqlite").write_bytes(b"no database")
    (message,) = told(world, THIRD, url=f"sqlite:///{tmp_path / 'history.sqlite'}", areas=BOTH)
    assert message.title == f"{MAP}, {THIRD}: 1 tile changed"
    assert "it is not known whether a watched area has changed" in message.body


def test_the_areas_of_an_entry_are_those_of_the_owners_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for area in BOTH:
        add_area(tmp_path / "areas.toml", MAP, area)
    settings = Settings({"TILEHARVEST_DATA": tmp_path, "NOTIFY": [], "NOTIFY_ON": [], "VIEWER_URL": ""})

    def watched(*areas: str) -> tuple[NamedArea, ...] | None:
        entry = MapDescription(name=MAP, url="https://map.example.net/", notify=("json://x/",), areas=areas)
        found = wishes_for(settings, entry)
        assert found is not None
        return found.areas

    assert (watched(), watched("farm"), caplog.messages) == (None, (FARM,), [])
    assert watched("farm", "barn") == (FARM,)
    (line,) = caplog.messages
    missing = f"map '{MAP}' has no area 'barn'; it has 'my base', 'farm'"
    assert line == f"an area to be watched is left out: {missing}; this goes on without"


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
