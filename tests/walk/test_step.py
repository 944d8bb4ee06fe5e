"""What follows from one answer: what is remembered, skipped and doubted. And what an audit asks."""

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.block import bit_of, blocks_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator
from tileharvest.walk.walk import IN_FULL, LATE, ON_WALK, Asked, Audit, Mark, Walk, drawn, same_states

WALK = Walk(Pyramid(3))
TOP, DEEPEST = Tile(-2, 4, 4), Tile(0, 1, 1)
MORNING, NOON = "Sat, 13 Feb 2021 08:00:00 GMT", "Sat, 13 Feb 2021 12:00:00 GMT"
DATED = '"6027bf40-1e240"'
"""The ETag of nginx for a file of NOON."""
AS_IT_WAS, ANOTHER = Validator('"a"', NOON), Validator('"b"', NOON)
TRUSTED, DOUBTED = (('"a"', NOON), True), (('"a"', NOON), False)
"""Marks, each with whether it is trusted."""
AUDITED = Asked(late=True, audited=True)


class Step(NamedTuple):
    seen: Validator | None = None
    skips: bool = False
    doubts: bool = False


def step(
    outcome: Outcome,
    said: Validator,
    mark: tuple[Mark, bool] | None = TRUSTED,
    asked: Asked = ON_WALK,
    *,
    tile: Tile = TOP,
    walk: Walk = WALK,
    status: int = 200,
    is_pruned: bool = True,
) -> Step:
    (block,), bit = blocks_of("day", [tile]), bit_of(tile)
    marks, trusted = ({}, 0) if mark is None else ({bit: mark[0]}, mark[1] << bit)
    found, answers = {outcome: block.mask}, {bit: Answer(status, said)}
    seen, skips, doubts = walk.steps(block, found, answers, marks, trusted, asked, is_pruned=is_pruned)
    return Step(seen.get(bit), skips == block.mask, doubts == block.mask)


@pytest.mark.parametrize(
    ("outcome", "mark", "asked", "expected"),
    [
        (Outcome.IGNORED, TRUSTED, ON_WALK, Step(skips=True)),
        (Outcome.IGNORED, TRUSTED, LATE, Step(skips=True)),
        (Outcome.IGNORED, TRUSTED, AUDITED, Step(skips=True)),
        (Outcome.IGNORED, DOUBTED, ON_WALK, Step(seen=AS_IT_WAS)),
        (Outcome.IGNORED, DOUBTED, LATE, Step()),
        (Outcome.IGNORED, DOUBTED, AUDITED, Step(skips=True)),
        (Outcome.IGNORED, None, ON_WALK, Step(seen=AS_IT_WAS)),
        (Outcome.IGNORED, None, LATE, Step()),
        (Outcome.IGNORED, (('"b"', NOON), True), ON_WALK, Step(seen=AS_IT_WAS)),
        (Outcome.IGNORED, (('"a"', MORNING), True), LATE, Step(doubts=True)),
        (Outcome.UPDATED, TRUSTED, ON_WALK, Step(seen=ANOTHER)),
        (Outcome.UPDATED, TRUSTED, LATE, Step(doubts=True)),
        (Outcome.UPDATED, TRUSTED, AUDITED, Step(doubts=True)),
        (Outcome.UPDATED, None, LATE, Step()),
    ],
)
def test_what_an_answer_to_a_tile_that_is_there_leads_to(
    outcome: Outcome, mark: tuple[Mark, bool] | None, asked: Asked, expected: Step
) -> None:
    assert step(outcome, AS_IT_WAS if outcome is Outcome.IGNORED else ANOTHER, mark, asked) == expected


@pytest.mark.parametrize("outcome", [Outcome.NOTHING, Outcome.GONE])
@pytest.mark.parametrize("asked", [ON_WALK, LATE, IN_FULL])
def test_a_missing_tile_is_forgotten(outcome: Outcome, asked: Asked) -> None:
    assert step(outcome, AS_IT_WAS, TRUSTED, asked, status=404) == Step(seen=Validator())
    assert step(outcome, AS_IT_WAS, None, asked, status=404) == Step()


def test_a_full_walk_and_a_tile_with_nothing_below_it_skip_nothing() -> None:
    assert step(Outcome.IGNORED, AS_IT_WAS, is_pruned=False) == Step()
    assert step(Outcome.IGNORED, AS_IT_WAS, tile=DEEPEST) == Step()
    assert step(Outcome.IGNORED, AS_IT_WAS, walk=Walk(Pyramid(3), (-2, -2))) == Step()


def test_a_late_answer_about_a_tile_with_nothing_below_it_is_remembered() -> None:
    assert step(Outcome.UPDATED, ANOTHER, TRUSTED, LATE, tile=DEEPEST) == Step(seen=ANOTHER)


def test_the_date_that_an_answer_leaves_out_stays_remembered() -> None:
    said = Validator(DATED)
    assert step(Outcome.IGNORED, said, ((DATED, NOON), False)) == Step(seen=Validator(DATED, NOON))


@pytest.mark.parametrize(("status", "skips"), [(200, True), (304, False)])
def test_a_tile_without_an_etag_skips_only_where_its_size_was_compared(status: int, skips: bool) -> None:
    dated, mark = Validator(None, NOON), ((None, NOON), True)
    assert step(Outcome.IGNORED, dated, mark, status=status).skips is skips
    assert not step(Outcome.IGNORED, dated, mark, status=status, walk=Walk(Pyramid(3), (0, 0))).skips


def test_an_audit_draws_from_all_kept_places_below_what_was_skipped_also_from_the_empty_ones() -> None:
    known = [Tile(-1, 2, 2), Tile(0, 1, 1)]
    audit = WALK.audit(blocks_of("", known), blocks_of("", [TOP]), 1.0, "seed")
    assert set(audit.tiles) == {*TOP.children(), *Tile(-1, 2, 2).children()}
    assert audit.known == set(known)
    # Where the parent of a tile is not kept, from the places beside the tile.
    audit = Walk(Pyramid(3), (0, 0)).audit(blocks_of("", known[1:]), blocks_of("", [TOP]), 1.0, "seed")
    assert set(audit.tiles) == set(Tile(-1, 2, 2).children())


def test_an_audit_asks_three_known_tiles_however_many_places_are_empty() -> None:
    known = list(WALK.pyramid.range_at(-1))[:12]
    for number in range(30):
        audit = WALK.audit(blocks_of("", known), (), 0.02, str(number), is_of_index=True)
        assert len(audit.known) >= 3


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
    assert same_states({5: mark}, {5: Answer(200, Validator(*seen))}) == is_same << 5


def test_how_what_lies_below_is_asked() -> None:
    ways = (ON_WALK, LATE, Asked(late=True, in_full=True))
    assert [asked.below for asked in ways] == [ON_WALK, ON_WALK, IN_FULL]


PLACES = sorted(child for tile in Tile(-1, 2, 2).ancestor(2).children() for child in tile.children())
BLOCKS = blocks_of("", PLACES)


@pytest.mark.parametrize(
    ("share", "least", "number"),
    [(0.02, 0, 1), (0.25, 0, 4), (0.26, 0, 5), (0.02, 5, 5), (0.02, 99, 16), (0, 0, 0)],
)
def test_audit_draws_the_share_rounded_up_but_the_least_number_and_at_most_all(share, least, number):
    assert len(set(drawn(BLOCKS, share, least, "1"))) == number


@given(st.permutations(PLACES), st.text(max_size=5))
def test_audit_draws_the_same_tiles_in_whatever_order_they_come(places, seed):
    assert drawn(blocks_of("", places), 0.25, 0, seed) == drawn(BLOCKS, 0.25, 0, seed)


def test_audit_draws_each_tile_equally_often_over_many_harvests():
    often = Counter(tile for number in range(4000) for tile in drawn(BLOCKS, 0.25, 0, str(number)))
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
