"""Which tiles an audit draws, and what breaks the law."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.walk import Audit, audited, breaks_law

PLACES = sorted(child for tile in Tile(-1, 2, 2).ancestor(2).children() for child in tile.children())


@pytest.mark.parametrize(
    ("share", "least", "number"),
    [(0.02, 0, 1), (0.25, 0, 4), (0.26, 0, 5), (0.02, 5, 5), (0.02, 99, 16), (0, 0, 0)],
)
def test_audit_draws_the_share_rounded_up_but_the_least_number_and_no_more_than_there_are(
    share, least, number
):
    assert len(set(audited(lambda: PLACES, share, least, "1"))) == number


@given(st.permutations(PLACES), st.text(max_size=5))
def test_audit_draws_the_same_tiles_in_whatever_order_they_come(places, seed):
    assert audited(lambda: places, 0.25, 0, seed) == audited(lambda: PLACES, 0.25, 0, seed)


def test_audit_draws_each_tile_equally_often_over_many_harvests():
    drawn = Counter(tile for number in range(4000) for tile in audited(lambda: PLACES, 0.25, 0, str(number)))
    # 1,000 each are expected, with a standard deviation of 27.
    assert all(850 < drawn[tile] < 1150 for tile in PLACES)


@pytest.mark.parametrize("outcome", Outcome)
def test_anything_new_about_a_tile_or_an_empty_place_breaks_the_law(outcome):
    assert breaks_law(outcome) is (outcome not in {Outcome.IGNORED, Outcome.FAILED})
    assert breaks_law(outcome, is_known=False) is (outcome not in {Outcome.NOTHING, Outcome.FAILED})


def test_an_audit_tells_the_places_that_break_the_law():
    known, empty = PLACES[0], PLACES[1]
    audit = Audit([known, empty], frozenset({known}))
    assert audit.broken({known: Outcome.IGNORED, empty: Outcome.NOTHING}) == []
    assert audit.broken({known: Outcome.GONE, empty: Outcome.ADDED}) == [known, empty]
    # A change index is right about bytes that were written again.
    of_index = Audit([known], frozenset({known}), is_of_index=True)
    assert of_index.broken({known: Outcome.NOT_MODIFIED}) == []
    assert of_index.broken({known: Outcome.UPDATED}) == [known]
