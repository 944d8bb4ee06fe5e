"""SIGKILL at each step of a harvest's writing: the image's bytes, then the row, then the harvest's end."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.crash.killed_at_step import STEPS
from tests.crash.soundness import State, assert_sound, is_leftover, state
from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL
from tests.end_to_end.rendering import Rendering
from tests.servers.nginx import nginx
from tests.servers.published import published

DAY: Final = "2016-10-07"
NAMELESS: Final = "bytes flushed, without their name"
ENDED: Final = "harvest ended, nobody told"

PASSES: Final = {"put": 1, "replace": 11, "record": 1}
"""How many calls of a function pass before the kill, so that it comes in the middle of a harvest. All other
steps are killed at the first call."""


class Stage(NamedTuple):
    url: str
    before: Path
    undisturbed: State
    """What the undisturbed harvest leaves."""


@pytest.fixture(scope="module")
def stage(
    shared_maps: Path, small_history: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """A real map that has grown, with new, changed, unchanged and vanished tiles."""
    folder = tmp_path_factory.mktemp("write-order")
    rendering = Rendering(published(shared_maps, "alexjj", 2, folder / "site"), depth=6)
    project = Project(folder)
    project.adopt(small_history)
    known = {version.tile for version in project.versions()}
    deepest = sorted(path for path in rendering.paths() if path.count("/") == rendering.depth)
    for path in [path for path in deepest if rendering.tile(path) in known][:2]:
        rendering.file(path).unlink()
    with nginx(rendering.folder) as server:
        project.add_map(SMALL, server.url)
        project.crawl(SMALL, DAY)
        undisturbed = state(project)
        assert {"404", "ign", "nMod", "upd", "add", "gone"} == set(undisturbed.outcomes.values())
        yield Stage(server.url, small_history, undisturbed)


@pytest.fixture
def staged(stage: Stage, project: Project) -> Project:
    project.adopt(stage.before)
    project.add_map(SMALL, stage.url)
    return project


def kill(project: Project, name: str) -> None:
    """Runs the harvest, which kills itself at the step."""
    step = STEPS[name]
    passes = PASSES.get(step.function, 0)
    kill_there = (name, str(passes))
    command = ("crawl", "overviewer", "-a", f"map={SMALL}", "-a", f"day={DAY}")
    with project.running(*kill_there, *command, module="tests.crash.killed_at_step") as process:
        _, stderr = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, stderr


@pytest.mark.parametrize("name", [name for name in STEPS if name not in (NAMELESS, ENDED)])
def test_a_kill_at_this_step_loses_nothing_and_repeats_nothing(
    stage: Stage, staged: Project, name: str
) -> None:
    kill(staged, name)
    assert_sound(staged)
    staged.crawl(SMALL, DAY)
    assert_sound(staged)
    assert state(staged) == stage.undisturbed


def test_bytes_that_did_not_get_their_name_are_fetched_again(stage: Stage, staged: Project) -> None:
    """What is left of them goes with `check-store --clean`."""
    kill(staged, NAMELESS)
    assert_sound(staged)
    assert any(map(is_leftover, staged.stored()))
    staged.crawl(SMALL, DAY)
    assert state(staged) == stage.undisturbed
    named = {name: body for name, body in staged.stored().items() if not is_leftover(name)}
    assert named == stage.undisturbed.images


def test_a_kill_after_the_end_leaves_a_finished_harvest(stage: Stage, staged: Project) -> None:
    kill(staged, ENDED)
    assert_sound(staged)
    assert state(staged) == stage.undisturbed
    report = staged.harvest(SMALL, DAY, "-a", "segment=run")
    # The site's change index says that nothing was rendered, so most tiles are not asked.
    assert report["counts"].keys() <= {"404", "ign", "skip"}
    assert report["counts"]["skip"] > 0
    assert staged.versions() == stage.undisturbed.versions
