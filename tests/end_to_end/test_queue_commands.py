"""The commands that look into a queue, put something into it, and list the workers of a shared one."""

import json
import os
import socket
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
from tests.end_to_end.project import Project, await_condition
from tests.queue.driven import DAY, Driven, entry
from tests.servers import rules
from tests.servers.redis import RedisServer, queue_on

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
        stage.describe(concurrency=1)
        yield stage


def told(project: Project, *command: str) -> Any:
    return json.loads(project.scrapy(*command, "--json").stdout)


def queue(stage: Stage) -> dict[str, int]:
    """The counts. Nothing else is known of a local queue."""
    counts = dict(told(stage.project, "queue", "small"))
    del counts["harvest"]
    assert {counts.pop(name) for name in ("workers", "paused", "rate")} == {None}
    return counts


def test_the_queue_can_be_looked_at_while_a_harvest_runs_and_after(stage: Stage) -> None:
    """A tile that is not answered is under way, and those below it are not asked yet."""
    stage.describe(concurrency=4)
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
    stage.site.received.clear()
    (report,) = visit(stage.project, FIRST_DAY).reports
    assert "is already harvested" in report["note"]
    assert stage.site.received == []
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


@pytest.fixture
def fleet(project: Project, redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose maps wait in Redis. Nothing is ever asked of their sites."""
    monkeypatch.setenv("REDIS_URL", redis.url)
    for name in ("small", "other", "asleep"):
        project.add_map(name, "http://map.example.net/")
    return project


def joined(redis: RedisServer, name: str) -> Driven:
    """A worker of a map, in this process."""
    return Driven(lambda: queue_on(redis, name, server_clock=True, max_attempts=5)).open()


def test_the_queue_is_shown_with_its_workers(fleet: Project, redis: RedisServer) -> None:
    with joined(redis, "small") as worker:
        worker.tell(entry("1"), entry("2"), entry("3", -1), entry("4", due=9e9))
        worker.lease(1)
        worker.run(worker.queue._run("reap", 0.0, *worker.queue._alive()))
        found = told(fleet, "queue", "small")
        table = fleet.scrapy("queue", "small").stdout.splitlines()
    (one,) = found.pop("workers")
    assert (one["host"], one["pid"], one["segment"]) == (socket.gethostname(), os.getpid(), DAY)
    assert one["leased"] == 1
    assert {found.pop("paused"), found.pop("rate"), found.pop("harvest")} == {None}
    counts = {"pending/plus": 0, "pending/normal": 1, "pending/minus": 1, "delayed": 1, "leased": 1}
    assert found == counts | {"failed": 0, "done": 0, "seen": 4, "left": 4}
    assert ["pending/minus", "1"] in [line.split() for line in table]
    assert table[-1].split()[:2] == [socket.gethostname(), str(os.getpid())]


def test_the_workers_of_a_spider_are_listed_with_those_of_maps(fleet: Project, redis: RedisServer) -> None:
    modules = ("-s", "SPIDER_MODULES=tests.end_to_end.user_spiders")
    with joined(redis, "tileharvest:pages"), joined(redis, "other"):
        (only,) = told(fleet, "workers", "pages", *modules)
        found = told(fleet, "workers", *modules)
    assert only["spider"] == "pages"
    assert [(one.get("map"), one.get("spider")) for one in found] == [("other", None), (None, "pages")]
