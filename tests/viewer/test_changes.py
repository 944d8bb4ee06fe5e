"""Changes, heat, places and stories, against a count over what was recorded."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.viewer.asking import of_area, serving
from tests.viewer.building import (
    DAY_LAYER,
    FIRST,
    MAP,
    MODIFIED,
    NIGHT_LAYER,
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

API = f"/api/v1/maps/{MAP}"
DAYS = [FIRST + timedelta(days=number) for number in range(6)]
KEPT = (-1, 0)
"""The zooms of the random map."""
COLUMNS = 24
LAST = DAYS[-1]
BEFORE = FIRST - timedelta(days=1)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A map that changes at random on six days."""
    chance = random.Random(4)
    world = World(tmp_path_factory.mktemp("busy"))
    for number, day in enumerate(DAYS):
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
    ("after", "until"), [(BEFORE, LAST), (DAYS[0], DAYS[2]), (DAYS[2], DAYS[3]), (LAST, LAST)]
)
def test_heat_of_an_area(
    client: Client, busy: World, area: TileRange, zoom: int, after: date, until: date
) -> None:
    answer = client.get(f"{API}/heat", of_area(area, layer=DAY_LAYER, after=after, until=until)).json
    assert answer["zoom"] == zoom
    assert sorted(answer["cells"]) == heated(busy, zoom, area, after, until)


def test_heat_is_told_for_256_tiles_at_most(client: Client) -> None:
    period = {"layer": DAY_LAYER, "after": FIRST, "until": LAST}
    most = client.get(f"{API}/heat", of_area(TileRange(-3, -120, 120, -120, 120), **period))
    more = client.get(f"{API}/heat", of_area(TileRange(-3, -120, 120, -120, 136), **period))
    assert (most.status, more.status) == (200, 400)
    assert more.error == "an area can have 256 tiles here, and this one has 272: ask for parts"


def test_places_are_the_blocks_with_most_changes(client: Client, busy: World) -> None:
    answer = client.get(f"{API}/places", {"layer": DAY_LAYER, "after": DAYS[0], "until": LAST}).json
    everywhere = TileRange(-3, -248, 248, -248, 248)
    in_blocks: Counter[Tile] = Counter()
    of_tiles: dict[Tile, int] = {}
    for x, y, days in heated(busy, 0, everywhere, DAYS[0], LAST):
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


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "2.5", "many"])
def test_a_limit_that_cannot_be_is_refused(client: Client, limit: str) -> None:
    reply = client.get(f"{API}/places", {"layer": DAY_LAYER, "after": FIRST, "until": LAST, "limit": limit})
    assert reply.status == 400
    assert reply.error == f"limit={limit} cannot be: write a whole number from 1 to 1000"


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
