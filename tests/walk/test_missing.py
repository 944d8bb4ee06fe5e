"""When a map has moved, was begun anew, or was never there."""

from __future__ import annotations

import pytest

from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.missing import SAMPLE, Missing, is_empty


@pytest.mark.parametrize(
    ("known", "gone", "unasked", "has_moved"),
    [
        (8, 4, 0, False),
        (8, 5, 0, True),
        # Most of a map that is drawn with fewer zooms was not reached. Nothing was asked of it yet.
        (1000, 0, 750, False),
        (1000, 4, 996, False),
        (1000, SAMPLE - 1, 1000 - SAMPLE, False),
        (1000, SAMPLE, 1000 - SAMPLE, True),
        # Most of the tiles that were asked are there.
        (1000, SAMPLE, 600, False),
        (1000, 300, 100, False),
    ],
)
def test_a_map_has_moved_where_most_of_its_tiles_that_were_asked_are_gone(
    known: int, gone: int, unasked: int, has_moved: bool
) -> None:
    assert Missing(known, gone, unasked).has_moved is has_moved


def test_the_line_fits_what_happened() -> None:
    missing = Missing(1000, 600)
    assert "the map has moved rather than vanished" in missing.in_words("m", 0)
    assert "put the new url into maps.toml" in missing.in_words("m", 0)
    anew = missing.in_words("m", 31)
    assert "and 31 tiles are there: the map was begun anew at its address" in anew
    assert "new url" not in anew


@pytest.mark.parametrize(
    ("counts", "known", "expected"),
    [
        ({Outcome.NOTHING: 4}, 0, True),
        ({}, 0, True),
        ({Outcome.NOTHING: 4}, 9, False),
        ({Outcome.NOTHING: 4, Outcome.ADDED: 1}, 0, False),
        ({Outcome.NOTHING: 4, Outcome.FAILED: 1}, 0, False),
    ],
)
def test_a_new_map_without_a_tile_is_empty(counts: dict[Outcome, int], known: int, expected: bool) -> None:
    assert is_empty(counts, known) is expected
