"""The prediction, compared with a visitor who walks the published folders and remembers them path by path."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.demo.snapshots import MOVED, snapshot
from tileharvest.demo.prediction import predicted_outcomes
from tileharvest.demo.publication import publish
from tileharvest.demo.world import World

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from tests.demo.snapshots import File, Snapshot
    from tileharvest.tiles.outcomes import Outcome

DEPTHS = (3, 3, 4)

Remembered = dict[str, "File | None"]


def walked(there: Snapshot, memory: Remembered, depth: int, *, prunes: bool) -> tuple[set[str], set[str]]:
    """Returns the paths that a visitor asks for who starts at the first level and goes below every existing
    tile, and the paths below which he does not go. If he `prunes`, these are the unchanged tiles."""
    asked, unchanged, pending = set(), set(), list("0123")
    while pending:
        path = pending.pop()
        asked.add(path)
        if prunes and word(there.get(path), memory.get(path), ever=path in memory) == "ign":
            unchanged.add(path)
        elif path in there and len(path) < depth:
            pending += [path + digit for digit in "0123"]
    return asked, unchanged


def word(now: File | None, last: File | None, *, ever: bool) -> str:
    if now is None:
        return "gone" if ever and last is not None else "404"
    if last is None:
        return "add"
    if (now.modified, len(now.content)) == (last.modified, len(last.content)):
        return "ign"
    return "nMod" if now.content == last.content else "upd"


def words(counts: dict[Outcome, int]) -> dict[str, int]:
    return {str(outcome): number for outcome, number in counts.items()}


def harvested(days: list[Snapshot]) -> list[dict[str, int]]:
    """Returns the outcomes of each day. The remembered paths move when the map grows."""
    memory: Remembered = {}
    counted = []
    for there, depth, before in zip(days, DEPTHS, (3, *DEPTHS), strict=False):
        if depth > before:
            memory = {MOVED[path[0]] + path[1:]: file for path, file in memory.items()}
        # Times prove nothing while there is only one.
        dates = {file.modified for file in memory.values() if file is not None}
        asked, unchanged = walked(there, memory, depth, prunes=len(dates) > 1)
        rest = {path for path, file in memory.items() if file is not None} - asked
        skipped = {path for path in rest if any(path.startswith(above) for above in unchanged)}
        asked |= rest - skipped
        found = {path: word(there.get(path), memory.get(path), ever=path in memory) for path in asked}
        memory |= {path: there.get(path) for path in asked if found[path] != "404"}
        found |= dict.fromkeys(skipped, "skip")
        counted.append(dict(Counter(found.values())))
    return counted


@pytest.mark.parametrize("day", [1, 2, 3])
def test_the_prediction_is_what_a_walk_over_the_folders_finds(
    world: World, days: list[Snapshot], day: int
) -> None:
    assert words(predicted_outcomes(world, day)) == harvested(days)[day - 1]


@pytest.mark.repetition
def test_another_seed_is_predicted_as_well(first_day: date, tmp_path: Path) -> None:
    world, days = World(seed=1234), []
    for day in (1, 2, 3):
        publish(world, day, first_day, tmp_path)
        days.append(snapshot(tmp_path))
    assert [words(predicted_outcomes(world, day)) for day in (1, 2, 3)] == harvested(days)


def test_the_three_days_show_every_outcome_of_a_sound_harvest(world: World) -> None:
    found = {str(outcome) for day in (1, 2, 3) for outcome in predicted_outcomes(world, day)}
    assert found == {"404", "ign", "skip", "nMod", "upd", "add", "gone"}


def test_a_tile_recorded_as_gone_is_not_gone_again(world: World) -> None:
    assert "gone" in {str(outcome) for outcome in predicted_outcomes(world, 2)}
    assert "gone" not in {str(outcome) for outcome in predicted_outcomes(world, 3)}


def test_a_day_that_the_world_does_not_have_is_refused(world: World) -> None:
    with pytest.raises(ValueError, match="days 1 to 3"):
        predicted_outcomes(world, 4)
