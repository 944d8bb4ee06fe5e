"""Lanes follow the sign of the priority; the minus lane gets its share of polls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.queue.port import Lane, check_terms
from tileharvest.queue.sqlite.statements import turns


def test_lanes_are_polled_plus_then_normal_then_minus():
    assert sorted(Lane) == [Lane.PLUS, Lane.NORMAL, Lane.MINUS]


def test_of_four_polls_the_fourth_asks_the_minus_lane_first():
    assert turns(0, 5, 4) + turns(5, 3, 4) == [False, False, False, True] * 2


@given(st.integers(2, 50), st.integers(1, 20))
def test_share_of_polls_is_exact_over_whole_rounds(share, rounds):
    assert sum(turns(0, share * rounds, share)) == rounds


def test_share_of_zero_turns_ageing_off():
    assert not any(turns(0, 100, 0))


@pytest.mark.parametrize("share", [1, -1, -16])
def test_share_that_would_starve_the_others_is_refused(share):
    with pytest.raises(ValueError, match="0 turns ageing off"):
        check_terms(5, 30.0, share, 100)
