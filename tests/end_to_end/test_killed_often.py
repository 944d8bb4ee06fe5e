"""A harvest that is killed again and again before it gets far: more often than a request is offered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, staged, visit
from tests.end_to_end.project import await_condition
from tileharvest.tiles.block import WHOLE

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


def kill_early(stage: Stage) -> None:
    """Harvests, and kills the process when it has asked for two tiles."""
    already = len(stage.site.received)
    with stage.project.running("harvest", "small", "-a", f"day={FIRST_DAY}") as process:
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
    ((stored, images),) = slow.project.query("SELECT stored_bytes, sum(size) FROM harvests, versions")
    assert stored == images
    # All was asked before anything below it, so the next walk may rest on it.
    trusted = slow.project.query("SELECT whole, there FROM validators")
    assert all(whole == there for whole, there in trusted)
    assert sum((there & WHOLE).bit_count() for _, there in trusted) == len(PATHS)
