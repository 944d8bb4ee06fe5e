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


@pytest.mark.parametrize("name", STEPS)
def test_a_kill_at_this_step_loses_nothing_and_repeats_nothing(
    stage: Stage, project: Project, name: str
) -> None:
    project.adopt(stage.before)
    project.add_map(SMALL, stage.url)
    passes = PASSES.get(STEPS[name].function, 0)
    command = ("crawl", "overviewer", "-a", f"map={SMALL}", "-a", f"day={DAY}")
    with project.running(name, str(passes), *command, module="tests.crash.killed_at_step") as process:
        _, stderr = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, stderr
    assert_sound(project)
    # Bytes that did not get their name are fetched again. What is left goes with `check-store --clean`.
    assert name != NAMELESS or any(map(is_leftover, project.stored()))
    assert name != ENDED or state(project) == stage.undisturbed
    project.crawl(SMALL, DAY)
    assert_sound(project)
    assert state(project) == stage.undisturbed
