"""A harvest that is killed again and again before it gets far: more often than a request is offered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, SECOND_DAY, staged, visit
from tests.end_to_end.project import await_condition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.bad_input.small_site import Stage

KILLS = 6
"""One more than a request is offered (MAX_ATTEMPTS)."""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as stage:
        stage.project.maps_file.unlink()
        stage.project.add_map("small", f"{stage.site.url}/", requests_per_second=25)
        yield stage


def kill_early(stage: Stage, *more: str) -> None:
    """Harvests, and kills the process when it has asked for two tiles."""
    already = len(stage.site.received)
    with stage.project.running("harvest", "small", "-a", f"day={FIRST_DAY}", *more) as process:
        # robots.txt and the configuration come first.
        assert await_condition(lambda: len(stage.site.received) >= already + 4, process)
        process.kill()


def test_what_was_leased_in_every_killed_process_is_asked_for_before_the_end(slow: Stage) -> None:
    for _ in range(KILLS):
        kill_early(slow)
    done = visit(slow.project, FIRST_DAY)
    assert done.status == 0
    assert set(slow.project.outcomes().values()) == {"add"}
    assert len(slow.project.versions()) == len(PATHS)
    assert json.loads(slow.project.scrapy("failures", "small", "--json").stdout) == []
    # The next walk rests on what was asked before anything below it, and on nothing else.
    trusted = slow.project.query("SELECT whole, there FROM validators")
    assert all(whole == there for whole, there in trusted)


def test_tiles_whose_process_is_killed_each_time_have_failed_and_the_next_harvest_asks_for_them(
    slow: Stage,
) -> None:
    once = ("-s", "MAX_ATTEMPTS=1")
    for _ in range(2):
        kill_early(slow, *once)
    assert visit(slow.project, FIRST_DAY, *once).status == 3
    assert json.loads(slow.project.scrapy("failures", "small", "--json").stdout)[0]["reason"] == (
        "its worker ended 2 times while it was under way"
    )
    assert visit(slow.project, SECOND_DAY).status == 0
    assert len(slow.project.versions()) == len(PATHS)
