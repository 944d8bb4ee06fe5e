"""SIGKILL at any moment of a pruned harvest: the next run leaves the history of a full harvest, and later
harvests find every change."""

from __future__ import annotations

import signal
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.crash.soundness import assert_sound, images
from tests.end_to_end.project import Project, answered, await_condition
from tests.end_to_end.pruned_stage import DAYS, NOON, RARELY, DrawnSite, drawn_site, latest, the_walk
from tests.end_to_end.real_maps import ANTWORLD
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.end_to_end.real_maps import Harvested
    from tests.servers.nginx import Nginx

_RANDOM: Final = Random(20261121)
REQUESTS: Final = 148
"""The requests of the pruned harvest, with those for the site's configuration. A full harvest makes 548."""
AUDITED: Final = 20
MOMENTS: Final = sorted(_RANDOM.randrange(3, REQUESTS + AUDITED - 4) for _ in range(3))
NEXT_DAY: Final = "2021-05-13"
OLD: Final = NOON - 3600


class Stage(NamedTuple):
    """A harvest of the fourth version after a full one of the third."""

    server: Nginx
    before: Harvested
    undisturbed: Harvested
    """The result of a full walk."""

    @property
    def command(self) -> tuple[str, ...]:
        return ("crawl", "overviewer", "-a", f"map={ANTWORLD}", "-a", f"day={self.undisturbed.day}")

    def begin(self, folder: Path) -> Project:
        folder.mkdir()
        project = Project(folder)
        project.adopt(self.before.data)
        # With eight requests on the way, a kill cuts off more than one tile.
        project.add_map(ANTWORLD, self.server.url, walk="pruned", full_every=RARELY, concurrency=8)
        return project


def kill(server: Nginx, project: Project, moment: int, *command: str) -> bool:
    """Runs the command and kills it when the site has answered so many requests. Returns False if the run has
    ended before."""
    server.clear_log()
    with project.running(*command) as process:
        await_condition(lambda: answered(server) >= moment, process)
        process.kill()
        process.wait()
    assert_sound(project)
    return process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def stage(
    shared_maps: Path, antworld: list[Harvested], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    with nginx(published(shared_maps, ANTWORLD, 4, tmp_path_factory.mktemp("site"))) as server:
        yield Stage(server, antworld[2], antworld[3])


def assert_as_undisturbed(stage: Stage, project: Project) -> None:
    assert_sound(project)
    assert project.versions() == stage.undisturbed.versions
    assert images(project) == stage.undisturbed.stored
    ends = project.query("SELECT reason, walk FROM harvests WHERE day = ?", stage.undisturbed.day)
    assert ends == [("finished", "pruned")]


@pytest.mark.parametrize(
    "moment", [MOMENTS[0], *(pytest.param(one, marks=pytest.mark.repetition) for one in MOMENTS[1:])]
)
def test_a_killed_pruned_harvest_run_again_ends_with_the_history_of_a_full_one(
    stage: Stage, tmp_path: Path, moment: int
) -> None:
    for attempt in range(5):
        project = stage.begin(tmp_path / f"project-{attempt}")
        if kill(stage.server, project, moment, *stage.command):
            break
    else:
        raise AssertionError("the kill came too late each time")
    stage.server.clear_log()
    log = project.scrapy(*stage.command).stderr
    assert "continuing the harvest" in log
    assert_as_undisturbed(stage, project)
    assert len(list(stage.server.log())) < len(stage.undisturbed.log) / 2
    # The next day asks for the tiles that the kill has made doubtful, and finds no change.
    assert the_walk(project.crawl(ANTWORLD, NEXT_DAY).stderr).is_pruned
    assert project.versions() == stage.undisturbed.versions


def test_a_change_after_a_harvest_that_was_killed_and_never_continued_is_found(
    stage: Stage, tmp_path: Path
) -> None:
    """A tile is not trusted if the killed harvest has asked for it and not for all tiles below it."""
    project = stage.begin(tmp_path / "project")
    assert kill(stage.server, project, 60, *stage.command)
    assert the_walk(project.crawl(ANTWORLD, NEXT_DAY).stderr).is_pruned
    days = {stage.undisturbed.day, NEXT_DAY}
    found = {(one.tile, one.sha1) for one in project.versions() if one.day in days}
    expected = stage.undisturbed.versions
    assert found == {(one.tile, one.sha1) for one in expected if one.day == stage.undisturbed.day}
    assert {one for one in project.versions() if one.day not in days} == {
        one for one in expected if one.day not in days
    }


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(25, marks=pytest.mark.repetition),
        45,
        pytest.param(60, marks=pytest.mark.repetition),
    ],
    ids=lambda moment: f"after {moment} requests",
)
def test_a_harvest_that_is_killed_while_it_repairs_itself_goes_on_with_it(
    project: Project, tmp_path: Path, nginx: Callable[..., Nginx], moment: int
) -> None:
    """At 64 places a tile is older than one below it, which breaks the law. All are repaired, wherever the
    kill comes."""
    leaves = [f"{number // 16}{number // 4 % 4}{number % 4}" for number in range(64)]
    files: DrawnSite = drawn_site(tmp_path / "site", leaves)
    server = nginx(files.folder)
    project.add_map("small", server.url, concurrency=8)
    project.crawl("small", DAYS[0])
    for leaf in leaves:
        files.draw_alone(leaf, OLD)
        files.draw_alone(leaf[:2], OLD)
    command = ("crawl", "overviewer", "-a", "map=small", "-a", f"day={DAYS[1]}")
    assert kill(server, project, moment, *command)
    project.scrapy(*command)
    assert latest(project) == files.rendering.images()
    second = the_walk(project.crawl("small", DAYS[2]).stderr)
    assert not second.is_pruned
    assert second.reason.startswith("not to be relied on: ")
