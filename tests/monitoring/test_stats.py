"""How far a harvest is, in numbers and in words."""

from dataclasses import replace
from typing import Final

import pytest

from tileharvest.history.costs import Cost
from tileharvest.monitoring.stats import HarvestStats, State, outcomes_in_words
from tileharvest.politeness.waits import HoldReason
from tileharvest.tiles.outcomes import Outcome

HALF: Final = HarvestStats(
    2_400,
    {
        Outcome.NOTHING: 50,
        Outcome.IGNORED: 1_180,
        Outcome.NOT_MODIFIED: 10,
        Outcome.UPDATED: 7,
        Outcome.FAILED: 3,
    },
    Cost(1_256, 4_100_000, seconds=30),
)
"""1,200 tiles at 40 a second."""
FOUND: Final = "7 changed, 1,190 unchanged, 50 empty, 3 failed; 1,256 requests, 4.1 MB"


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"workers": 3}, 10),
        ({"expected": 1_200}, 0),
        ({"cost": Cost(1_256)}, None),
        ({"counts": {Outcome.NOTHING: 50}}, None),
    ],
)
def test_the_time_left_is_that_of_the_tiles_left_at_the_average_rate(
    changes: dict[str, object], left: float | None
) -> None:
    assert replace(HALF, **changes).seconds_left == left


@pytest.mark.parametrize(
    ("held", "keys", "state"),
    [
        (HoldReason.PAUSED, {}, State.PAUSED),
        (HoldReason.DOWN, {"has_begun": False}, State.DOWN),
        (HoldReason.RESTING, {"has_begun": False, "waits": True}, State.BEGINNING),
        (None, {"waits": True}, State.WAITING),
        (None, {}, State.RUNNING),
    ],
)
def test_the_state_of_a_harvest(held: HoldReason | None, keys: dict[str, bool], state: State) -> None:
    assert State.of(held, **keys) is state


@pytest.mark.parametrize(
    ("changes", "words", "beside"),
    [
        (
            {},
            f"1,200 of about 2,400 tiles, 50 %; {FOUND}; 40.0 tiles/s, 30 s left",
            "1,200/2,400 tiles  40.0 tiles/s, 30 s left",
        ),
        (
            {"expected": 900},
            f"1,200 tiles, where about 900 were expected; {FOUND}; 40.0 tiles/s",
            "1,200/900 tiles  40.0 tiles/s",
        ),
        (
            {"is_pruned": True},
            f"1,200 tiles in a pruned walk of about 2,400; {FOUND}; 40.0 tiles/s",
            "1,200 tiles  40.0 tiles/s",
        ),
        (
            {"expected": 0, "state": State.PAUSED, "detail": "since 12:31"},
            f"paused, since 12:31; 1,200 tiles; {FOUND}",
            "1,200 tiles  paused",
        ),
    ],
)
def test_all_of_it_in_one_line_and_beside_a_bar(changes: dict[str, object], words: str, beside: str) -> None:
    stats = replace(HALF, **changes)
    assert (stats.in_words, stats.in_short) == (words, beside)


def test_each_outcome_has_a_word_for_people() -> None:
    words = outcomes_in_words(dict.fromkeys(Outcome, 1_000))
    assert words == (
        "1,000 new, 2,000 changed, 1,000 gone, 2,000 unchanged, 1,000 skipped, 1,000 empty, 1,000 failed"
    )


def test_programs_get_numbers_and_none_for_what_is_not_known() -> None:
    plain = replace(HALF, expected=0, cost=Cost(5), state=State.INTERRUPTED, detail="budget").as_plain()
    assert (plain["state"], plain["stopped"], plain["detail"], plain["tiles_done"]) == (
        "interrupted",
        "budget",
        None,
        1_200,
    )
    unknown = ("tiles_expected", "requests_per_second", "tiles_per_second", "seconds_left")
    assert {plain[name] for name in unknown} == {None}
