"""The harvests of a map, and whether one is under way."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings

from tests.scheduler.driving import Driven
from tests.viewer.asking import serving
from tests.viewer.building import BLUE, DAY_LAYER, FIRST, MAP, SECOND, THIRD, begun, picture
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


def shares(running: dict[str, Any]) -> dict[str, Any]:
    return {name: running[name] for name in ("done", "expected", "active")}


def test_harvests_are_told_newest_first(world: World) -> None:
    world.harvest(FIRST, {A: picture(), B: picture()})
    world.harvest(SECOND, {A: picture(BLUE), B: None})
    with serving(world) as client:
        answer = client.get(HARVESTS).json
    one = len(picture())
    both = {
        "reason": "finished",
        "renderer": "overviewer",
        "depth": {"day": 10, "night": 10},
        "requests": 4,
        "received_bytes": 200,
        "stopped": None,
        "seconds_worked": 0.0,
        "spared_bytes": 0,
        "walk": None,
        "walk_reason": None,
    }
    assert answer == {
        "harvests": [
            {
                "id": 2,
                "segment": "2021-02-16",
                "day": "2021-02-16",
                "started": "2021-02-16T06:00:00+00:00",
                "ended": "2021-02-16T07:00:00+00:00",
                "counts": {"upd": 1, "gone": 1},
                "stored_bytes": len(picture(BLUE)),
                **both,
            },
            {
                "id": 1,
                "segment": "2021-02-13",
                "day": "2021-02-13",
                "started": "2021-02-13T06:00:00+00:00",
                "ended": "2021-02-13T07:00:00+00:00",
                "counts": {"add": 2},
                "stored_bytes": one,
                **both,
            },
        ],
        "running": None,
        "stored_bytes": one + len(picture(BLUE)),
    }


def test_a_map_that_was_never_harvested_has_none(world: World) -> None:
    world.describe()
    with serving(world) as client:
        assert client.get(HARVESTS).json == {"harvests": [], "running": None, "stored_bytes": 0}


def test_a_map_that_is_not_there_has_no_harvests(world: World) -> None:
    world.describe()
    with serving(world) as client:
        assert client.get("/api/v1/maps/nowhere/harvests").status == 404


def test_an_unfinished_harvest_tells_how_far_it_is(world: World) -> None:
    world.harvest(FIRST, {A: picture(), B: picture(), Tile(0, 5, 1): picture()})
    world.harvest(SECOND, {A: picture(BLUE)}, finished=False)
    with serving(world) as client:
        answer = client.get(HARVESTS).json
    assert shares(answer["running"]) == {"done": 1, "expected": 3, "active": False}
    assert answer["harvests"][0]["counts"] == {"upd": 1}
    assert answer["harvests"][0]["ended"] is None
    assert answer["harvests"][0]["reason"] is None


def test_a_running_harvest_tells_its_speed_and_what_is_left(world: World, worker: Driven) -> None:
    """25 of 100 tiles in 50 seconds; what is not there is no tile."""
    results = [TileResult(DAY_LAYER, Tile(0, x, 1), Outcome.NOTHING) for x in range(1, 20, 2)]
    results += [TileResult(DAY_LAYER, Tile(0, x, 3), Outcome.IGNORED) for x in range(1, 47, 2)]
    results += [TileResult(DAY_LAYER, Tile(0, x, 5), Outcome.FAILED, reason="500") for x in (1, 3)]
    world.describe()
    with History.open(f"sqlite:///{world.history_file}") as history:
        harvest = begun(history, FIRST)
        harvest.expect(100)
        harvest.record(results, Cost(40, 900, 800, 70_000, 50.0))
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


def test_a_pruned_harvest_tells_how_it_walks_and_not_how_long_it_will_take(
    world: World, worker: Driven
) -> None:
    world.describe()
    with History.open(f"sqlite:///{world.history_file}") as history:
        harvest = begun(history, FIRST)
        harvest.note_walk("pruned", "walk = pruned is set")
        harvest.expect(100)
        harvest.record([TileResult(DAY_LAYER, A, Outcome.IGNORED)], Cost(4, seconds=1.0))
    worker.open()
    with serving(world) as client:
        answer = client.get(HARVESTS).json
    (shown,) = answer["harvests"]
    assert (shown["walk"], shown["walk_reason"]) == ("pruned", "walk = pruned is set")
    assert (answer["running"]["tiles_done"], answer["running"]["seconds_left"]) == (1, None)


def test_a_harvest_that_was_stopped_says_why_and_not_how_long_it_will_take(world: World) -> None:
    world.harvest(FIRST, {A: picture()}, finished=False)
    with History.open(f"sqlite:///{world.history_file}") as history:
        harvest = begun(history, FIRST)
        harvest.expect(100)
        harvest.record([], Cost(40, seconds=50.0))
        harvest.stop("budget: 40 requests")
    with serving(world) as client:
        answer = client.get(HARVESTS).json
    assert (answer["running"]["stopped"], answer["running"]["seconds_left"]) == ("budget: 40 requests", None)
    assert answer["harvests"][0]["stopped"] == "budget: 40 requests"


def test_the_first_harvest_has_nothing_to_be_compared_with(world: World) -> None:
    world.harvest(FIRST, {A: picture()}, finished=False)
    with serving(world) as client:
        running = client.get(HARVESTS).json["running"]
    assert shares(running) == {"done": 1, "expected": None, "active": False}
    assert (running["tiles_expected"], running["seconds_left"]) == (None, None)


def test_a_harvest_that_did_not_finish_is_not_what_is_expected(world: World) -> None:
    world.harvest(FIRST, {A: picture()})
    with History.open(f"sqlite:///{world.history_file}") as history:
        moved = begun(history, SECOND)
        moved.finish(datetime(2021, 2, 16, 7, tzinfo=UTC), "moved", settle_gone=False)
    world.harvest(THIRD, {B: picture()}, finished=False)
    with serving(world) as client:
        answer = client.get(HARVESTS).json
    assert shares(answer["running"]) == {"done": 1, "expected": 1, "active": False}
    assert [harvest["reason"] for harvest in answer["harvests"]] == [None, "moved", "finished"]


def test_a_harvest_is_active_while_a_process_works_on_its_queue(world: World, worker: Driven) -> None:
    world.harvest(FIRST, {A: picture()}, finished=False)
    worker.open()
    with serving(world) as client:
        assert client.get(HARVESTS).json["running"]["active"] is True
    worker.stop()
    with serving(world) as client:
        assert client.get(HARVESTS).json["running"]["active"] is False


def test_a_command_sees_the_worker_of_the_queue_and_makes_no_file_to_see_none(
    world: World, worker: Driven
) -> None:
    settings = Settings({"TILEHARVEST_DATA": world.data})
    assert not has_local_worker(settings, MAP)
    assert not (world.data / "queues").exists()
    worker.open()
    assert has_local_worker(settings, MAP)
    worker.stop()
    assert not has_local_worker(settings, MAP)
