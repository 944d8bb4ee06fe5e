"""The list of maps, and one map's days and layers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.viewer.asking import serving
from tests.viewer.building import (
    DAY_LAYER,
    FIRST,
    MAP,
    SECOND,
    THIRD,
    URL,
    picture,
)
from tileharvest.errors import ConfigurationError
from tileharvest.maps.description import MapDescription
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.viewer.api import is_live
from tileharvest.viewer.served_maps import TimedCache

if TYPE_CHECKING:
    from tests.viewer.building import World

NEVER_HARVESTED = {
    "name": MAP,
    "url": URL,
    "note": "ours",
    "layers": [],
    "days": 0,
    "first_day": None,
    "last_day": None,
    "areas": 0,
}


def test_a_map_that_was_never_harvested_is_listed(world: World) -> None:
    world.describe()
    with serving(world) as client:
        assert client.get("/api/v1/maps").json == {"maps": [NEVER_HARVESTED]}
        assert client.get(f"/api/v1/maps/{MAP}").json == {
            "name": MAP,
            "url": URL,
            "note": "ours",
            "live": True,
            "renderer": None,
            "days": [],
            "unfinished": [],
            "layers": [],
        }


def test_a_layer_tells_what_the_site_said_and_from_which_day_on(world: World) -> None:
    said = Layer(
        DAY_LAYER, Pyramid(5), "jpg", tile_size=(512, 384), north_direction=2, background="#1a1a1a",
        projection=Projection((1.0, 0, 0, 8), (0, 0, -1.0, 0)), spawn=(1, 64, -3), rendered=1_613_196_000,
    )  # fmt: skip
    for day, depth in ((FIRST, 5), (SECOND, 5), (THIRD, 6)):
        world.harvest(day, {}, described=replace(said, pyramid=Pyramid(depth)))
    with serving(world) as client:
        (layer,) = client.get(f"/api/v1/maps/{MAP}").json["layers"]
    told = {
        "tile_size": 512, "tile_height": 384, "image_extension": "jpg", "north_direction": 2, "factor": 2,
        "projection": {"x": [1.0, 0, 0, 8], "y": [0, 0, -1.0, 0], "height": 64}, "world": None,
        "background": "#1a1a1a", "spawn": [1, 64, -3], "rendered": 1_613_196_000,
    }  # fmt: skip
    assert layer["descriptions"] == [
        {"day": "2021-02-13", "depth": 5, **told},
        {"day": "2021-05-12", "depth": 6, **told},
    ]


@pytest.mark.parametrize("name", ["ant", "world2", "WORLD", "world%00", "%2e%2e", "w%C3%B6rld", "%ff", "%F0"])
def test_a_map_that_is_not_there_names_those_that_are(world: World, name: str) -> None:
    world.describe()
    world.describe("other")
    with serving(world) as client:
        reply = client.get(f"/api/v1/maps/{name}")
    assert reply.status == 404
    assert reply.error.endswith(f"there are: '{MAP}', 'other'")


def test_only_the_maps_that_were_named_are_served(world: World) -> None:
    for name in ("ant", "bee", "cat"):
        world.describe(name)
    world.harvest(FIRST, {}, name="bee")
    world.harvest(FIRST, {}, name="dog")
    with serving(world, only=["bee", "dog"]) as client:
        assert [entry["name"] for entry in client.get("/api/v1/maps").json["maps"]] == ["bee", "dog"]
        assert client.get("/api/v1/maps/ant").status == 404
        assert client.get("/api/v1/maps/ant/harvests").status == 404
        assert client.get("/api/v1/maps/dog").status == 200


def test_a_name_that_is_no_map_s_is_refused_at_the_start(world: World) -> None:
    world.describe("ant")
    world.harvest(FIRST, {}, name="bee")
    with (
        pytest.raises(ConfigurationError, match=r"no map 'cow', .*; there are: 'ant', 'bee'$"),
        serving(world, only=["bee", "cow"]),
    ):
        pass


def test_a_map_that_is_added_is_served_at_once(world: World) -> None:
    world.describe("ant")
    with serving(world) as client:
        client.get("/api/v1/maps")
        world.describe("bee")
        assert [entry["name"] for entry in client.get("/api/v1/maps").json["maps"]] == ["ant", "bee"]


def test_a_maps_file_that_becomes_wrong_counts_as_it_was(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.describe("ant")
    with serving(world) as client:
        world.maps_file.write_text("[ant\n")
        for _ in range(3):
            assert [entry["name"] for entry in client.get("/api/v1/maps").json["maps"]] == ["ant"]
    (record,) = caplog.records
    assert "is not valid TOML" in record.getMessage()


def test_a_history_that_appears_is_seen(world: World) -> None:
    world.describe()
    with serving(world) as client:
        assert client.get("/api/v1/maps").json == {"maps": [NEVER_HARVESTED]}
        world.harvest(FIRST, {Tile(0, 1, 1): picture()})
        assert client.get(f"/api/v1/maps/{MAP}").json["days"] == ["2021-02-13"]


def test_a_layer_that_is_not_there_names_those_that_are(world: World) -> None:
    world.harvest(FIRST, {})
    with serving(world) as client:
        reply = client.get(f"/api/v1/maps/{MAP}/tiles/0_1_1", {"layer": "noon"})
    assert reply.status == 404
    assert reply.error == f"map '{MAP}' has no layer 'noon'; it has: 'day', 'night'"


def test_a_value_that_is_too_old_is_made_again_unless_its_stamp_is_the_same() -> None:
    times, stamps = iter([0.0, 0.5, 1.0, 2.0, 3.0, 4.0]), iter([7, 7, 8, None, None])
    cache: TimedCache[int] = TimedCache(1.0, lambda: next(times))
    made = iter(range(10))
    found = [cache.get("map", lambda: next(made), lambda: next(stamps)) for _ in range(6)]
    # At 1.0 the stamp is still 7, at 2.0 it is 8, and from then on nobody knows.
    assert found == [0, 0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("url", "reason", "live"),
    [
        (URL, "finished", True),
        (URL, None, True),
        (URL, "moved", False),
        ("http://127.0.0.1:8123/", "finished", False),
        ("http://localhost/map", "finished", False),
        (None, "finished", False),
    ],
)
def test_a_map_is_live_where_its_last_harvest_found_it_and_visitors_can_reach_it(
    url: str | None, reason: str | None, live: bool
) -> None:
    assert is_live(MapDescription(name=MAP, url=url) if url else None, reason) is live
