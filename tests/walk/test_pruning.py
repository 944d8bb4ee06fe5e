"""The rules of the pruned walk, each by itself; what they are worth together is in test_pruned_walk.py."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.end_to_end.rendering import Rendering
from tests.servers.published import published
from tileharvest.tiles.grid import Tile, first_level, tile_at
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator
from tileharvest.walk.pruning import (
    Mark,
    Proof,
    Wish,
    audited,
    breaks_law,
    decide,
    doubts,
    may_skip,
    prove,
    remembers,
)

if TYPE_CHECKING:
    from pathlib import Path

MORNING = "Sat, 13 Feb 2021 08:00:00 GMT"
NOON = "Sat, 13 Feb 2021 12:00:00 GMT"
SAME = Validator('"a"', NOON)
TRUSTED = Mark('"a"', NOON, is_trusted=True)
DOUBTED = Mark('"a"', NOON, is_trusted=False)
PARENT = Tile(-1, 2, 2)
CHILD, *OTHERS = PARENT.children()
PROVED = Proof(pairs=400, broken=0, undated=0, span=86400.0)
TODAY = date(2021, 2, 20)


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
    assert remembers(Mark(etag, NOON, is_trusted=True), Validator(etag)) is None
    assert remembers(Mark(etag, NOON, is_trusted=False), Validator(etag)) == Validator(etag, NOON)


@pytest.mark.parametrize(("mark", "may"), [(TRUSTED, True), (DOUBTED, False), (None, False)])
def test_only_below_a_trusted_tile_may_be_skipped(mark, may):
    assert may_skip(mark, SAME) is may


@pytest.mark.parametrize("mark", [DOUBTED, None, Mark('"a"', MORNING, is_trusted=True)])
def test_what_is_new_or_not_trusted_yet_is_remembered(mark):
    assert remembers(mark, SAME) == SAME


def test_nothing_is_recorded_of_a_trusted_tile_that_is_unchanged():
    assert remembers(TRUSTED, SAME) is None


@pytest.mark.parametrize("mark", [DOUBTED, None, Mark('"b"', MORNING, is_trusted=True)])
def test_answer_that_may_be_younger_than_what_was_found_below_is_not_remembered(mark):
    assert remembers(mark, SAME, is_on_walk=False) is None


@pytest.mark.parametrize(
    ("mark", "is_doubted"), [(TRUSTED, False), (Mark('"b"', MORNING, is_trusted=True), True), (None, False)]
)
def test_what_is_remembered_is_doubted_by_an_answer_of_another_state(mark, is_doubted):
    assert doubts(mark, SAME) is is_doubted
    assert not doubts(mark, Validator())


@pytest.mark.parametrize("is_on_walk", [True, False])
def test_missing_tile_is_forgotten(is_on_walk):
    assert remembers(TRUSTED, Validator(), is_on_walk=is_on_walk) == Validator()


@pytest.mark.parametrize("mark", [None, Mark(None, None, is_trusted=False)])
def test_nothing_is_recorded_of_a_missing_tile_of_which_nothing_was_known(mark):
    assert remembers(mark, Validator()) is None


def of_published(folder: Path, depth: int) -> tuple[dict[Tile, str], int]:
    """Last-Modified of each tile's file as nginx would write it, and how many tiles lie below another one."""
    rendering = Rendering(folder, depth)
    paths = rendering.paths()
    times = {
        tile_at(path, depth): formatdate(int(rendering.file(path).stat().st_mtime), usegmt=True)
        for path in paths
    }
    return times, sum(path.rpartition("/")[0] in paths for path in paths)


@pytest.mark.parametrize(
    ("name", "version", "depth"),
    [("antworld", 2, 7), ("antworld", 3, 7), ("antworld", 4, 7), ("alexjj", 2, 6)],
)
def test_real_maps_of_more_than_one_render_are_a_proof(shared_maps, tmp_path, name, version, depth):
    times, pairs = of_published(published(shared_maps, name, version, tmp_path), depth)
    proof = prove(times)
    assert (proof.pairs, proof.broken, proof.undated) == (pairs, 0, 0)
    assert proof.holds


@pytest.mark.parametrize(("version", "is_uploaded_anew"), [(1, False), (4, True)])
def test_real_map_whose_files_are_all_of_one_time_is_none(shared_maps, tmp_path, version, is_uploaded_anew):
    folder = published(shared_maps, "antworld", version, tmp_path, deploy=is_uploaded_anew)
    times, pairs = of_published(folder, 7)
    proof = prove(times)
    assert proof.pairs == pairs
    assert not proof.holds
    assert proof.span < 600


def test_child_that_is_newer_than_its_parent_breaks_the_proof():
    proof = prove({PARENT: MORNING, CHILD: NOON, OTHERS[0]: MORNING})
    assert proof == Proof(pairs=2, broken=1, undated=0, span=4 * 3600.0)
    assert not proof.holds


@pytest.mark.parametrize("text", [None, "", "yesterday", "Sat, 99 Feb 2021 12:00:00 GMT", "0"])
def test_tile_without_a_date_that_can_be_read_spoils_the_proof(text):
    proof = prove({PARENT: NOON, CHILD: MORNING, OTHERS[0]: text})
    assert proof == Proof(pairs=1, broken=0, undated=1, span=4 * 3600.0)
    assert not proof.holds


@pytest.mark.parametrize("text", ["Saturday, 13-Feb-21 12:00:00 GMT", "Sat Feb 13 12:00:00 2021", NOON])
def test_dates_are_read_in_each_of_the_forms_that_servers_may_write(text):
    """RFC 9110, section 5.6.7."""
    assert prove({PARENT: text, CHILD: MORNING}).span == 4 * 3600.0


def test_nothing_is_proved_where_no_tile_is_known_with_the_one_above_it():
    assert not prove({}).holds
    assert not prove(dict(zip(first_level(5), [MORNING, NOON, NOON, NOON], strict=True))).holds


@pytest.mark.parametrize(("span", "holds"), [(599.0, False), (600.0, True)])
def test_times_within_ten_minutes_are_those_of_one_upload(span, holds):
    assert Proof(pairs=9, broken=0, undated=0, span=span).holds is holds


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (PROVED, "none of 400 tiles changed after the one above it, in 24 hours"),
        (Proof(400, 7, 0, 86400.0), "of 400 tiles below another one 7 changed after that one"),
        (Proof(400, 7, 1, 86400.0), "the site does not say when 1 tile changed"),
        (Proof(400, 0, 0, 240.0), "all tiles changed within 4 minutes, as in one upload"),
        (Proof(0, 0, 0, 0.0), "no tile is known together with the one above it"),
    ],
)
def test_proof_says_in_one_line_why_it_holds_or_does_not(proof, words):
    assert proof.in_words == words


@pytest.mark.parametrize(
    ("wish", "proof", "withdrawn", "days", "is_pruned"),
    [
        (Wish.AUTO, PROVED, None, 1, True),
        (Wish.AUTO, PROVED, None, 0, True),
        (Wish.AUTO, PROVED, None, 6, True),
        (Wish.AUTO, PROVED, None, 7, False),
        (Wish.AUTO, PROVED, None, None, False),
        (Wish.AUTO, PROVED, None, -1, False),
        (Wish.AUTO, PROVED, "a tile had changed", 1, False),
        (Wish.AUTO, Proof(400, 1, 0, 86400.0), None, 1, False),
        (Wish.AUTO, None, None, 1, False),
        (Wish.PRUNED, None, None, 1, True),
        (Wish.PRUNED, Proof(400, 1, 0, 86400.0), None, 1, True),
        (Wish.PRUNED, PROVED, "a tile had changed", 1, False),
        (Wish.PRUNED, PROVED, None, 7, False),
        (Wish.PRUNED, PROVED, None, None, False),
        (Wish.FULL, PROVED, None, 1, False),
    ],
)
def test_walk_is_pruned_only_as_wished_and_proved_and_for_some_days(wish, proof, withdrawn, days, is_pruned):
    last_full = None if days is None else TODAY - timedelta(days=days)
    assert decide(wish, proof, withdrawn, last_full, TODAY, 7).is_pruned is is_pruned


def test_decision_tells_what_was_found_wrong():
    decision = decide(Wish.AUTO, PROVED, "tile 0_1_1 had changed", TODAY, TODAY, 7)
    assert "tile 0_1_1 had changed" in decision.reason


PLACES = sorted(child for tile in PARENT.ancestor(2).children() for child in tile.children())


@pytest.mark.parametrize(
    ("share", "least", "count"),
    [(0.02, 0, 1), (0.25, 0, 4), (0.26, 0, 5), (0.02, 5, 5), (0.02, 99, 16), (0, 0, 0)],
)
def test_audit_draws_the_share_rounded_up_but_the_least_number_and_no_more_than_there_are(
    share, least, count
):
    assert len(set(audited(PLACES, share, least, "1"))) == count


@given(st.permutations(PLACES), st.text(max_size=5))
def test_audit_draws_the_same_tiles_in_whatever_order_they_come(places, seed):
    assert set(audited(places, 0.25, 0, seed)) == set(audited(PLACES, 0.25, 0, seed))


def test_audit_draws_each_tile_equally_often_over_many_harvests():
    drawn = Counter(tile for number in range(4000) for tile in audited(PLACES, 0.25, 0, str(number)))
    # 1,000 each are expected, with a standard deviation of 27.
    assert all(850 < drawn[tile] < 1150 for tile in PLACES)


@pytest.mark.parametrize("outcome", Outcome)
def test_anything_new_about_a_known_tile_breaks_the_law(outcome):
    assert breaks_law(outcome) is (outcome not in {Outcome.IGNORED, Outcome.FAILED})


@pytest.mark.parametrize("outcome", [Outcome.ADDED, Outcome.IGNORED])
def test_tile_where_none_was_known_breaks_the_law(outcome):
    assert breaks_law(outcome, is_known=False)


@pytest.mark.parametrize("outcome", [Outcome.NOTHING, Outcome.FAILED])
def test_place_that_is_as_empty_as_before_does_not_break_the_law(outcome):
    assert not breaks_law(outcome, is_known=False)
