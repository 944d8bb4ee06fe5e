"""The notes of a harvest for the next one's walk, the tiles that it skips, and when trust is withdrawn."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.history.making import LATER, LAYER, A, B, D, began, ended, found, look_up, record
from tests.history.pyramid import NEW, THIRD, UPPER, is_trusted, mark, seen, skipping
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.proofs import proofs
from tileharvest.history.summaries import harvest_summaries, progress_of
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator
from tileharvest.walk.trust import RememberedValidator

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord


def test_of_a_zoom_that_is_not_kept_nothing_but_what_was_seen_is_recorded(second: HarvestRecord) -> None:
    assert mark(second, UPPER) == RememberedValidator('"1"', NEW, True)
    assert look_up(second, blocks_of(LAYER, [UPPER])[0]).versions == {}
    record(second, [seen("ign", UPPER)])
    assert second.counts() == {}


def test_an_interrupted_harvest_trusts_nothing_of_its_own(history: History, second: HarvestRecord) -> None:
    record(second, [seen("upd", D, "Sun, 14 Feb 2021 06:00:00 GMT")])
    third = began(history, THIRD)
    assert is_trusted(third, D, A) == [False, True]


def test_a_moved_map_makes_nothing_trusted(history: History, second: HarvestRecord) -> None:
    record(second, [seen("ign", UPPER, "Sun, 14 Feb 2021 06:00:00 GMT")])
    ended(second, reason="moved", finalise_gone=False)
    assert is_trusted(began(history, THIRD), UPPER) == [False]


def test_what_lay_below_a_missing_tile_is_not_trusted_when_it_comes_back(
    history: History, second: HarvestRecord
) -> None:
    """At a zoom that is not kept nobody has asked for it, and what was below it is recorded as gone."""
    high = Tile(-3, 8, 8)
    record(second, [seen("ign", high)])
    ended(second)
    third = began(history, THIRD)
    record(third, [replace(found("404", high), step=Step(seen=Validator(), is_kept=False))])
    record(third, [found("gone", tile) for tile in (D, A, B)])
    ended(third)
    assert is_trusted(began(history, date(2021, 2, 21)), UPPER) == [False]


def test_what_was_skipped_is_counted(history: History, second: HarvestRecord) -> None:
    record(second, [skipping(D), found("ign", A)])
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
    record(second, [seen("ign", D, NEW), seen("ign", A)])
    ended(second)
    third = began(history, THIRD)
    record(third, [skipping(D)])
    assert third.counts() == {Outcome.IGNORED: 1, Outcome.SKIPPED: 1}
    ended(third)
    assert harvest_summaries(history, "world")[-1].counts[Outcome.SKIPPED] == 1


def test_distrust_gives_the_tops_until_they_were_asked_again(history: History, second: HarvestRecord) -> None:
    record(second, [skipping(D)])
    assert second.distrust(LAYER, "a change") == [D]
    continued = began(history, LATER)
    assert continued.distrust(LAYER, "another") == [D]
    record(continued, [seen("ign", D)])
    assert continued.distrust(LAYER, "another") == []


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


def test_a_change_whose_answer_is_not_remembered_takes_trust_from_all_above(
    history: History, second: HarvestRecord
) -> None:
    record(second, [found("upd", A)])
    assert is_trusted(began(history, THIRD), UPPER, A, B) == [False, False, True]


@pytest.mark.parametrize("tile", [UPPER, D])
def test_an_answer_that_doubts_what_is_remembered_takes_trust_from_it_and_all_above(
    history: History, second: HarvestRecord, tile: Tile
) -> None:
    record(second, [replace(found("ign", tile), step=Step(doubts=True, is_kept=tile is D))])
    assert is_trusted(began(history, THIRD), UPPER, D, A) == [False, tile is UPPER, True]
