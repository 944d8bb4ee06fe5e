"""SIGKILL at each step of a harvest through git: the next run ends as an undisturbed harvest does."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from tests.crash.soundness import assert_sound, state
from tests.end_to_end.git_maps import URL
from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DAY
from tests.servers.repositories import FastImport, files_of, moment_of

if TYPE_CHECKING:
    from pathlib import Path

DAY: Final = "2016-10-07"
KILLS: Final = {
    "the commit's trees fetched": 0,
    # The first fetch is of the commit, and the second of the files that describe the map, which are kept.
    "changed files not fetched": 2,
    "changed files fetched": 1,
    "the harvest has begun": 0,
    "bytes stored, row not written": 11,
    "rows written, not committed": 0,
    "rows committed, nobody told": 0,
    "all recorded, harvest not ended": 0,
    "harvest ended and gone tiles recorded, not committed": 0,
}
"""How many times each step passes before the kill."""


def test_a_harvest_through_git_killed_at_each_step_in_turn_loses_and_repeats_nothing(
    shared_maps: Path, small_history: Path, tmp_path: Path
) -> None:
    """A real map that has grown since its harvest over HTTP, and has lost two tiles."""
    before, files = (files_of(shared_maps, "alexjj", version) for version in (1, 2))
    deepest = max(path.count("/") for path in before)
    for path in [path for path in before if path.count("/") == deepest][:2]:
        layer, digit, rest = path.split("/", 2)
        del files[f"{layer}/{digit}/{3 - int(digit)}/{rest}"]
    repository = FastImport(tmp_path / "map.git")
    repository.commit(moment_of(SMALL_DAY), dict(before), whole=True)
    repository.commit(moment_of(DAY), dict(files), whole=True)
    address = repository.written().as_uri()
    whole, killed = (begun(tmp_path / name, small_history, address) for name in ("whole", "killed"))
    whole.crawl(SMALL, DAY)
    undisturbed = state(whole)
    assert {"nMod", "upd", "add", "gone"} <= set(undisturbed.outcomes.values())
    for name, passes in KILLS.items():
        command = ("crawl", "overviewer", "-a", f"map={SMALL}", "-a", f"day={DAY}")
        with killed.running(name, str(passes), *command, module="tests.crash.killed_at_step") as process:
            _, told = process.communicate(timeout=240)
        assert process.returncode == -signal.SIGKILL, (name, told)
        assert_sound(killed)
    assert "continuing the harvest" in killed.crawl(SMALL, DAY).stderr
    assert_sound(killed)
    assert state(killed) == undisturbed


def begun(folder: Path, history: Path, address: str) -> Project:
    folder.mkdir()
    project = Project(folder)
    project.adopt(history)
    project.add_map(SMALL, URL, git={"url": address})
    return project
