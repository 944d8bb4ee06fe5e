"""The walk over a layer of one zoom: what is asked of it again, and in which order."""

from datetime import date, timedelta

import pytest

from tileharvest.tiles.block import WHOLE, Block
from tileharvest.walk.flat import EarlierBlock, flat_start, has_turn

FIRST = date(2026, 11, 20)
EVERY = 7
SIDE = 20
BLOCKS = [Block("zoom9", 0, column, row, WHOLE) for row in range(SIDE) for column in range(SIDE)]


def known(day: date = FIRST, *, present: int = 0, days: int = 0, asked: int = WHOLE) -> EarlierBlock:
    return EarlierBlock(day, asked, present, days)


EMPTY = {(one.column, one.row): known() for one in BLOCKS}


def places(blocks: list[Block]) -> list[tuple[int, int]]:
    return [(one.column, one.row) for one in blocks]


def test_empty_blocks_are_asked_again_by_a_share_each_day_and_all_of_them_within_a_week() -> None:
    earlier = dict(EMPTY)
    for number in range(1, 3 * EVERY + 1):
        day = FIRST + timedelta(days=number)
        start = flat_start(BLOCKS, earlier, day, EVERY)
        assert (start.lively, start.is_all) == ([], False)
        assert len(start.others) == pytest.approx(SIDE**2 / EVERY, rel=0.1)
        earlier |= dict.fromkeys(places(start.others), known(day))
        if number >= EVERY:
            assert min(one.day for one in earlier.values() if one.day) > day - timedelta(days=EVERY)


@pytest.mark.parametrize("missed", [2, 6, 7, 100])
def test_turns_that_fell_on_days_without_a_harvest_are_made_up_for(missed: int) -> None:
    today = FIRST + timedelta(days=missed)
    days = [FIRST + timedelta(days=day) for day in range(1, min(missed, EVERY) + 1)]
    expected = {place for place in EMPTY for day in days if has_turn(place, day - timedelta(1), day, EVERY)}
    start = flat_start(BLOCKS, EMPTY, today, EVERY)
    assert set(places(start.others)) == expected
    assert start.is_all == (missed >= EVERY)


def test_what_changed_often_comes_first_and_what_is_empty_last_near_a_tile_before_far_away() -> None:
    earlier = EMPTY | {
        (3, 3): known(present=1, days=2),
        (4, 4): known(present=1, days=5),
        (9, 9): known(present=1, days=1),
        (15, 15): known(asked=0),
    }
    day = FIRST + timedelta(days=EVERY)
    start = flat_start(BLOCKS, earlier, day, EVERY)
    assert places(start.lively) == [(4, 4), (3, 3)]
    order = places(start.others)
    assert order[:2] == [(9, 9), (15, 15)]
    near = {(x + i, y + j) for x, y in ((3, 3), (4, 4), (9, 9)) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    near -= {(3, 3), (4, 4), (9, 9)}
    assert set(order[2 : 2 + len(near)]) == near


@pytest.mark.parametrize(
    "before",
    [
        known(FIRST, present=1, days=1),
        known(FIRST, present=1, days=9),
        known(FIRST, asked=WHOLE >> 1),
        EarlierBlock(None, WHOLE, 0, 0),
        None,
    ],
    ids=["never changed", "changed often", "asked in part", "asked by this harvest", "never asked"],
)
def test_a_block_that_is_not_known_to_be_empty_is_always_asked(before: EarlierBlock | None) -> None:
    (block,) = BLOCKS[:1]
    start = flat_start([block], {} if before is None else {(0, 0): before}, FIRST, EVERY)
    assert (start.lively + start.others, start.is_all) == ([block], True)
