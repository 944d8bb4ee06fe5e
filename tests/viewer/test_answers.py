"""What was to be seen in an area on a day, what changed there, the story of its tiles and pixels; and that
docs/api.md shows answers as they are."""

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
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
)  # fmt: skip
from tileharvest.maps.named_areas import NamedArea, add_area
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.viewer.api import heated_in
from tileharvest.viewer.application import Application

API = f"/api/v1/maps/{MAP}"
A, B, C = Tile(0, 1, 1), Tile(0, -3, 5), Tile(0, -1, -1)
BEFORE = FIRST - timedelta(days=1)
AFTER = date(2030, 1, 1)
EVER = {"after": BEFORE, "until": THIRD}
WIDE = TileRange(-1, -6, 6, -6, 6)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A is gone on the second day and back on the third, B is new on the second, C on the third and has a
    picture at night."""
    world = World(tmp_path_factory.mktemp("changing"))
    world.describe()
    world.harvest(FIRST, {A: picture(RED)})
    world.harvest(SECOND, {A: None, B: picture(GREEN)})
    world.harvest(THIRD, {A: picture(RED), C: picture(RED)}, finished=False)
    world.harvest(THIRD, {C: picture(BLUE)}, layer=NIGHT_LAYER, finished=False)
    add_area(
        world.data / "areas.toml", MAP, NamedArea(name="base", layer=DAY_LAYER, corners=((0, 0), (15, 15)))
    )
    with serving(world) as running:
        yield running


def asked(client: Client, question: str, area: TileRange | None = None, **more: Any) -> Any:
    query = {"layer": DAY_LAYER, **more}
    return client.get(f"{API}/{question}", query if area is None else of_area(area, **query)).json


def test_a_view_has_tiles_as_last_recorded_and_what_is_composed_with_its_last_change(client: Client) -> None:
    tiles = {"1_1": None, "-3_5": name_of(picture(GREEN))}
    view = asked(client, "view", TileRange(0, -7, 7, -7, 7), day=SECOND)
    assert view == {"day": str(SECOND), "zoom": 0, "tiles": tiles, "composed": {}}
    night = asked(client, "view", TileRange(0, -7, 7, -7, 7), layer=NIGHT_LAYER, day=AFTER)
    assert night["tiles"] == {"-1_-1": name_of(picture(BLUE))}
    above = asked(client, "view", WIDE, day=date(2021, 5, 11))
    assert (above["tiles"], above["composed"]) == ({}, {"2_2": "2021-02-16", "-2_6": "2021-02-16"})


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
    # Before a layer began nothing is counted.
    early = {"layer": NIGHT_LAYER, "after": BEFORE, "until": SECOND}
    assert asked(client, "heat", WIDE, **early) == {"zoom": -1, "cells": []}
    assert asked(client, "places", **early) == {"places": []}


def test_heat_has_the_cells_of_a_zoom_that_is_kept() -> None:
    two, coarse = [-1, 0], [-6, -5, -4]
    found = [heated_in(two, 0), heated_in(two, -4), heated_in(two, -8), heated_in(coarse, -7)]
    assert found == [0, -1, -1, -4]
    assert heated_in(two, -1, factor=5) == 0


def test_the_story_of_a_tile(client: Client) -> None:
    red = {"image": name_of(picture(RED)), "size": len(picture(RED)), "last_modified": MODIFIED}
    assert asked(client, f"tiles/{A}")["versions"] == [
        {"day": "2021-02-13", **red},
        {"day": "2021-02-16", "image": None, "size": None, "last_modified": None},
        {"day": "2021-05-12", **red},
    ]


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


DOCUMENT = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
LAYER = {"layer": DAY_LAYER}
PERIOD = {"after": FIRST, "until": SECOND}
AREA = of_area(WIDE, **LAYER)
QUESTIONS: dict[str, dict[str, Any]] = {
    "/api/v1/maps": {},
    API: {},
    f"{API}/view": {**AREA, "day": SECOND},
    f"{API}/changes": AREA,
    f"{API}/heat": {**AREA, **PERIOD},
    f"{API}/places": {**LAYER, **PERIOD},
    f"{API}/events": {**LAYER, "from": FIRST, "to": SECOND},
    f"{API}/tiles/0_1_1": LAYER,
    f"{API}/areas": {},
    f"{API}/areas/base": {},
    f"{API}/harvests": {},
}
"""In the document's order."""
BY_NAME = {"zooms", "tiles", "composed", "depth", "counts", "days"}
"""Objects whose keys are names and days."""


def shape(value: Any, name: str = "") -> Any:
    """The keys of a value and of what is in it; of a list those of its first item."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shape(value[0])]
    if not isinstance(value, dict):
        return None
    return {} if name in BY_NAME else {key: shape(item, key) for key, item in value.items()}


def test_each_example_of_the_document_has_the_keys_of_the_answer(client: Client) -> None:
    """The examples are indented. Of the story of pixels each line is a value."""
    blocks = re.findall(r"(?:^    .*\n)+", DOCUMENT, re.MULTILINE)
    examples = [json.loads(one) for one in blocks if one.lstrip().startswith("{") and "\n    {" not in one]
    for (path, query), example in zip(QUESTIONS.items(), examples, strict=True):
        assert shape(client.get(path, query).json) == shape(example), path


def test_every_address_is_documented() -> None:
    any_: Any = None
    paths = [route.path.removeprefix("/") for route in Application(any_, {}, ()).routes()]
    assert len(paths) > 20
    named = [path.replace("{picture}", "{day}").replace("{name:.+}", "") for path in paths if path]
    shared = {"s/{map}/{days}/{place}.jpg", "s/{names:.*}", "page/"}
    assert [path for path in named if path not in shared and f"`GET {path}" not in DOCUMENT] == []
