"""The story of a rectangle's pixels, as it is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.viewer.asking import serving
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, GREEN, MAP, RED, SECOND, THIRD, World, picture
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.viewer.asking import Client

PIXELS = f"/api/v1/maps/{MAP}/pixels"
HERE, BESIDE = Tile(0, 1, 1), Tile(0, 3, 1)
QUESTION = {"layer": DAY_LAYER, "ground": "0,0,2,2"}
FOURTH = THIRD.replace(day=13)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    world = World(tmp_path_factory.mktemp("world"))
    world.describe("empty")
    world.harvest(FIRST, {HERE: picture(RED), BESIDE: picture(RED)})
    world.harvest(SECOND, {HERE: picture(GREEN), BESIDE: picture(BLUE)})
    world.harvest(THIRD, {BESIDE: picture(GREEN)})
    world.harvest(FOURTH, {HERE: picture(RED)})
    with serving(world) as running:
        yield running


def lines(client: Client, **more: Any) -> list[Any]:
    reply = client.get(PIXELS, {**QUESTION, **more})
    assert (reply.status, reply.headers["Content-Type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in reply.body.splitlines()]


def test_a_line_for_each_day_on_which_the_pixels_changed_and_one_in_sum(client: Client) -> None:
    *days, last = lines(client)
    assert [line["day"] for line in days] == [str(FIRST), str(SECOND), str(FOURTH)]
    assert days[1] == {
        "day": str(SECOND),
        "before": str(FIRST),
        "share": 1.0,
        "empty": False,
        "damaged": False,
    }
    assert last == {
        "versions": 3,
        "changes": 3,
        "first": str(FIRST),
        "since": str(FOURTH),
        "same_before": [str(FIRST)],
    }


def test_of_ground_where_nothing_ever_was_there_is_the_sum_alone(client: Client) -> None:
    assert lines(client, ground="100,100,102,102") == [
        {"versions": 0, "changes": 0, "first": None, "since": None, "same_before": []}
    ]
