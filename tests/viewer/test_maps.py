"""The maps that are served, their layers, their named areas, and their harvests."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from tests.history.making import TileResult, record
from tests.queue.driven import Driven
from tests.viewer.asking import Client, serving
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    IN_BLOCKS,
    MAP,
    SECOND,
    URL,
    World,
    begun,
    picture,
    square,
)  # fmt: skip
from tileharvest.errors import ConfigurationError
from tileharvest.history.costs import Cost
from tileharvest.history.database import History
from tileharvest.maps.description import MapDescription
from tileharvest.maps.named_areas import NamedArea, add_area, remove_area
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.viewer.api import is_live
from tileharvest.viewer.served_maps import kept_for

MAPS = "/api/v1/maps"
HARVESTS = f"{MAPS}/{MAP}/harvests"
AREAS = f"{MAPS}/{MAP}/areas"
A, B = Tile(0, 1, 1), Tile(0, 3, 1)


def names(client: Client) -> list[str]:
    return [entry["name"] for entry in client.get(MAPS).json["maps"]]


def test_a_map_is_listed_before_its_first_harvest_and_its_history_is_seen_at_once(world: World) -> None:
    world.describe()
    never = {"name": MAP, "url": URL, "note": "ours", "layers": []}
    with serving(world) as client:
        days = {"days": 0, "first_day": None, "last_day": None, "areas": 0}
        assert client.get(MAPS).json == {"maps": [never | days]}
        nothing = {"live": True, "renderer": None, "days": [], "unfinished": []}
        assert client.get(f"{MAPS}/{MAP}").json == never | nothing
        nothing = {"harvests": [], "running": None, "next_due": None, "stored_bytes": 0}
        assert client.get(HARVESTS).json == nothing
        world.harvest(FIRST, {A: picture()})
        assert client.get(f"{MAPS}/{MAP}").json["days"] == ["2021-02-13"]


def test_only_the_maps_that_were_named_are_served(world: World) -> None:
    for name in ("ant", "bee"):
        world.describe(name)
    world.harvest(FIRST, {}, name="bee")
    world.harvest(FIRST, {}, name="dog")
    with serving(world, only=["bee", "dog"]) as client:
        assert names(client) == ["bee", "dog"]
        for question in ("", "/harvests", "/areas"):
            assert client.get(f"{MAPS}/ant{question}").status == 404
            assert client.get(f"{MAPS}/dog{question}").status == 200
    with (
        pytest.raises(ConfigurationError, match="no map 'cow'; there are: 'ant', 'bee', 'dog'"),
        serving(world, only=["bee", "cow"]),
    ):
        pass


def test_a_maps_file_is_read_when_it_changes_and_counts_as_it_was_when_it_becomes_wrong(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.describe("ant")
    with serving(world) as client:
        assert names(client) == ["ant"]
        world.describe("bee")
        assert names(client) == ["ant", "bee"]
        world.maps_file.write_text("[ant\n")
        for _ in range(3):
            assert names(client) == ["ant", "bee"]
    (record,) = caplog.records
    assert "is not valid TOML" in record.getMessage()


def test_a_value_is_used_again_until_it_is_too_old() -> None:
    made, times = iter(range(10)), iter([0.0, 0.5, 1.0, 1.9, 3.0])
    kept = kept_for(1.0, lambda _: next(made), lambda: next(times))
    assert [kept("map") for _ in range(5)] == [0, 0, 1, 1, 2]


def test_a_map_is_live_where_its_last_harvest_found_it_and_visitors_can_reach_it() -> None:
    site, here = MapDescription(name=MAP, url=URL), MapDescription(name=MAP, url="http://localhost/map")
    assert is_live(site, "finished")
    assert not any([is_live(site, "moved"), is_live(here, "finished"), is_live(None, "finished")])


BASE = NamedArea(name="my base", layer=DAY_LAYER, corners=((0, 0), (31, 31)))
LOST = NamedArea(name="пещера", layer="cave", corners=((0, 0), (31, 31)))


def test_named_areas_are_in_the_owners_order_with_the_days_on_which_their_tiles_changed(world: World) -> None:
    tiles = square(0, 8, bottom=-8)
    world.harvest(FIRST, dict.fromkeys(tiles, picture()), described=IN_BLOCKS)
    # A tile of the area, and one that lies elsewhere.
    world.harvest(SECOND, {tiles[0]: picture(BLUE), tiles[7]: picture(BLUE)}, described=IN_BLOCKS)
    file = world.data / "areas.toml"
    with serving(world) as client:
        assert client.get(AREAS).json == {"areas": []}
        for area in (BASE, LOST):
            add_area(file, MAP, area)
        base, lost = client.get(AREAS).json["areas"]
        corners = [[0, 0], [31, 31]]
        place = {"x": 15.5, "z": 15.5, "zoom": 0}
        named = {"name": "my base", "layer": DAY_LAYER, "corners": corners}
        assert base == {**named, "place": place, "ground": [0, -4, 4, 0]}
        assert lost == {"name": "пещера", "layer": "cave", "corners": corners, "place": None, "ground": None}
        assert client.get(MAPS).json["maps"][0]["areas"] == 2
        assert client.get(f"{AREAS}/my%20base").json["days"] == {str(FIRST): 4, str(SECOND): 1}
        unknown, layer = (client.get(f"{AREAS}/{name}") for name in ("barn", quote("пещера")))
        remove_area(file, MAP, "my base")
        assert len(client.get(AREAS).json["areas"]) == 1
    there = f"map '{MAP}' has no area 'barn'; it has: 'my base', 'пещера'"
    assert (unknown.status, unknown.error) == (404, there)
    assert (layer.status, layer.error) == (404, f"map '{MAP}' has no layer 'cave'; it has: '{DAY_LAYER}'")
    file.write_text("[[wrong")
    with pytest.raises(ConfigurationError, match="is not valid TOML"), serving(world):
        pass


def test_harvests_come_newest_first_with_the_moment_at_which_the_next_is_due(world: World) -> None:
    world.harvest(FIRST, {A: picture(), B: picture()})
    world.harvest(SECOND, {A: picture(BLUE), B: None})
    with serving(world) as client:
        answer = client.get(HARVESTS).json
    found = [(one["day"], one["counts"]) for one in answer["harvests"]]
    assert found == [("2021-02-16", {"upd": 1, "gone": 1}), ("2021-02-13", {"add": 2})]
    assert (answer["running"], answer["next_due"]) == (None, None)
    assert answer["stored_bytes"] == len(picture()) + len(picture(BLUE))
    world.describe()
    with serving(world) as client:
        # Each map has its own moment of the day, and no day since was harvested.
        due = datetime.fromisoformat(client.get(HARVESTS).json["next_due"])
        assert abs(due - datetime.now(UTC)) < timedelta(days=1)


def test_a_running_harvest_says_its_speed_and_what_is_left(world: World) -> None:
    """25 of 100 tiles in 50 seconds; what is not there is no tile."""
    found = [Outcome.NOTHING] * 10 + [Outcome.IGNORED] * 23 + [Outcome.FAILED] * 2
    results = [TileResult(DAY_LAYER, Tile(0, 2 * n + 1, 1), one, reason="500") for n, one in enumerate(found)]
    with History.open(f"sqlite:///{world.database}") as history:
        harvest = begun(history, FIRST)
        harvest.expect(100)
        record(harvest, results, Cost(40, 900, 800, 70_000, 50.0))
    queue = world.data / "queues" / f"{MAP}.sqlite"
    with Driven(lambda: SqliteQueue(queue)) as worker, serving(world) as client:
        assert not queue.parent.exists()
        worker.open()
        answer = client.get(HARVESTS).json
    assert answer["running"] == {
        "active": True, "tiles_done": 25, "tiles_expected": 100, "failures": 2,
        "requests_per_second": 0.8, "seconds_left": 150, "stopped": None,
    }  # fmt: skip
