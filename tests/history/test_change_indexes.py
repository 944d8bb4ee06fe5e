"""What the history keeps of change indexes: readings, the ground of a walk, and how far they are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.history.making import EVERYWHERE, LATER, LAYER, A, B, D, began, ended, found, record
from tests.history.pyramid import THIRD, UPPER, seen
from tileharvest.history.change_indexes import stored_indexes
from tileharvest.tiles.grid import unpacked
from tileharvest.walk.change_index import ChangeIndex, StoredIndex

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord

OLD, NEW = ChangeIndex("old"), ChangeIndex("new")


def stored(history: History) -> StoredIndex:
    return stored_indexes(history, "world")["world"][LAYER]


def read(harvest: HarvestRecord, index: ChangeIndex, earlier: StoredIndex | None = None) -> set[str] | None:
    """Returns the tiles of the ground to which the walk keeps."""
    grounds = harvest.read_indexes({LAYER: index}, {} if earlier is None else {LAYER: earlier})
    return {str(tile) for tile in grounds[LAYER].tiles()} if grounds else None


def test_what_a_complete_harvest_has_read_is_what_the_next_one_compares_with(
    history: History, first: HarvestRecord
) -> None:
    assert read(first, OLD) is None
    assert stored_indexes(history) == {}
    ended(first)
    assert stored(history) == StoredIndex(OLD, first.day)
    second = began(history, LATER)
    assert read(second, OLD, stored(history)) == set()
    assert second.unasked(EVERYWHERE, 10) == []
    assert second.vanished(EVERYWHERE) == (0, 0)
    assert {str(tile) for tile in unpacked(second.skipped(LAYER, EVERYWHERE[LAYER]))} >= {str(A), str(B)}
    ended(second)
    assert stored(history) == StoredIndex(OLD, LATER, confirmed=1)


def test_a_harvest_that_does_not_end_leaves_what_was_read_before(
    history: History, first: HarvestRecord
) -> None:
    read(first, OLD)
    ended(first)
    read(began(history, LATER), NEW, stored(history))
    began(history, THIRD)
    assert stored(history) == StoredIndex(OLD, first.day)


def test_a_continued_harvest_keeps_to_what_it_has_noted(history: History, first: HarvestRecord) -> None:
    read(first, OLD)
    ended(first)
    earlier = stored(history)
    assert read(began(history, LATER), OLD, earlier) == set()
    assert read(began(history, LATER), NEW, earlier) == set()


def test_who_continues_a_harvest_notes_what_its_killed_beginner_had_not(
    history: History, first: HarvestRecord
) -> None:
    read(first, OLD)
    ended(first)
    began(history, LATER)
    second = began(history, LATER)
    assert second.continued
    read(second, NEW)
    ended(second)
    assert stored(history) == StoredIndex(NEW, LATER, confirmed=1)


def test_what_is_read_when_tiles_may_have_been_asked_for_is_not_noted(
    history: History, first: HarvestRecord
) -> None:
    read(first, OLD)
    ended(first)
    second = began(history, LATER)
    second.note_walk("full", "no index was there")
    read(began(history, LATER), NEW)
    ended(second)
    assert stored(history) == StoredIndex(OLD, first.day)


def test_tiles_that_failed_are_in_the_ground(history: History, first: HarvestRecord) -> None:
    ended(first)
    second = began(history, LATER)
    read(second, OLD)
    record(second, [found("fail", B)])
    ended(second)
    ground = read(began(history, THIRD), OLD, stored(history))
    assert ground is not None
    assert ground >= {str(B), str(B.parent())}
    assert str(A) not in ground


def test_a_change_that_was_not_told_of_withdraws_the_index_until_one_is_told_of(
    history: History, first: HarvestRecord
) -> None:
    read(first, OLD)
    ended(first)
    second = began(history, LATER)
    read(second, OLD)
    record(second, [seen("upd", A)])
    ended(second)
    after = stored(history)
    assert after.withdrawn == f"it did not list tile {A}, which had changed, found on {LATER}"
    third = began(history, THIRD)
    read(third, NEW)
    record(third, [seen("ign", UPPER), seen("upd", D)])
    ended(third)
    assert stored(history) == StoredIndex(NEW, THIRD)


def test_distrust_withdraws_the_index_and_leaves_the_ground_to_be_asked_around(
    history: History, first: HarvestRecord
) -> None:
    read(first, OLD)
    ended(first)
    second = began(history, LATER)
    read(second, OLD, stored(history))
    second.distrust(LAYER, "a change", is_untold=True)
    assert second.read_indexes({}, {}) == {}
    assert second.noted_ground(LAYER) is not None
    assert second.unasked(EVERYWHERE, 10) != []
    ended(second)
    assert (stored(history).withdrawn, stored(history).withdrawn_day) == ("a change", LATER)
