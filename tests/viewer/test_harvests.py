"""The harvests of a map, and whether one is under way."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import Settings

from tests.history.making import record
from tests.queue.driven import Driven
from tests.viewer.asking import serving
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, begun, picture
from tileharvest.history.costs import Cost
from tileharvest.history.database import History
from tileharvest.queue.settings import has_local_worker
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.viewer.building import World

HARVESTS = f"/api/v1/maps/{MAP}/harvests"
A, B = Tile(0, 1, 1), Tile(0, 3, 1)


@pytest.fixture
def worker(world: World) -> Iterator[Driven]:
    """Of the map's queue. It has not begun."""
    with Driven(lambda: SqliteQueue(world.data / "queues" / f"{MAP}.sqlite")) as worker:
        yield worker


def test_harvests_are_told_newest_first(world: World) -> None:
    world.harvest(FIRST, {A: picture(), B: picture()})
    world.harvest(SECOND, {A: picture(BLUE), B: None})
    with serving(world) as client:
        answer = client.get(HARVESTS).json
    newest, oldest = answer["harvests"]
    told = {"reason": "finished", "renderer": "overviewer", "depth": {"day": 10, "night": 10}, "requests": 4}
    assert newest.items() >= {**told, "day": "2021-02-16", "received_bytes": 200, "stopped": None}.items()
    assert newest["ended"] == "2021-02-16T07:00:00+00:00"
    assert newest["counts"] == {"upd": 1, "gone": 1}
    assert (oldest["day"], oldest["counts"], oldest["stored_bytes"]) == (
        "2021-02-13",
        {"add": 2},
        len(picture()),
    )
    assert (answer["running"], answer["next_due"]) == (None, None)
    assert answer["stored_bytes"] == len(picture()) + len(picture(BLUE))


def test_a_map_that_was_never_harvested_has_none(world: World) -> None:
    world.describe()
    with serving(world) as client:
        assert client.get(HARVESTS).json == {
            "harvests": [],
            "running": None,
            "next_due": None,
            "stored_bytes": 0,
        }


def test_a_running_harvest_tells_its_speed_and_what_is_left(world: World, worker: Driven) -> None:
    """25 of 100 tiles in 50 seconds; what is not there is no tile."""
    results = [TileResult(DAY_LAYER, Tile(0, x, 1), Outcome.NOTHING) for x in range(1, 20, 2)]
    results += [TileResult(DAY_LAYER, Tile(0, x, 3), Outcome.IGNORED) for x in range(1, 47, 2)]
    results += [TileResult(DAY_LAYER, Tile(0, x, 5), Outcome.FAILED, reason="500") for x in (1, 3)]
    world.describe()
    with History.open(f"sqlite:///{world.history_file}") as history:
        harvest = begun(history, FIRST)
        harvest.expect(100)
        record(harvest, results, Cost(40, 900, 800, 70_000, 50.0))
    worker.open()
    with serving(world) as client:
        answer = client.get(HARVESTS).json
    assert answer["running"] == {
        "done": 35,
        "expected": None,
        "active": True,
        "tiles_done": 25,
        "tiles_expected": 100,
        "failures": 2,
        "requests_per_second": 0.8,
        "seconds_left": 150,
        "stopped": None,
    }
    (shown,) = answer["harvests"]
    assert (shown["spared_bytes"], shown["seconds_worked"]) == (70_000, 50.0)


def test_a_map_that_is_described_tells_when_its_next_harvest_is_due(world: World) -> None:
    world.harvest(FIRST, {})
    with serving(world) as client:
        assert client.get(HARVESTS).json["next_due"] is None
    world.describe()
    with serving(world) as client:
        due = datetime.fromisoformat(client.get(HARVESTS).json["next_due"])
    assert due < datetime.now(UTC)


def test_a_command_sees_the_worker_of_the_queue_and_makes_no_file_to_see_none(
    world: World, worker: Driven
) -> None:
    settings = Settings({"TILEHARVEST_DATA": world.data})
    assert not has_local_worker(settings, MAP)
    assert not (world.data / "queues").exists()
    worker.open()
    assert has_local_worker(settings, MAP)
    worker.run(worker.queue.close())
    assert not has_local_worker(settings, MAP)
