"""What the viewer tells of named areas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.viewer.asking import Client, serving
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, World, picture, square
from tileharvest.errors import ConfigurationError
from tileharvest.maps.named_areas import NamedArea, add_area, remove_area
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Iterator

API = f"/api/v1/maps/{MAP}/areas"
LAYER = Layer(
    DAY_LAYER,
    Pyramid(10),
    "png",
    tile_size=(8, 8),
    projection=Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0)),
)
BASE = NamedArea(name="my base", layer=DAY_LAYER, corners=((0, 0), (31, 31)))
LOST = NamedArea(name="пещера", layer="cave", corners=((0, 0), (31, 31)))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    world = World(tmp_path_factory.mktemp("world"))
    tiles = square(0, 8, bottom=-8)
    world.harvest(FIRST, dict.fromkeys(tiles, picture()), described=LAYER)
    world.harvest(SECOND, {tiles[0]: picture(BLUE), tiles[7]: picture(BLUE)}, described=LAYER)
    for area in (BASE, LOST):
        add_area(world.data / "areas.toml", MAP, area)
    with serving(world) as running:
        yield running


def test_the_areas_of_a_map_are_listed_in_the_owners_order(client: Client) -> None:
    corners = [[0, 0], [31, 31]]
    place = {"x": 15.5, "z": 15.5, "zoom": 0}
    assert client.get(API).json == {
        "areas": [
            {"name": "my base", "layer": DAY_LAYER, "corners": corners, "place": place},
            {"name": "пещера", "layer": "cave", "corners": corners, "place": None},
        ]
    }
    assert client.get("/api/v1/maps").json["maps"][0]["areas"] == 2


def test_an_areas_story_has_the_days_on_which_its_tiles_changed(client: Client) -> None:
    """The second day changed a tile of it, and one that lies elsewhere."""
    answer = client.get(f"{API}/my%20base").json
    assert answer["name"] == "my base"
    assert answer["days"] == {str(FIRST): 4, str(SECOND): 1}


def test_what_is_not_there_is_named_with_what_is(client: Client) -> None:
    reply = client.get(f"{API}/barn")
    assert (reply.status, reply.error) == (
        404,
        f"map '{MAP}' has no area 'barn'; it has: 'my base', 'пещера'",
    )
    assert client.get("/api/v1/maps/nowhere/areas").status == 404
    reply = client.get(f"{API}/%D0%BF%D0%B5%D1%89%D0%B5%D1%80%D0%B0")
    assert (reply.status, reply.error) == (404, f"map '{MAP}' has no layer 'cave'; it has: '{DAY_LAYER}'")


def test_the_owners_file_is_read_again_when_it_has_changed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    file = world.data / "areas.toml"
    world.harvest(FIRST, dict.fromkeys(square(0, 1), picture()), described=LAYER)
    with serving(world) as client:
        assert client.get(API).json == {"areas": []}
        add_area(file, MAP, BASE)
        assert [area["name"] for area in client.get(API).json["areas"]] == ["my base"]
        good = file.read_bytes()
        file.write_text("[[wrong")
        assert [area["name"] for area in client.get(API).json["areas"]] == ["my base"]
        (record,) = caplog.records
        assert "is not valid TOML" in record.getMessage()
        file.write_bytes(good)
        remove_area(file, MAP, "my base")
        assert client.get(API).json == {"areas": []}


def test_a_wrong_file_is_refused_at_the_start(world: World) -> None:
    world.data.mkdir()
    (world.data / "areas.toml").write_text("[[wrong")
    with pytest.raises(ConfigurationError, match="is not valid TOML"), serving(world):
        pass
