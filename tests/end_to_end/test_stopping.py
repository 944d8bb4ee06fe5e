"""A harvest that is asked to stop: it ends cleanly, says so, and is continued the next time."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.project import answered, await_condition, stop
from tests.end_to_end.real_maps import ANTWORLD
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.end_to_end.real_maps import Harvested
    from tests.servers.nginx import Nginx

ENOUGH = 120
"""Requests after which the harvest is stopped: a sixth of all."""


@pytest.fixture
def server(project: Project, shared_maps: Path, tmp_path: Path, nginx: Callable[..., Nginx]) -> Nginx:
    running = nginx(published(shared_maps, ANTWORLD, 1, tmp_path / "site"))
    project.add_map(ANTWORLD, running.url, concurrency=1)
    return running


def begun(project: Project) -> list[tuple[int, str, str | None]]:
    """Number, day and end of every harvest."""
    return [(row[0], row[1], row[2]) for row in project.query("SELECT id, day, reason FROM harvests")]


def test_a_stopped_harvest_is_continued_as_if_it_had_not_been_stopped(
    project: Project, server: Nginx, antworld: list[Harvested]
) -> None:
    first = antworld[0]
    command = ("harvest", ANTWORLD, "-a", f"day={first.day}", "--json")
    with project.running(*command) as process:
        assert await_condition(lambda: answered(server) >= ENOUGH, process)
        stdout, stderr = stop(process, signal.SIGTERM)
    assert process.returncode == 1
    (report,) = json.loads(stdout)
    assert (report["finished"], report["error"]) == (False, None)
    assert f"map '{ANTWORLD}' was stopped; run again in the same segment to continue" in stderr
    assert "Traceback" not in stderr
    assert begun(project) == [(1, first.day, None)]
    assert project.harvests(ANTWORLD)[0]["stopped"] == "Ctrl-C or SIGTERM"
    known = project.versions()
    assert known < first.versions

    done = project.scrapy(*command)
    (report,) = json.loads(done.stdout)
    assert begun(project) == [(1, first.day, "finished")]
    assert report["counts"] == first.summary["counts"]
    assert project.versions() == first.versions
    assert project.stored() == first.stored
    (requests,) = project.query("SELECT requests FROM harvests")[0]
    assert requests == len(list(server.log()))
