"""When a layer's times are proved, and which harvest was the last full one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.history.making import DAY, LATER, LAYER, A, B, D, began, ended, found, record
from tests.history.pyramid import NEW, OLD, THIRD, UPPER, seen, skipping
from tileharvest.history.proofs import last_full, proofs
from tileharvest.history.summaries import harvest_summaries
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator
from tileharvest.walk.proof import Proof

THE_DAY_AFTER = "Sun, 14 Feb 2021 07:00:00 GMT"

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.tiles.results import TileResult


def test_a_full_harvest_gives_a_proof(history: History, first: HarvestRecord) -> None:
    ended(first)
    assert proofs(history, "world")["world"] == {LAYER: Proof(DAY, 3, 0, 0, 3600.0)}


def test_children_that_are_newer_break_the_proof(history: History, first: HarvestRecord) -> None:
    record(first, [seen("ign", UPPER)])
    ended(first)
    assert proofs(history, "world")["world"][LAYER] == Proof(DAY, 3, 1, 0, 3600.0)


def test_a_tile_without_a_time_is_undated_even_if_nothing_was_seen(
    history: History, first: HarvestRecord
) -> None:
    record(first, [found("add", Tile(0, 3, 3))])
    ended(first)
    assert proofs(history, "world")["world"][LAYER] == Proof(DAY, 3, 0, 1, 3600.0)


def test_a_tile_that_was_asked_again_after_a_kill_has_the_time_of_its_version(
    history: History, first: HarvestRecord
) -> None:
    again = replace(found("add", Tile(0, 3, 3)), validator=Validator('"1"', OLD))
    assert again.step == Step()
    record(first, [again])
    ended(first)
    assert proofs(history, "world")["world"][LAYER] == Proof(DAY, 4, 0, 0, 3600.0)


def changed_late(tile: Tile, last_modified: str) -> TileResult:
    """A tile that had changed, and was asked again after a kill, when what lies below was asked already."""
    late = replace(found("upd", tile, b"other"), validator=Validator('"2"', last_modified))
    return replace(late, step=Step(doubts=True))


def test_a_changed_tile_that_was_asked_late_has_the_time_of_its_version(
    history: History, second: HarvestRecord
) -> None:
    record(
        second, [seen("upd", A, THE_DAY_AFTER, '"2"'), seen("ign", B, NEW), seen("ign", UPPER, THE_DAY_AFTER)]
    )
    record(second, [changed_late(D, THE_DAY_AFTER)])
    ended(second)
    assert proofs(history, "world")["world"][LAYER].broken == 0


def test_a_break_that_a_late_answer_shows_is_not_hidden(history: History, second: HarvestRecord) -> None:
    record(second, [seen("ign", UPPER, NEW), seen("ign", D, NEW), seen("ign", A, OLD)])
    record(second, [changed_late(B, THE_DAY_AFTER)])
    ended(second)
    assert proofs(history, "world")["world"][LAYER].broken == 1


def test_what_is_gone_or_failed_is_no_part_of_a_proof(history: History, second: HarvestRecord) -> None:
    record(second, [found("gone", A), found("fail", B), found("ign", D)])
    ended(second)
    assert proofs(history, "world")["world"][LAYER] == Proof(LATER, 0, 0, 0, 0.0)


def test_a_pruned_harvest_leaves_the_proof(history: History, second: HarvestRecord) -> None:
    record(second, [skipping(UPPER)])
    ended(second)
    assert proofs(history, "world")["world"][LAYER].day == DAY


def test_the_harvest_that_withdrew_a_proof_gives_none_but_the_next_does(
    history: History, second: HarvestRecord
) -> None:
    second.distrust(LAYER, "a change")
    every = [seen("ign", UPPER, NEW), seen("ign", D, NEW), seen("ign", A), seen("ign", B)]
    record(second, every)
    ended(second)
    withdrawn = Proof(DAY, 3, 0, 0, 3600.0, "a change", LATER)
    assert proofs(history, "world")["world"] == {LAYER: withdrawn}
    third = began(history, THIRD)
    record(third, every)
    ended(third)
    assert proofs(history, "world")["world"] == {LAYER: Proof(THIRD, 3, 0, 0, 3600.0)}


def test_a_layer_without_a_proof_can_be_distrusted(history: History, first: HarvestRecord) -> None:
    first.distrust(LAYER, "a change")
    assert proofs(history, "world")["world"] == {LAYER: Proof(DAY, 0, 0, 0, 0.0, "a change", DAY)}


def test_an_unknown_map_has_no_proofs(history: History) -> None:
    assert proofs(history, "world") == {}
    assert last_full(history, "world") == {}


def test_how_a_harvest_walks_is_noted(history: History, first: HarvestRecord) -> None:
    (summary,) = harvest_summaries(history, "world")
    assert (summary.walk, summary.walk_reason) == (None, None)
    first.note_walk("full", "no full harvest is finished so far")
    (summary,) = harvest_summaries(history, "world")
    assert (summary.walk, summary.walk_reason) == ("full", "no full harvest is finished so far")


def test_the_last_full_harvest_is_the_last_finished_one_that_was_not_pruned(history: History) -> None:
    for number, (walk, reason) in enumerate(
        [(None, "finished"), ("full", "finished"), ("pruned", "finished"), ("full", "moved")]
    ):
        harvest = began(history, DAY.replace(day=14 + number))
        if walk is not None:
            harvest.note_walk(walk, "why")
        ended(harvest, reason=reason)
    began(history, THIRD).note_walk("full", "why")
    assert last_full(history, "world")["world"][0] == DAY.replace(day=15)


def test_what_was_begun_pruned_is_not_noted_as_full(history: History, first: HarvestRecord) -> None:
    first.note_walk("pruned", "proved")
    first.note_walk("full", "no proof any more")
    (summary,) = harvest_summaries(history, "world")
    assert (summary.walk, summary.walk_reason) == ("pruned", "no proof any more")


def test_a_worker_that_comes_after_the_end_does_not_note_how_it_would_walk(
    history: History, first: HarvestRecord
) -> None:
    first.note_walk("full", "no full harvest is finished so far")
    ended(first)
    first.note_walk("pruned", "proved by itself", "zone")
    (summary,) = harvest_summaries(history, "world")
    assert (summary.walk, summary.walk_reason) == ("full", "no full harvest is finished so far")


@pytest.mark.parametrize("kept", [["all"], ["all", "all"], ["zone"], ["all", "zone"], [None]])
def test_with_a_full_harvest_comes_what_all_since_have_kept(history: History, kept: list[str | None]) -> None:
    began(history, DAY - timedelta(1)).note_walk("full", "why", "what the first of all has kept")
    for number, one in enumerate(kept):
        harvest = began(history, DAY.replace(day=13 + number))
        harvest.note_walk("pruned" if number else "full", "why", one)
        ended(harvest)
    # It has asked for nothing yet.
    began(history, THIRD)
    assert last_full(history, "world") == {"world": (DAY, set(kept))}


def test_what_is_asked_of_all_maps_is_told_of_each(history: History, first: HarvestRecord) -> None:
    ended(first)
    other = began(history, LATER, name="other")
    other.note_walk("full", "why", "zone")
    ended(other)
    began(history, LATER, name="unfinished").note_walk("full", "why")
    assert proofs(history) == {name: proofs(history, name)[name] for name in ("world", "other")}
    assert last_full(history) == {"world": (DAY, {None}), "other": (LATER, {"zone"})}


def test_a_harvest_that_has_kept_now_this_and_now_that_counts_for_neither(
    history: History, first: HarvestRecord
) -> None:
    for kept in ("all", "zone"):
        first.note_walk("full", "why", kept)
    ended(first)
    assert last_full(history, "world") == {"world": (DAY, {"several"})}
