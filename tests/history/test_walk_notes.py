"""The notes of a harvest for the next one's walk, the tiles that it skips, and when trust is withdrawn."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.history.making import EVERYWHERE, LATER, LAYER, A, B, C, D, began, ended, found
from tests.history.pyramid import NEW, OLD, THIRD, UPPER, is_trusted, mark, seen, skipping
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.proofs import proofs
from tileharvest.history.summaries import harvest_summaries, progress_of
from tileharvest.tiles.grid import Tile, TileRange, unpacked
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator
from tileharvest.walk.trust import Mark

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord


def test_what_was_seen_is_remembered_and_not_yet_trusted(first: HarvestRecord) -> None:
    assert mark(first, A) == Mark('"1"', OLD, False)


def test_what_a_finished_harvest_has_seen_is_trusted(second: HarvestRecord) -> None:
    assert is_trusted(second, UPPER, D, A, B) == [True] * 4


def test_of_a_zoom_that_is_not_kept_nothing_but_what_was_seen_is_recorded(second: HarvestRecord) -> None:
    assert mark(second, UPPER) == Mark('"1"', NEW, True)
    assert second.look_up(LAYER, TileRange(-2, 4, 4, 4, 4))[0] == {}
    second.record([seen("ign", UPPER)])
    assert second.counts() == {}


def test_a_tile_that_was_never_there_is_not_remembered(first: HarvestRecord) -> None:
    first.record([replace(found("404", C), step=Step(seen=Validator()))])
    assert mark(first, C) is None


def test_what_is_gone_is_forgotten(second: HarvestRecord) -> None:
    second.record([found("gone", A)])
    assert mark(second, A) is None


def test_an_interrupted_harvest_trusts_nothing_of_its_own(history: History, second: HarvestRecord) -> None:
    second.record([seen("upd", D, "Sun, 14 Feb 2021 06:00:00 GMT")])
    third = began(history, THIRD)
    assert is_trusted(third, D, A) == [False, True]


def test_what_lies_above_something_untrusted_is_not_trusted_either(
    history: History, second: HarvestRecord
) -> None:
    """Even where a site breaks the law: a walk that trusted it would not come to what is below."""
    second.record([seen("upd", A)])
    assert is_trusted(began(history, THIRD), A, D, UPPER, B) == [False, False, False, True]


def test_a_moved_map_makes_nothing_trusted(history: History, second: HarvestRecord) -> None:
    second.record([seen("ign", UPPER, "Sun, 14 Feb 2021 06:00:00 GMT")])
    ended(second, reason="moved", settle_gone=False)
    assert is_trusted(began(history, THIRD), UPPER) == [False]


def test_a_failure_takes_trust_from_all_above(history: History, second: HarvestRecord) -> None:
    second.record([found("fail", A)])
    assert is_trusted(began(history, THIRD), UPPER, D, A, B) == [False, False, False, True]


def test_above_a_failure_nothing_becomes_trusted_again(history: History, second: HarvestRecord) -> None:
    """Whichever of them is recorded first, and although the tile that failed was not known."""
    second.record([found("fail", Tile(0, 3, 3))])
    second.record([seen("upd", D, NEW, '"2"'), seen("ign", UPPER, NEW, '"2"')])
    ended(second)
    assert is_trusted(began(history, THIRD), UPPER, D, A) == [False, False, True]


def test_what_failed_is_trusted_when_it_was_seen_again_with_all_above(
    history: History, second: HarvestRecord
) -> None:
    second.record([found("fail", A)])
    ended(second)
    third = began(history, THIRD)
    third.record([seen("ign", A), seen("ign", D), seen("ign", UPPER)])
    ended(third)
    assert is_trusted(began(history, date(2021, 2, 21)), UPPER, D, A) == [True] * 3


def test_what_lay_below_a_missing_tile_is_not_trusted_when_it_comes_back(
    history: History, second: HarvestRecord
) -> None:
    """At a zoom that is not kept nobody has asked for it, and what was below it is recorded as gone."""
    high = Tile(-3, 8, 8)
    second.record([seen("ign", high)])
    ended(second)
    third = began(history, THIRD)
    third.record([replace(found("404", high), step=Step(seen=Validator(), is_kept=False))])
    third.record([found("gone", tile) for tile in (D, A, B)])
    ended(third)
    assert is_trusted(began(history, date(2021, 2, 21)), UPPER) == [False]


def test_the_marks_of_an_area_are_those_of_its_tiles(second: HarvestRecord) -> None:
    for area, tiles in ((TileRange(0, 1, 3, 1, 1), {A, B}), (TileRange(0, 3, 5, 1, 1), {B})):
        assert {Tile(*cell) for cell in second.look_up(LAYER, area)[1]} == tiles


def test_what_lies_below_a_top_is_neither_unasked_nor_vanished(second: HarvestRecord) -> None:
    second.record([skipping(UPPER)])
    assert second.tops(LAYER) == [UPPER]
    assert second.unasked(EVERYWHERE, 10) == []
    assert second.vanished(EVERYWHERE) == (0, 0)


def test_the_top_itself_is_not_skipped(second: HarvestRecord) -> None:
    second.record([skipping(D)])
    assert set(unpacked(second.skipped(LAYER, EVERYWHERE[LAYER]))) == {A, B}


def test_what_is_beside_a_top_is_unasked(history: History, first: HarvestRecord) -> None:
    first.record([seen("add", C)])
    ended(first)
    second = began(history, LATER)
    second.record([skipping(D)])
    assert second.unasked(EVERYWHERE, 10) == [(LAYER, C)]


def test_what_was_skipped_is_counted(history: History, second: HarvestRecord) -> None:
    second.record([skipping(D), found("ign", A)])
    expected = {Outcome.IGNORED: 2, Outcome.SKIPPED: 1}
    assert second.counts() == expected
    progress = progress_of(history, "world")
    assert progress is not None
    assert progress.counts == expected
    ended(second)
    assert second.counts() == expected
    assert harvest_summaries(history, "world")[-1].counts == expected


def test_what_the_map_keeps_no_more_is_not_counted_as_skipped(
    history: History, second: HarvestRecord
) -> None:
    """The last full walk, which has asked for all that is kept, has not asked for it."""
    second.note_walk("full", "zooms were changed")
    second.record([seen("ign", D, NEW), seen("ign", A)])
    ended(second)
    third = began(history, THIRD)
    third.record([skipping(D)])
    assert third.counts() == {Outcome.IGNORED: 1, Outcome.SKIPPED: 1}
    ended(third)
    assert harvest_summaries(history, "world")[-1].counts[Outcome.SKIPPED] == 1


def test_an_audited_tile_stays_in_the_list_of_skipped_ones(second: HarvestRecord) -> None:
    second.record([skipping(D), found("ign", A)])
    assert set(unpacked(second.skipped(LAYER, EVERYWHERE[LAYER]))) == {A, B}
    assert second.outcomes(LAYER, [A, B]) == {A: Outcome.IGNORED}


def test_an_audited_tile_that_is_gone_has_vanished(second: HarvestRecord) -> None:
    second.record([skipping(D), found("gone", A)])
    assert second.vanished(EVERYWHERE) == (1, 0)


def test_the_tops_of_an_earlier_harvest_are_none_of_this_one(history: History, second: HarvestRecord) -> None:
    second.record([skipping(UPPER)])
    ended(second)
    third = began(history, THIRD)
    assert third.tops(LAYER) == []
    assert len(third.unasked(EVERYWHERE, 10)) == 3


def test_a_top_that_is_seen_anew_skips_nothing_more(second: HarvestRecord) -> None:
    second.record([skipping(D)])
    second.record([seen("ign", D)])
    assert second.tops(LAYER) == []


def test_distrust_opens_what_was_skipped_and_trusts_nothing(second: HarvestRecord) -> None:
    second.record([skipping(UPPER)])
    assert second.distrust(LAYER, "a change") == [UPPER]
    assert second.tops(LAYER) == []
    assert {tile for _, tile in second.unasked(EVERYWHERE, 10)} == {D, A, B}
    assert is_trusted(second, UPPER, D, A, B) == [False] * 4


def test_distrust_gives_the_tops_until_they_were_asked_again(history: History, second: HarvestRecord) -> None:
    second.record([skipping(D)])
    assert second.distrust(LAYER, "a change") == [D]
    continued = began(history, LATER)
    assert continued.distrust(LAYER, "another") == [D]
    continued.record([seen("ign", D)])
    assert continued.distrust(LAYER, "another") == []


def test_distrust_gives_no_top_that_failed_since(second: HarvestRecord) -> None:
    second.record([skipping(D)])
    second.distrust(LAYER, "a change")
    second.record([found("fail", D)])
    assert second.distrust(LAYER, "a change") == []


def test_what_another_process_skips_after_distrust_skips_nothing(
    history: History, second: HarvestRecord
) -> None:
    second.distrust(LAYER, "a change")
    other = began(history, LATER)
    other.record([skipping(D)])
    assert other.distrusted() == {LAYER: "a change"}
    assert {tile for _, tile in other.unasked(EVERYWHERE, 10)} == {A, B}
    assert other.distrust(LAYER, "a change") == [D]


def test_above_what_was_skipped_in_spite_of_distrust_nothing_becomes_trusted(
    history: History, second: HarvestRecord
) -> None:
    second.distrust(LAYER, "a change")
    second.record([seen("ign", UPPER, NEW, '"2"'), skipping(D)])
    ended(second)
    assert is_trusted(began(history, THIRD), UPPER, D) == [False, False]


def test_distrust_keeps_the_first_reason(history: History, second: HarvestRecord) -> None:
    second.distrust(LAYER, "a change")
    second.distrust(LAYER, "another")
    stored = proofs(history, "world")["world"][LAYER]
    assert (stored.withdrawn, stored.withdrawn_day) == ("a change", LATER)


def test_what_an_earlier_harvest_has_found_is_not_told_as_found_by_this_one(
    history: History, second: HarvestRecord
) -> None:
    second.distrust(LAYER, "why")
    assert second.distrusted() == {LAYER: "why"}
    assert began(history, THIRD).distrusted() == {}


def test_an_ended_harvest_withdraws_nothing(history: History, second: HarvestRecord) -> None:
    ended(second)
    with pytest.raises(HarvestEndedError):
        second.distrust(LAYER, "a change")
    assert proofs(history, "world")["world"][LAYER].withdrawn is None


def test_a_dry_run_knows_what_is_remembered_and_proved(history: History, second: HarvestRecord) -> None:
    ended(second)
    with history.dry_copy("world") as copy:
        assert is_trusted(began(copy, THIRD), UPPER, A) == [True, True]
        assert proofs(copy, "world") == proofs(history, "world")


def test_a_layer_that_the_harvest_does_not_have_is_refused(first: HarvestRecord) -> None:
    with pytest.raises(KeyError, match="night"):
        first.record([replace(seen("ign", UPPER), layer="night")])
    with pytest.raises(KeyError, match="night"):
        first.distrust("night", "a change")


def test_a_change_whose_answer_is_not_remembered_takes_trust_from_all_above(
    history: History, second: HarvestRecord
) -> None:
    second.record([found("upd", A)])
    assert is_trusted(began(history, THIRD), UPPER, A, B) == [False, False, True]


@pytest.mark.parametrize("tile", [UPPER, D])
def test_an_answer_that_doubts_what_is_remembered_takes_trust_from_it_and_all_above(
    history: History, second: HarvestRecord, tile: Tile
) -> None:
    second.record([replace(found("ign", tile), step=Step(doubts=True, is_kept=tile is D))])
    assert is_trusted(began(history, THIRD), UPPER, D, A) == [False, tile is UPPER, True]
