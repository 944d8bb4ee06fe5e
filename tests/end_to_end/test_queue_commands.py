"""The commands that look into a map's queue and put something into it, while a harvest runs and after."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    PATHS,
    SECOND_DAY,
    Found,
    Stage,
    address,
    drawn,
    found,
    staged,
    versions,
    visit,
)
from tests.end_to_end.project import await_condition
from tests.servers import rules

LAST: Final = "33"
"""A tile that a walk asks among the last."""
LAST_NAME: Final = "0_3_-3"
BEFORE: Final = 2
"""Requests before that for the first tile: robots.txt and the configuration."""
ALL_OF_IT: Final = BEFORE + len(PATHS)
"""Requests of a first harvest: a GET for each tile."""
BLOCKS: Final = 8
"""Blocks of a first harvest: each tile of the first level is one, and so are the four tiles below it."""
NOTHING: Final = dict.fromkeys(
    [*(f"pending/{lane}" for lane in ("plus", "normal", "minus")), "delayed", "leased", "failed"], 0
)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Asked for one tile after the other, so that their order is certain."""
    with staged(tmp_path) as stage:
        describe(stage, concurrency=1)
        yield stage


def describe(stage: Stage, **keys: Any) -> None:
    """Let `maps.toml` have the map with these keys only."""
    stage.project.maps_file.unlink()
    stage.project.add_map("small", f"{stage.site.url}/", **keys)


def queue(stage: Stage) -> dict[str, int]:
    """The counts; that of a local queue nothing else is known is seen to in passing."""
    told = dict(json.loads(stage.project.scrapy("queue", "small", "--json").stdout))
    besides = {name: told.pop(name) for name in ("workers", "paused", "rate")}
    assert set(besides.values()) == {None}
    del told["harvest"]
    return told


def test_the_queue_can_be_looked_at_while_a_harvest_runs_and_after(stage: Stage) -> None:
    """A tile that is not answered is under way, and those below it are not asked yet."""
    describe(stage, concurrency=4)
    stage.site.rules[address("3")] = rules.hang()
    others = len(PATHS) - 5
    with stage.project.running("crawl", "overviewer", "-a", "map=small", "-a", f"day={FIRST_DAY}") as process:
        assert await_condition(lambda: len(stage.site.received) >= BEFORE + 1 + others, process)
        running = {"leased": 1, "done": BLOCKS - 2, "seen": BLOCKS - 1, "left": 1}
        # What was answered last may still be under way to the queue.
        assert await_condition(lambda: queue(stage) == NOTHING | running, process)
    stage.site.rules.clear()
    visit(stage.project, FIRST_DAY)
    assert queue(stage) == NOTHING | {"done": BLOCKS, "seen": BLOCKS, "left": 0}


def test_what_is_pushed_or_put_back_after_the_end_is_harvested_by_the_next_harvest_at_once(
    stage: Stage,
) -> None:
    """The story of a day: a tile fails, is put back, and another one has changed meanwhile."""
    stage.site.rules[address(LAST)] = rules.status(403)
    assert visit(stage.project, FIRST_DAY).status == 3
    stage.site.rules.clear()
    stage.files.write("00", drawn("changed"))
    stage.project.scrapy("failures", "small", "--retry")
    stage.project.scrapy("push", "small", "0_-3_3", "-1_-2_2")
    stage.site.received.clear()
    done = visit(stage.project, FIRST_DAY)
    assert (done.status, done.counts) == (0, {"ign": 1, "rep": 1, "add": 1})
    tiles = {request.path for request in stage.site.received[BEFORE:]}
    assert tiles == {address(path) for path in (LAST, "00", "0")}
    assert found(stage.project)[LAST] == Found("add", None)
    (report,) = visit(stage.project, FIRST_DAY).reports
    assert "is already harvested" in report["note"]
    assert visit(stage.project, SECOND_DAY).counts == {"ign": 20}
    walks = stage.project.query("SELECT walk, reason FROM harvests ORDER BY id")
    assert walks == [("full", "finished"), ("pushed", "finished"), ("full", "finished")]


def test_what_is_pushed_into_a_harvest_that_stays_is_asked_and_recorded(stage: Stage) -> None:
    """By layer and tile, and by address."""
    command = ("crawl", "overviewer", "-a", "map=small", "-a", f"day={FIRST_DAY}", "-a", "stay=1")
    with stage.project.running(*command) as process:
        assert await_condition(lambda: len(stage.site.received) >= ALL_OF_IT, process)
        assert await_condition(lambda: len(found(stage.project)) == len(PATHS), process)
        asked = len(stage.site.received)
        for path in (LAST, "00"):
            stage.files.write(path, drawn("changed"))
        done = stage.project.scrapy(
            "push", "small", f"{LAYER}:{LAST_NAME}", f"{stage.site.url}{address('00')}"
        )
        assert "2 pushed into the queue of map 'small'" in done.stdout
        recorded = [(FIRST_DAY, stage.files.sha1(path)) for path in (LAST, "00")]
        assert await_condition(
            lambda: recorded == [versions(stage.project, path)[0][:2] for path in (LAST, "00")], process
        )
        assert sorted(request.method for request in stage.site.received[asked:]) == ["GET"] * 2 + ["HEAD"] * 2


def test_a_pushed_tile_that_the_map_has_not_is_one_error_and_the_harvest_goes_on(stage: Stage) -> None:
    stage.project.scrapy("push", "small", "elsewhere:0_1_1", "0_99_1")
    done = visit(stage.project, FIRST_DAY)
    assert (done.status, done.counts) == (0, {"add": 20})
    assert len(done.said.splitlines()) == 2
    assert len(stage.site.received) == ALL_OF_IT
