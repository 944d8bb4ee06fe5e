"""What an answer says of what lies below a tile; what that is worth is in test_pruned_walk.py."""

from __future__ import annotations

import pytest

from tileharvest.tiles.results import IN_FULL, ON_WALK, Asked
from tileharvest.tiles.versions import Validator
from tileharvest.walk.trust import RememberedValidator

MORNING, NOON = "Sat, 13 Feb 2021 08:00:00 GMT", "Sat, 13 Feb 2021 12:00:00 GMT"
SAME, DATED = Validator('"a"', NOON), '"6027bf40-1e240"'
"""The ETag of nginx for a file of NOON."""
TRUSTED, DOUBTED = (
    RememberedValidator('"a"', NOON, is_trusted=True),
    RememberedValidator('"a"', NOON, is_trusted=False),
)


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
        # A 304 may leave out the date, if the ETag holds it: of nginx, and of Apache.
        ((DATED, NOON), (DATED, None), True),
        (('"1e240-5bb367dfe507b"', NOON), ('"1e240-5bb367dfe507b"', None), True),
        (('W/"1e240-5bb367dfe507b-gzip"', NOON), ('W/"1e240-5bb367dfe507b-gzip"', None), True),
        (('"1e240-5bb367e0d9240"', NOON), ('"1e240-5bb367e0d9240"', None), False),
        (('"6027bf41-1e240"', NOON), ('"6027bf41-1e240"', None), False),
        (('"d41d8cd98f00b204e9800998ecf8427e"', NOON), ('"d41d8cd98f00b204e9800998ecf8427e"', None), False),
    ],
)
def test_mark_is_of_an_answer_with_the_same_etag_and_the_same_date(mark, seen, is_same):
    assert RememberedValidator(*mark, is_trusted=True).is_of(Validator(*seen)) is is_same


@pytest.mark.parametrize(
    ("asked", "below"),
    [(ON_WALK, ON_WALK), (Asked(late=True), ON_WALK), (Asked(late=True, in_full=True), IN_FULL)],
)
def test_how_what_lies_below_is_asked(asked, below):
    assert asked.below == below
