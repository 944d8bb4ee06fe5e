"""What was to be seen in an area on a day, against what was recorded."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tests.viewer.asking import of_area, place, serving
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    NIGHT_LAYER,
    RED,
    SECOND,
    THIRD,
    World,
    picture,
    square,
)
from tileharvest.tiles.grid import Tile, TileRange

VIEW = f"/api/v1/maps/{MAP}/view"
AROUND = TileRange(0, -7, 7, -7, 7)
A, B, C = Tile(0, 1, 1), Tile(0, -3, 5), Tile(0, -1, -1)
BEFORE = FIRST - timedelta(days=1)
AFTER = date(2030, 1, 1)


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A is gone on the second day and back on the third, B is new on the second, C on the third and has a
    picture at night. Read only."""
    world = World(tmp_path_factory.mktemp("changing"))
    world.harvest(FIRST, {A: picture(RED), Tile(-1, 2, 2): picture(RED)})
    world.harvest(SECOND, {A: None, B: picture(GREEN)})
    world.harvest(THIRD, {A: picture(BLUE), C: picture(RED)}, finished=False)
    world.harvest(THIRD, {C: picture(BLUE)}, layer=NIGHT_LAYER)
    return world


@pytest.mark.parametrize("layer", [DAY_LAYER, NIGHT_LAYER])
@pytest.mark.parametrize("day", [BEFORE, FIRST, date(2021, 2, 15), SECOND, THIRD, AFTER])
def test_each_tile_is_as_it_was_last_recorded(changing: World, day: date, layer: str) -> None:
    with serving(changing) as client:
        answer = client.get(VIEW, of_area(AROUND, layer=layer, day=day)).json
    seen = {tile: changing.shown(tile, day, layer) for tile in square(0, 8, -4, -4)}
    assert answer == {
        "day": day.isoformat(),
        "zoom": 0,
        "tiles": {place(tile): state.image for tile, state in seen.items() if state is not None},
        "composed": {},
    }


def test_a_zoom_that_the_layer_lacks_is_composed_from_the_next_deeper_one(changing: World) -> None:
    area = TileRange(-3, -8, 8, -8, 8)
    with serving(changing) as client:
        answer = client.get(VIEW, of_area(area, layer=DAY_LAYER, day=THIRD)).json
    assert answer["tiles"] == {}
    # Of zoom -1 there is one tile, and it has not changed.
    assert answer["composed"] == {"8_8": "2021-02-13"}


@pytest.mark.parametrize(
    ("day", "composed"),
    [
        (BEFORE, {}),
        (FIRST, {"2_2": "2021-02-13"}),
        (date(2021, 2, 15), {"2_2": "2021-02-13"}),
        (SECOND, {"2_2": "2021-02-16", "-2_6": "2021-02-16"}),
        (THIRD, {"2_2": "2021-05-12", "-2_6": "2021-02-16"}),
        (AFTER, {"2_2": "2021-05-12", "-2_6": "2021-02-16"}),
    ],
)
def test_what_is_composed_has_the_day_on_which_something_below_changed_last(
    world: World, day: date, composed: dict[str, str]
) -> None:
    world.harvest(FIRST, {A: picture(RED)})
    world.harvest(SECOND, {Tile(0, 3, 3): picture(RED), B: picture(RED)})
    world.harvest(THIRD, {A: None})
    with serving(world) as client:
        answer = client.get(VIEW, of_area(TileRange(-1, -6, 6, -6, 6), layer=DAY_LAYER, day=day)).json
    assert (answer["tiles"], answer["composed"]) == ({}, composed)


def test_1024_tiles_are_an_area_and_more_are_not(changing: World) -> None:
    with serving(changing) as client:
        most = client.get(VIEW, of_area(TileRange(0, -31, 31, -31, 31), layer=DAY_LAYER, day=FIRST))
        more = client.get(VIEW, of_area(TileRange(0, -31, 31, -31, 33), layer=DAY_LAYER, day=FIRST))
    assert most.status == 200
    assert more.status == 400
    assert more.error == "an area can have 1,024 tiles here, and this one has 1,056: ask for parts"
