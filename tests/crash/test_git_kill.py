"""SIGKILL at each step of a harvest through git: the next run ends as an undisturbed harvest does."""

import signal
from pathlib import Path
from typing import Final

from tests.crash.soundness import assert_sound, state
from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DAY, URL
from tests.servers.repositories import FastImport, files_of, moment_of

DAY: Final = "2016-10-07"
KILLS: Final = {
    "the commit's trees fetched": 0,
    # The first call fetches the files that describe the map. They are kept, so a later run makes one call.
    "changed files not fetched": 1,
    "changed files fetched": 0,
    "bytes stored, row not written": 11,
}
"""How many times each step passes before the kill. `test_write_order` has the steps that HTTP has, too."""


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
    git = {"url": repository.written().as_uri()}
    whole, killed = (Project(tmp_path / name) for name in ("whole", "killed"))
    for project in (whole, killed):
        project.folder.mkdir()
        project.adopt(small_history)
        project.add_map(SMALL, URL, git=git)
    whole.crawl(SMALL, DAY)
    undisturbed = state(whole)
    assert {"nMod", "upd", "add", "gone"} <= set(undisturbed.outcomes.values())
    for name, passes in KILLS.items():
        command = (name, str(passes), "crawl", "overviewer", "-a", f"map={SMALL}", "-a", f"day={DAY}")
        with killed.running(*command, module="tests.crash.killed_at_step") as process:
            _, told = process.communicate(timeout=240)
        assert process.returncode == -signal.SIGKILL, (name, told)
        assert_sound(killed)
    assert "continuing the harvest" in killed.crawl(SMALL, DAY).stderr
    assert_sound(killed)
    assert state(killed) == undisturbed
