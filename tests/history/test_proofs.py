"""What a harvest leaves for the walk of the next one: proofs, trust and change indexes."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.history.making import (
    DAY,
    EVERYWHERE,
    LATER,
    LAYER,
    NEW,
    OLD,
    THIRD,
    UPPER,
    A,
    B,
    D,
    TileResult,
    began,
    ended,
    found,
    record,
    seen,
    tiles_of,
)
from tileharvest.history.change_indexes import stored_indexes
from tileharvest.history.database import History
from tileharvest.history.harvest_row import HarvestEndedError
from tileharvest.history.harvests import HarvestRecord
from tileharvest.history.summaries import forget_failures, harvest_summaries
from tileharvest.history.trust import last_full, proofs
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.versions import Validator
from tileharvest.walk.change_index import ChangeIndex, StoredIndex
from tileharvest.walk.proof import Proof

THE_DAY_AFTER = "Sun, 14 Feb 2021 07:00:00 GMT"


def test_a_tile_that_was_asked_again_after_a_kill_has_the_time_of_its_version(
    history: History, first: HarvestRecord
) -> None:
    again = replace(found("add", Tile(0, 3, 3)), validator=Validator('"1"', OLD))
    assert again.seen is None
    record(first, [again])
    ended(first)
    assert proofs(history, "world")[LAYER] == Proof(DAY, 4, 0, 0, 3600.0)


def changed_late(tile: Tile, last_modified: str) -> TileResult:
    """A tile that had changed, and was asked again after a kill, when what lies below was asked already."""
    return replace(found("upd", tile, b"other"), validator=Validator('"2"', last_modified), doubts=True)


def test_a_break_that_a_late_answer_shows_is_not_hidden(history: History, second: HarvestRecord) -> None:
    record(second, [seen("ign", UPPER, NEW), seen("ign", D, NEW), seen("ign", A, OLD)])
    record(second, [changed_late(B, THE_DAY_AFTER)])
    ended(second)
    assert proofs(history, "world")[LAYER].broken == 1


def test_the_last_full_harvest_is_the_last_finished_one_that_was_not_pruned(history: History) -> None:
    for number, (walk, reason) in enumerate(
        [(None, "finished"), ("full", "finished"), ("pruned", "finished"), ("full", "moved")]
    ):
        harvest = began(history, DAY.replace(day=14 + number))
        if walk is not None:
            harvest.note_walk(walk, "why", "all")
        ended(harvest, reason=reason)
    began(history, THIRD).note_walk("full", "why", "all")
    assert last_full(history, "world", "all") == DAY.replace(day=15)


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
    third = began(history, THIRD)
    assert last_full(history, "world", "all") == (DAY if {*kept} == {"all"} else None)
    # What keeps now this and now that counts for neither.
    third.note_walk("pruned", "why", "zone")
    third.note_walk("pruned", "why", "all")
    assert last_full(history, "world", "all") is None


def test_an_ended_harvest_withdraws_nothing(history: History, second: HarvestRecord) -> None:
    ended(second)
    with pytest.raises(HarvestEndedError):
        second.distrust(LAYER, "a change")
    assert proofs(history, "world")[LAYER].withdrawn is None


OLD_INDEX, NEW_INDEX = ChangeIndex("old"), ChangeIndex("new")


def stored(history: History) -> StoredIndex:
    return stored_indexes(history, "world")[LAYER]


def read(harvest: HarvestRecord, index: ChangeIndex, earlier: StoredIndex | None = None) -> set[str] | None:
    """Returns the tiles of the ground to which the walk keeps."""
    grounds = harvest.read_indexes({LAYER: index}, {} if earlier is None else {LAYER: earlier})
    return {str(tile) for tile in grounds[LAYER].tiles()} if grounds else None


@pytest.fixture
def indexed(history: History, first: HarvestRecord) -> HarvestRecord:
    """The harvest after one that has read an index."""
    read(first, OLD_INDEX)
    ended(first)
    return began(history, LATER)


def test_what_a_complete_harvest_has_read_is_what_the_next_one_compares_with(
    history: History, first: HarvestRecord
) -> None:
    assert read(first, OLD_INDEX) is None
    assert stored_indexes(history, "world") == {}
    ended(first)
    assert stored(history) == StoredIndex(OLD_INDEX, first.day)
    second = began(history, LATER)
    assert read(second, OLD_INDEX, stored(history)) == set()
    assert second.unasked(EVERYWHERE, 10) == []
    assert second.vanished(EVERYWHERE) == (0, 0)
    skipped = second.skipped(LAYER, EVERYWHERE[LAYER])
    assert set(tiles_of(skipped)) >= {A, B}
    ended(second)
    assert stored(history) == StoredIndex(OLD_INDEX, LATER, confirmed=1)


@pytest.mark.usefixtures("indexed")
def test_who_continues_a_harvest_notes_what_its_killed_beginner_had_not(history: History) -> None:
    second = began(history, LATER)
    assert second.continued
    read(second, NEW_INDEX)
    ended(second)
    assert stored(history) == StoredIndex(NEW_INDEX, LATER, confirmed=1)


def test_what_is_read_when_tiles_may_have_been_asked_for_is_not_noted(
    history: History, indexed: HarvestRecord
) -> None:
    indexed.note_walk("full", "no index was there")
    read(began(history, LATER), NEW_INDEX)
    ended(indexed)
    assert stored(history) == StoredIndex(OLD_INDEX, DAY)


def test_tiles_that_failed_are_in_the_ground(history: History, first: HarvestRecord) -> None:
    ended(first)
    second = began(history, LATER)
    read(second, OLD_INDEX)
    record(second, [found("fail", B)])
    ended(second)
    forget_failures(history, "world")
    ground = read(began(history, THIRD), OLD_INDEX, stored(history))
    assert ground is not None
    assert ground >= {str(B), str(B.parent())}
    assert str(A) not in ground


def test_a_change_that_was_not_told_of_withdraws_the_index_until_one_is_told_of(
    history: History, indexed: HarvestRecord
) -> None:
    read(indexed, OLD_INDEX)
    record(indexed, [seen("upd", A)])
    ended(indexed)
    after = stored(history)
    assert after.withdrawn == f"it did not list tile {A}, which had changed, found on {LATER}"
    third = began(history, THIRD)
    read(third, NEW_INDEX)
    record(third, [seen("ign", UPPER), seen("upd", D)])
    ended(third)
    assert stored(history) == StoredIndex(NEW_INDEX, THIRD)


def test_distrust_withdraws_the_index_and_leaves_the_ground_to_be_asked_around(
    history: History, indexed: HarvestRecord
) -> None:
    read(indexed, OLD_INDEX, stored(history))
    indexed.distrust(LAYER, "a change", is_untold=True)
    assert indexed.read_indexes({}, {}) == {}
    assert indexed.noted_ground(LAYER) is not None
    assert indexed.unasked(EVERYWHERE, 10) != []
    ended(indexed)
    assert (stored(history).withdrawn, stored(history).withdrawn_day) == ("a change", LATER)
