"""What the times of tiles prove, for published maps and for made-up ones."""

from datetime import date

import pytest

from tests.walk.dated import dated
from tileharvest.tiles.grid import Tile, first_level
from tileharvest.walk.proof import Proof, prove

MORNING, NOON = "Sat, 13 Feb 2021 08:00:00 GMT", "Sat, 13 Feb 2021 12:00:00 GMT"
PARENT = Tile(-1, 2, 2)
CHILD, *OTHERS = PARENT.children()
DAY = date(2021, 2, 13)
FOUR_HOURS = 4 * 3600.0


@pytest.mark.parametrize(
    ("times", "proof"),
    [
        ({PARENT: MORNING, CHILD: NOON, OTHERS[0]: MORNING}, Proof(DAY, 2, 1, 0, FOUR_HOURS)),
        *(
            ({PARENT: NOON, CHILD: MORNING, OTHERS[0]: text}, Proof(DAY, 1, 0, 1, FOUR_HOURS))
            for text in (None, "", "yesterday", "Sat, 99 Feb 2021 12:00:00 GMT", "0")
        ),
        # Dates have three forms (RFC 9110, section 5.6.7).
        *(
            ({PARENT: text, CHILD: MORNING}, Proof(DAY, 1, 0, 0, FOUR_HOURS))
            for text in ("Saturday, 13-Feb-21 12:00:00 GMT", "Sat Feb 13 12:00:00 2021", NOON)
        ),
        ({}, Proof(DAY, 0, 0, 0, 0.0)),
        (dict.fromkeys(first_level(5), NOON) | {first_level(5)[0]: MORNING}, Proof(DAY, 0, 0, 0, FOUR_HOURS)),
    ],
)
def test_what_the_times_of_tiles_prove(times: dict[Tile, str | None], proof: Proof) -> None:
    assert prove(dated(times), DAY) == proof
    assert proof.holds is (proof.pairs > 0 and not proof.broken and not proof.undated)


@pytest.mark.parametrize(
    ("proof", "words", "holds"),
    [
        (
            Proof(DAY, 400, 0, 0, 86400.0),
            "none of 400 tiles changed after the one above it, in 24 hours",
            True,
        ),
        (Proof(DAY, 400, 7, 0, 86400.0), "of 400 tiles below another one 7 changed after that one", False),
        (Proof(DAY, 400, 7, 1, 86400.0), "the site does not say when 1 tile changed", False),
        (Proof(DAY, 400, 0, 0, 599.0), "all tiles changed within 10 minutes, as in one upload", False),
        (Proof(DAY, 0, 0, 0, 0.0), "no tile is known together with the one above it", False),
    ],
)
def test_proof_says_in_one_line_why_it_holds_or_does_not(proof: Proof, words: str, holds: bool) -> None:
    assert (proof.in_words, proof.holds) == (words, holds)
