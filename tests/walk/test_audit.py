"""Which tiles an audit draws, and what breaks the law."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.walk import Audit, drawn

PLACES = sorted(child for tile in Tile(-1, 2, 2).ancestor(2).children() for child in tile.children())


@pytest.mark.parametrize(
    ("share", "least", "number"),
    [(0.02, 0, 1), (0.25, 0, 4), (0.26, 0, 5), (0.02, 5, 5), (0.02, 99, 16), (0, 0, 0)],
)
def test_audit_draws_the_share_rounded_up_but_the_least_number_and_no_more_than_there_are(
    share, least, number
):
    assert len(set(drawn(lambda: PLACES, share, least, "1"))) == number


@given(st.permutations(PLACES), st.text(max_size=5))
def test_audit_draws_the_same_tiles_in_whatever_order_they_come(places, seed):
    assert drawn(lambda: places, 0.25, 0, seed) == drawn(lambda: PLACES, 0.25, 0, seed)


def test_audit_draws_each_tile_equally_often_over_many_harvests():
    often = Counter(tile for number in range(4000) for tile in drawn(lambda: PLACES, 0.25, 0, str(number)))
    # 1,000 each are expected, with a standard deviation of 27.
    assert all(850 < often[tile] < 1150 for tile in PLACES)


@pytest.mark.parametrize("outcome", Outcome)
def test_anything_new_about_a_tile_or_an_empty_place_breaks_the_law(outcome):
    for known, expected in ((PLACES, Outcome.IGNORED), ([], Outcome.NOTHING)):
        audit = Audit(PLACES[:1], frozenset(known))
        assert bool(audit.broken({PLACES[0]: outcome})) is (outcome not in {expected, Outcome.FAILED})


def test_a_change_index_is_right_about_bytes_that_were_written_again():
    of_index = Audit(PLACES[:1], frozenset(PLACES), is_of_index=True)
    assert of_index.broken({PLACES[0]: Outcome.NOT_MODIFIED}) == []
    assert of_index.broken({PLACES[0]: Outcome.UPDATED}) == PLACES[:1]
