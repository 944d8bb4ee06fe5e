"""Hosts that break the law of the pruned walk after it was proved: who finds it, and what follows."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.pruned_stage import DAYS, HOUR, NOON, Stage, drawn_site, the_walk
from tests.servers.misbehaving import Misbehaving

OLD: Final = NOON - HOUR
"""Before all that is there: among these times a change does not show."""


@pytest.fixture
def stage(project: Project, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]) -> Stage:
    """After the harvest that proved the law."""
    files = drawn_site(tmp_path / "site")
    stage = Stage(files, misbehaving(files.folder), project)
    stage.describe(audit=1)
    stage.harvest(DAYS[0])
    assert stage.is_up_to_date
    return stage


def test_audited_change_makes_the_same_harvest_ask_everything(stage: Stage) -> None:
    """One in each of two branches, and a third one where no tile was: the audit need not meet them all."""
    stage.files.draw_alone("120", OLD)
    stage.files.draw_alone("300", OLD)
    stage.files.draw_alone("302", OLD)
    log = stage.harvest(DAYS[1])
    assert the_walk(log).is_pruned
    assert stage.is_up_to_date
    (warning,) = [line for line in log.splitlines() if "] WARNING: layer" in line]
    assert "had changed below one that had not" in warning
    assert "all of it is asked now" in warning


def test_a_clock_that_is_put_back_after_the_proof_hides_no_change(stage: Stage) -> None:
    """Times are compared as they are written: an earlier one is another one."""
    stage.describe(audit=0)
    for path in ("013", "01", "0"):
        stage.files.draw_alone(path, OLD)
    assert the_walk(stage.harvest(DAYS[1])).is_pruned
    assert stage.is_up_to_date
