"""What was to be seen in an area on a day, and what changed there, against what was recorded."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.viewer.asking import of_area, place, serving
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
)
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.viewer.asking import Client

    Ask = Callable[..., Any]

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
@pytest.mark.parametrize("day", [BEFORE, date(2021, 2, 15), SECOND, AFTER])
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


@pytest.mark.parametrize(("question", "most"), [("view", 1024), ("changes", 1024), ("heat", 256)])
def test_an_area_has_a_largest_size(client: Client, question: str, most: int) -> None:
    edge = 32 if most == 1024 else 16
    for rows, status in ((edge, 200), (edge + 1, 400)):
        area = TileRange(0, 1, 2 * edge - 1, 1, 2 * rows - 1)
        more = {"view": {"day": FIRST}, "heat": {"after": FIRST, "until": LAST}}.get(question, {})
        reply = client.get(f"{API}/{question}", of_area(area, layer=DAY_LAYER, **more))
        assert reply.status == status
    assert (
        reply.error == f"an area can have {most:,} tiles here, and this one has {len(area):,}: ask for parts"
    )


API = f"/api/v1/maps/{MAP}"
BUSY_DAYS = [FIRST + timedelta(days=number) for number in range(6)]
KEPT = (-1, 0)
"""The zooms of the random map."""
COLUMNS = 24
LAST = BUSY_DAYS[-1]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A map that changes at random on six days."""
    chance = random.Random(4)
    world = World(tmp_path_factory.mktemp("busy"))
    for number, day in enumerate(BUSY_DAYS):
        changed: dict[Tile, bytes | None] = {}
        for zoom in KEPT:
            width = COLUMNS >> -zoom
            tiles = square(zoom, width, -width // 2, -width // 2)
            for tile in chance.sample(tiles, len(tiles) // (1 if number == 0 else 8)):
                gone = number == 3 and tile.x < 0
                changed[tile] = None if gone else picture((number, 0, 0, 255), 1)
        world.harvest(day, changed)
    return world


@pytest.fixture(scope="module")
def client(busy: World) -> Iterator[Client]:
    with serving(busy) as running:
        yield running


def is_in(tile: Tile, area: TileRange) -> bool:
    """Whether the tile's centre lies on the area's ground, however the zooms compare."""
    edge = 1 << -area.zoom
    return area.x_from - edge <= tile.x < area.x_to + edge and area.y_from - edge <= tile.y < area.y_to + edge


def counted_days(world: World, zoom: int, area: TileRange) -> dict[str, int]:
    versions = {(each.tile, each.day) for each in world.recorded if each.tile.zoom == zoom}
    days = Counter(day for tile, day in versions if is_in(tile, area))
    return {day.isoformat(): days[day] for day in sorted(days)}


@pytest.mark.parametrize(
    ("area", "shown"),
    [
        (TileRange(0, -5, 7, 1, 3), 0),
        (TileRange(-1, -2, 6, -6, 2), -1),
        (TileRange(-3, -8, 8, 8, 8), -1),
        (TileRange(-30, -(2**30), 2**30, -(2**30), 2**30), -1),
    ],
)
def test_changes_of_an_area_are_those_of_the_deepest_tiles_below_it(
    client: Client, busy: World, area: TileRange, shown: int
) -> None:
    answer = client.get(f"{API}/changes", of_area(area, layer=DAY_LAYER)).json
    expected = counted_days(busy, shown, area) | counted_days(busy, 0, area)
    assert answer == {"counted_zoom": 0, "days": expected}
    assert answer["days"] or area.zoom == 0


def test_a_layer_without_versions_has_no_changes_no_heat_and_no_places(client: Client) -> None:
    area = TileRange(-1, 2, 2, 2, 2)
    period = {"after": BEFORE, "until": LAST}
    asked = of_area(area, layer=NIGHT_LAYER)
    assert client.get(f"{API}/changes", asked).json == {"counted_zoom": -1, "days": {}}
    assert client.get(f"{API}/heat", {**asked, **period}).json == {"zoom": -1, "cells": []}
    assert client.get(f"{API}/places", {"layer": NIGHT_LAYER, **period}).json == {"places": []}


def heated(world: World, zoom: int, area: TileRange, after: date, until: date) -> list[list[int]]:
    versions = {
        (each.tile, each.day)
        for each in world.recorded
        if each.tile.zoom == zoom and after < each.day <= until and is_in(each.tile, area)
    }
    cells = Counter(tile for tile, _ in versions)
    return sorted([tile.x, tile.y, count] for tile, count in cells.items())


@pytest.mark.parametrize(
    ("area", "zoom"),
    [
        (TileRange(0, -5, 7, 1, 3), 0),
        (TileRange(-1, -2, 6, -6, 2), 0),
        (TileRange(-3, -8, 8, 8, 8), 0),
        (TileRange(-4, -16, 16, -16, 16), -1),
        (TileRange(-8, 256, 256, -256, 256), -1),
    ],
)
@pytest.mark.parametrize(
    ("after", "until"),
    [(BEFORE, LAST), (BUSY_DAYS[0], BUSY_DAYS[2]), (BUSY_DAYS[2], BUSY_DAYS[3]), (LAST, LAST)],
)
def test_heat_of_an_area(
    client: Client, busy: World, area: TileRange, zoom: int, after: date, until: date
) -> None:
    answer = client.get(f"{API}/heat", of_area(area, layer=DAY_LAYER, after=after, until=until)).json
    assert answer["zoom"] == zoom
    assert sorted(answer["cells"]) == heated(busy, zoom, area, after, until)


def test_places_are_the_blocks_with_most_changes(client: Client, busy: World) -> None:
    answer = client.get(f"{API}/places", {"layer": DAY_LAYER, "after": BUSY_DAYS[0], "until": LAST}).json
    everywhere = TileRange(-3, -248, 248, -248, 248)
    in_blocks: Counter[Tile] = Counter()
    of_tiles: dict[Tile, int] = {}
    for x, y, days in heated(busy, 0, everywhere, BUSY_DAYS[0], LAST):
        tile = Tile(0, x, y)
        in_blocks[tile.parent().parent().parent()] += days
        of_tiles[tile] = days
    assert [found["tiles"] for found in answer["places"]] == sorted(in_blocks.values(), reverse=True)[:20]
    for found in answer["places"]:
        tile = Tile.parse(found["tile"])
        block = tile.parent().parent().parent()
        assert found["tiles"] == in_blocks[block]
        inside = [days for each, days in of_tiles.items() if each.parent().parent().parent() == block]
        assert found["days"] == of_tiles[tile] == max(inside)


def test_places_of_a_period_in_which_a_deeper_zoom_was_not_kept(world: World) -> None:
    world.harvest(FIRST, {Tile(-3, 8, 8): picture()})
    world.harvest(SECOND, {Tile(0, 1, 1): picture()})
    with serving(world) as client:
        asked = {"layer": DAY_LAYER, "after": BEFORE, "until": FIRST}
        assert client.get(f"{API}/places", asked).json == {
            "places": [{"tile": "-3_8_8", "days": 1, "tiles": 1}]
        }


def test_the_story_of_a_tile(world: World) -> None:
    tile = Tile(-3, -440, 216)
    world.harvest(FIRST, {tile: picture(size=1)})
    world.harvest(SECOND, {tile: None})
    world.harvest(THIRD, {tile: picture(size=2), Tile(0, 1, 1): picture()})
    with serving(world) as client:
        answer = client.get(f"{API}/tiles/{tile}", {"layer": DAY_LAYER}).json
    one, two = picture(size=1), picture(size=2)
    assert answer == {
        "tile": "-3_-440_216",
        "versions": [
            {"day": "2021-02-13", "image": name_of(one), "size": len(one), "last_modified": MODIFIED},
            {"day": "2021-02-16", "image": None, "size": None, "last_modified": None},
            {"day": "2021-05-12", "image": name_of(two), "size": len(two), "last_modified": MODIFIED},
        ],
    }


@pytest.mark.parametrize(
    "name",
    [
        *("1_1_1", "0_2_1", "-1_2_1", "0_1", "0_+1_1", "00_1_1", "-0_1_1", "0_%D9%A1_1", "%2e%2e%2f0_1_1"),
        *(f"0_{10**30 + 1}_1", "-31_2147483648_2147483648", f"-{'9' * 5000}_1_1"),
    ],
)
def test_what_is_no_tile_is_not_there(client: Client, name: str) -> None:
    reply = client.get(f"{API}/tiles/{name}", {"layer": DAY_LAYER})
    assert reply.status == 404
    assert len(reply.error) < 250
