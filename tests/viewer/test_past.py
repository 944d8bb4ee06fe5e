"""What was to be seen in an area on a day, what changed there, and the story of its tiles and pixels."""

import json
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from tests.viewer.asking import Client, of_area, serving
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    MODIFIED,
    NIGHT_LAYER,
    RED,
    SECOND,
    THIRD,
    World,
    name_of,
    picture,
    square,
)  # fmt: skip
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.viewer.api import heated_in

API = f"/api/v1/maps/{MAP}"
A, B, C = Tile(0, 1, 1), Tile(0, -3, 5), Tile(0, -1, -1)
BEFORE = FIRST - timedelta(days=1)
AFTER = date(2030, 1, 1)
EVER = {"after": BEFORE, "until": THIRD}
WIDE = TileRange(-1, -6, 6, -6, 6)


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A is gone on the second day and back on the third, B is new on the second, C on the third and has a
    picture at night. Read only."""
    world = World(tmp_path_factory.mktemp("changing"))
    world.harvest(FIRST, {A: picture(RED)})
    world.harvest(SECOND, {A: None, B: picture(GREEN)})
    world.harvest(THIRD, {A: picture(RED), C: picture(RED)}, finished=False)
    world.harvest(THIRD, {C: picture(BLUE)}, layer=NIGHT_LAYER)
    return world


@pytest.fixture(scope="module")
def client(changing: World) -> Iterator[Client]:
    with serving(changing) as running:
        yield running


def asked(client: Client, question: str, area: TileRange | None = None, **more: Any) -> Any:
    query = {"layer": DAY_LAYER, **more}
    return client.get(f"{API}/{question}", query if area is None else of_area(area, **query)).json


@pytest.mark.parametrize("layer", [DAY_LAYER, NIGHT_LAYER])
@pytest.mark.parametrize("day", [BEFORE, SECOND, AFTER])
def test_each_tile_is_as_it_was_last_recorded(client: Client, changing: World, day: date, layer: str) -> None:
    seen = {tile: changing.shown(tile, day, layer) for tile in square(0, 8, -4, -4)}
    assert asked(client, "view", TileRange(0, -7, 7, -7, 7), layer=layer, day=day) == {
        "day": day.isoformat(),
        "zoom": 0,
        "tiles": {f"{tile.x}_{tile.y}": state.image for tile, state in seen.items() if state is not None},
        "composed": {},
    }


@pytest.mark.parametrize(
    ("day", "composed"),
    [
        (BEFORE, {}),
        (date(2021, 2, 15), {"2_2": "2021-02-13"}),
        (SECOND, {"2_2": "2021-02-16", "-2_6": "2021-02-16"}),
        (AFTER, {"2_2": "2021-05-12", "-2_6": "2021-02-16", "-2_-2": "2021-05-12"}),
    ],
)
def test_what_is_composed_has_the_day_on_which_something_below_changed_last(
    client: Client, day: date, composed: dict[str, str]
) -> None:
    answer = asked(client, "view", WIDE, day=day)
    assert (answer["tiles"], answer["composed"]) == ({}, composed)


def test_changes_heat_and_places_count_the_days_of_each_tile(client: Client) -> None:
    days = {str(FIRST): 1, str(SECOND): 2, str(THIRD): 2}
    assert asked(client, "changes", WIDE) == {"counted_zoom": 0, "days": days}
    heat = asked(client, "heat", WIDE, **EVER)
    assert (heat["zoom"], sorted(heat["cells"])) == (0, [[-3, 5, 1], [-1, -1, 1], [1, 1, 3]])
    assert asked(client, "heat", WIDE, after=FIRST, until=SECOND)["cells"] == [[-3, 5, 1], [1, 1, 1]]
    places = asked(client, "places", **EVER)["places"]
    assert places[0] == {"tile": "0_1_1", "days": 3, "tiles": 3}
    assert {one["tile"]: one["tiles"] for one in places[1:]} == {"0_-3_5": 1, "0_-1_-1": 1}
    assert asked(client, "places", **EVER, limit=1)["places"] == places[:1]


def test_before_a_layer_began_nothing_is_counted(client: Client) -> None:
    early = {"layer": NIGHT_LAYER, "after": BEFORE, "until": SECOND}
    assert asked(client, "heat", WIDE, **early) == {"zoom": -1, "cells": []}
    assert asked(client, "places", **early) == {"places": []}


def test_heat_has_the_cells_of_a_zoom_that_is_kept() -> None:
    two, coarse = [-1, 0], [-6, -5, -4]
    found = [heated_in(two, 0), heated_in(two, -4), heated_in(two, -8), heated_in(coarse, -7)]
    assert found == [0, -1, -1, -4]
    assert heated_in(two, -1, factor=5) == 0


@pytest.mark.parametrize(("question", "edge"), [("view", 32), ("changes", 32), ("heat", 16)])
def test_an_area_has_a_largest_size(client: Client, question: str, edge: int) -> None:
    more = {"view": {"day": FIRST}, "heat": EVER}.get(question, {})
    most, area = (TileRange(0, 1, 2 * edge - 1, 1, 2 * rows - 1) for rows in (edge, edge + 1))
    assert "error" not in asked(client, question, most, **more)
    refused = f"an area can have {edge * edge:,} tiles here, and this one has {len(area):,}: ask for parts"
    assert asked(client, question, area, **more) == {"error": refused}


def test_the_story_of_a_tile(client: Client) -> None:
    red = {"image": name_of(picture(RED)), "size": len(picture(RED)), "last_modified": MODIFIED}
    assert asked(client, f"tiles/{A}") == {
        "tile": "0_1_1",
        "versions": [
            {"day": "2021-02-13", **red},
            {"day": "2021-02-16", "image": None, "size": None, "last_modified": None},
            {"day": "2021-05-12", **red},
        ],
    }


@pytest.mark.parametrize(
    "name",
    ["1_1_1", "0_2_1", "0_1", "0_+1_1", "-0_1_1", "0_%D9%A1_1", f"0_{10**30 + 1}_1", f"-{'9' * 5000}_1_1"],
)
def test_what_is_no_tile_is_not_there(client: Client, name: str) -> None:
    reply = client.get(f"{API}/tiles/{name}", {"layer": DAY_LAYER})
    assert reply.status == 404
    assert len(reply.error) < 250


def told(client: Client, ground: str) -> list[Any]:
    """The lines of the story of a rectangle's pixels."""
    reply = client.get(f"{API}/pixels", {"layer": DAY_LAYER, "ground": ground})
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in reply.body.splitlines()]


def test_pixels_have_a_line_for_each_day_on_which_they_changed_and_one_in_sum(client: Client) -> None:
    *days, last = told(client, "0,0,2,2")
    assert [line["day"] for line in days] == [str(FIRST), str(SECOND), str(THIRD)]
    gone = {"day": str(SECOND), "before": str(FIRST), "share": 1.0, "empty": True, "damaged": False}
    assert days[1] == gone
    assert last == {
        "versions": 3, "changes": 3, "first": str(FIRST), "since": str(THIRD), "same_before": [str(FIRST)],
    }  # fmt: skip
    nothing = {"versions": 0, "changes": 0, "first": None, "since": None, "same_before": []}
    assert told(client, "100,100,102,102") == [nothing]
