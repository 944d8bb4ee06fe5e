"""What an answer says of what lies below a tile; what that is worth is in test_pruned_walk.py."""

from __future__ import annotations

import pytest

from tileharvest.tiles.questions import ON_WALK, Asked
from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator
from tileharvest.walk.trust import Mark, remember, vouches

MORNING = "Sat, 13 Feb 2021 08:00:00 GMT"
NOON = "Sat, 13 Feb 2021 12:00:00 GMT"
SAME = Validator('"a"', NOON)
TRUSTED = Mark('"a"', NOON, is_trusted=True)
DOUBTED = Mark('"a"', NOON, is_trusted=False)


@pytest.mark.parametrize(
    ("mark", "seen", "is_same"),
    [
        (('"a"', NOON), ('"a"', NOON), True),
        (('"a"', NOON), ('W/"a"', NOON), True),
        (('W/"a"', NOON), ('"a"', NOON), True),
        ((None, NOON), (None, NOON), True),
        (('"a"', NOON), ('"b"', NOON), False),
        (('"a"', NOON), ('"a"', MORNING), False),
        (('"a"', MORNING), ('"a"', NOON), False),
        ((None, NOON), ('"a"', NOON), False),
        (('"a"', NOON), (None, NOON), False),
        (('"a"', None), ('"a"', None), False),
        ((None, None), (None, None), False),
    ],
)
def test_mark_is_of_an_answer_with_the_same_etag_and_the_same_date(mark, seen, is_same):
    assert Mark(*mark, is_trusted=True).is_of(Validator(*seen)) is is_same


@pytest.mark.parametrize(
    ("etag", "is_same"),
    [
        ('"6027bf40-1e240"', True),  # of nginx, at NOON
        ('"1e240-5bb367dfe507b"', True),  # of Apache, the same
        ('W/"1e240-5bb367dfe507b-gzip"', True),
        ('"1e240-5bb367e0d9240"', False),
        ('"6027bf41-1e240"', False),
        ('"d41d8cd98f00b204e9800998ecf8427e"', False),
        ('"a"', False),
        (None, False),
    ],
)
def test_an_answer_without_a_date_is_of_the_same_state_where_the_etag_holds_the_date(etag, is_same):
    """As a 304 may be."""
    assert Mark(etag, NOON, is_trusted=True).is_of(Validator(etag)) is is_same


def test_the_date_that_an_answer_leaves_out_stays_remembered():
    etag = '"6027bf40-1e240"'
    assert remember(Mark(etag, NOON, is_trusted=True), Validator(etag), is_late=False) == Step()
    step = remember(Mark(etag, NOON, is_trusted=False), Validator(etag), is_late=False)
    assert step == Step(seen=Validator(etag, NOON))


@pytest.mark.parametrize(("mark", "may"), [(TRUSTED, True), (DOUBTED, False), (None, False)])
def test_only_below_a_trusted_tile_may_be_skipped(mark, may):
    assert vouches(mark, SAME) is may


@pytest.mark.parametrize("mark", [DOUBTED, None, Mark('"a"', MORNING, is_trusted=True)])
def test_what_is_new_or_not_trusted_yet_is_remembered(mark):
    assert remember(mark, SAME, is_late=False) == Step(seen=SAME)


def test_nothing_is_recorded_of_a_trusted_tile_that_is_unchanged():
    assert remember(TRUSTED, SAME, is_late=False) == Step()


@pytest.mark.parametrize("mark", [DOUBTED, None, Mark('"b"', MORNING, is_trusted=True)])
def test_answer_that_may_be_younger_than_what_was_found_below_is_not_remembered(mark):
    assert remember(mark, SAME, is_late=True).seen is None


@pytest.mark.parametrize(
    ("mark", "is_doubted"), [(TRUSTED, False), (Mark('"b"', MORNING, is_trusted=True), True), (None, False)]
)
def test_what_is_remembered_is_doubted_by_an_answer_of_another_state(mark, is_doubted):
    assert remember(mark, SAME, is_late=True) == Step(doubts=is_doubted)
    assert not remember(mark, Validator(), is_late=True).doubts


@pytest.mark.parametrize("is_late", [True, False])
def test_missing_tile_is_forgotten(is_late):
    assert remember(TRUSTED, Validator(), is_late=is_late) == Step(seen=Validator())


@pytest.mark.parametrize("mark", [None, Mark(None, None, is_trusted=False)])
def test_nothing_is_recorded_of_a_missing_tile_of_which_nothing_was_known(mark):
    assert remember(mark, Validator(), is_late=False) == Step()


@pytest.mark.parametrize("asked", [ON_WALK, Asked(late=True), Asked(late=True, audited=True)])
def test_what_lies_below_a_tile_is_asked_on_the_walk(asked):
    assert asked.below == ON_WALK


def test_what_lies_below_a_tile_that_is_asked_in_full_is_asked_in_full():
    assert Asked(late=True, in_full=True).below == Asked(in_full=True)
