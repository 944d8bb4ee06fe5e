"""Hosts that break the law of the pruned walk after it was proved: who finds it, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.pruned_stage import DAYS, HOUR, NOON, Stage, drawn_site, the_walk
from tests.servers import rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.servers.misbehaving import Misbehaving

OLD: Final = NOON - HOUR
"""Before all that is there: among these times a change does not show."""
NEW: Final = NOON + 100 * HOUR


@pytest.fixture
def stage(project: Project, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]) -> Stage:
    """After the harvest that proved the law."""
    files = drawn_site(tmp_path / "site")
    stage = Stage(files, misbehaving(files.folder), project)
    stage.describe(audit=1)
    stage.harvest(DAYS[0])
    assert stage.is_up_to_date
    return stage


def test_audit_without_a_find_asks_each_skipped_place_once_and_nothing_twice(stage: Stage) -> None:
    log = stage.harvest(DAYS[1])
    assert the_walk(log).is_pruned
    rendering = stage.files.rendering
    places = {path.replace("/", "") for path in rendering.paths() | rendering.missing()}
    assert sorted(path for _, path in stage.asked) == sorted(places)
    assert ": none had changed" in log


def test_audit_has_a_seed_of_its_own_in_each_harvest(stage: Stage) -> None:
    stage.describe(audit=0.001)
    # Eleven places of some forty would be the same twice once in a billion times; twenty are asked at least.
    asked = []
    for day in DAYS[1:3]:
        stage.harvest(day)
        asked.append({path for _, path in stage.asked if len(path) > 1})
    assert [len(one) for one in asked] == [20, 20]
    assert asked[0] != asked[1]


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


def test_a_find_of_a_part_repairs_the_whole(
    project: Project, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    """20 of 80 places are audited, and all but one of them would show it."""
    leaves = [f"{number // 16}{number // 4 % 4}{number % 4}" for number in range(64)]
    files = drawn_site(tmp_path / "dense", leaves[:-1])
    stage = Stage(files, misbehaving(files.folder), project)
    stage.describe()
    stage.harvest(DAYS[0])
    for path in {*leaves, *(leaf[:2] for leaf in leaves)}:
        files.draw_alone(path, OLD)
    log = stage.harvest(DAYS[1])
    assert the_walk(log).is_pruned
    assert "all of it is asked now" in log
    assert stage.is_up_to_date
    # The tops are asked again, and what the audit had asked: a HEAD and a GET each at most.
    heads = [path for method, path in stage.asked if method == "HEAD"]
    assert len(heads) <= 84 + 4 + 20


@pytest.mark.parametrize("path", ["302", "33"], ids=["beside a tile", "with nothing below it"])
def test_audit_finds_a_tile_that_was_added_below_an_unchanged_one(stage: Stage, path: str) -> None:
    stage.files.draw_alone(path, OLD)
    assert the_walk(stage.harvest(DAYS[1])).is_pruned
    assert stage.is_up_to_date


def test_withdrawn_proof_is_replaced_by_the_next_full_harvest_where_the_times_allow_it(stage: Stage) -> None:
    stage.files.draw_alone("120", OLD)
    stage.harvest(DAYS[1])
    second = the_walk(stage.harvest(DAYS[2]))
    assert not second.is_pruned
    assert second.reason.startswith("not to be relied on: tile ")
    assert second.reason.endswith(f" had changed below one that had not, found on {DAYS[1]}")
    assert the_walk(stage.harvest(DAYS[3])).is_pruned


def test_without_an_audit_the_next_full_harvest_finds_it(stage: Stage) -> None:
    stage.describe(audit=0, full_every=3)
    stage.files.draw_alone("120", NEW)
    for day in DAYS[1:3]:
        assert the_walk(stage.harvest(day)).is_pruned
        assert not stage.is_up_to_date
    assert the_walk(stage.harvest(DAYS[3])).reason == f"the last full walk was on {DAYS[0]}"
    assert stage.is_up_to_date
    assert "1 changed after that one" in the_walk(stage.harvest(DAYS[4])).reason


def test_audit_of_zooms_that_leave_out_the_coarse_ones_comes_to_its_end(stage: Stage) -> None:
    """What is not kept has no results of which it could be told that it was asked."""
    stage.describe(audit=1, zooms=[-1, 0])
    stage.harvest(DAYS[1])
    log = stage.harvest(DAYS[2])
    assert the_walk(log).is_pruned
    assert {len(path) for _, path in stage.asked} == {1, 2, 3}
    stage.files.draw_alone("03", OLD)
    stage.harvest(DAYS[3])
    added = {version.tile for version in stage.project.versions() if version.day == DAYS[3]}
    assert stage.files.tile("03") in added


def test_a_tile_that_fails_for_three_harvests_and_then_answers_is_found_by_a_pruned_one(stage: Stage) -> None:
    """It was drawn anew before the first of them, and nothing changes after."""
    stage.describe(audit=0)
    stage.files.draw("120", NEW)
    stage.server.rules[stage.files.address("120")] = rules.status(500)
    for day in DAYS[1:4]:
        assert the_walk(stage.harvest(day)).is_pruned
        asked = {path for _, path in stage.asked}
        assert {"1", "12", "120"} <= asked
        assert not {"000", "300"} & asked
    stage.server.rules.clear()
    assert the_walk(stage.harvest(DAYS[4])).is_pruned
    assert stage.is_up_to_date
    stage.harvest(DAYS[5])
    assert {len(path) for _, path in stage.asked} == {1}


def test_an_audited_tile_that_fails_is_no_breach_and_is_asked_by_the_next_harvest(stage: Stage) -> None:
    stage.server.rules[stage.files.address("120")] = rules.status(500)
    assert ": none had changed" in stage.harvest(DAYS[1])
    stage.server.rules.clear()
    stage.describe(audit=0)
    assert the_walk(stage.harvest(DAYS[2])).is_pruned
    assert "120" in {path for _, path in stage.asked}
