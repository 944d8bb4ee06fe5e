"""What the times of tiles prove, for published maps and for made-up ones."""

from __future__ import annotations

from datetime import date
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.rendering import Rendering
from tests.servers.published import published
from tests.walk.dated import dated
from tileharvest.tiles.grid import Tile, first_level, tile_at
from tileharvest.walk.proof import Proof, prove

if TYPE_CHECKING:
    from pathlib import Path

MORNING = "Sat, 13 Feb 2021 08:00:00 GMT"
NOON = "Sat, 13 Feb 2021 12:00:00 GMT"
PARENT = Tile(-1, 2, 2)
CHILD, *OTHERS = PARENT.children()
DAY = date(2021, 2, 13)
PROVED = Proof(DAY, pairs=400, broken=0, undated=0, span=86400.0)


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
    proof = prove(dated(times), DAY)
    assert (proof.pairs, proof.broken, proof.undated) == (pairs, 0, 0)
    assert proof.holds


@pytest.mark.parametrize(("version", "is_uploaded_anew"), [(1, False), (4, True)])
def test_real_map_whose_files_are_all_of_one_time_is_none(shared_maps, tmp_path, version, is_uploaded_anew):
    folder = published(shared_maps, "antworld", version, tmp_path, deploy=is_uploaded_anew)
    times, pairs = of_published(folder, 7)
    proof = prove(dated(times), DAY)
    assert proof.pairs == pairs
    assert not proof.holds
    assert proof.span < 600


def test_child_that_is_newer_than_its_parent_breaks_the_proof():
    proof = prove(dated({PARENT: MORNING, CHILD: NOON, OTHERS[0]: MORNING}), DAY)
    assert proof == Proof(DAY, pairs=2, broken=1, undated=0, span=4 * 3600.0)
    assert not proof.holds


@pytest.mark.parametrize("text", [None, "", "yesterday", "Sat, 99 Feb 2021 12:00:00 GMT", "0"])
def test_tile_without_a_date_that_can_be_read_spoils_the_proof(text):
    proof = prove(dated({PARENT: NOON, CHILD: MORNING, OTHERS[0]: text}), DAY)
    assert proof == Proof(DAY, pairs=1, broken=0, undated=1, span=4 * 3600.0)
    assert not proof.holds


@pytest.mark.parametrize("text", ["Saturday, 13-Feb-21 12:00:00 GMT", "Sat Feb 13 12:00:00 2021", NOON])
def test_dates_are_read_in_each_of_the_forms_that_servers_may_write(text):
    """RFC 9110, section 5.6.7."""
    assert prove(dated({PARENT: text, CHILD: MORNING}), DAY).span == 4 * 3600.0


def test_nothing_is_proved_where_no_tile_is_known_with_the_one_above_it():
    assert not prove([], DAY).holds
    assert not prove(dated(dict(zip(first_level(5), [MORNING, NOON, NOON, NOON], strict=True))), DAY).holds


@pytest.mark.parametrize(("span", "holds"), [(599.0, False), (600.0, True)])
def test_times_within_ten_minutes_are_those_of_one_upload(span, holds):
    assert Proof(DAY, pairs=9, broken=0, undated=0, span=span).holds is holds


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (PROVED, "none of 400 tiles changed after the one above it, in 24 hours"),
        (Proof(DAY, 400, 7, 0, 86400.0), "of 400 tiles below another one 7 changed after that one"),
        (Proof(DAY, 400, 7, 1, 86400.0), "the site does not say when 1 tile changed"),
        (Proof(DAY, 400, 0, 0, 240.0), "all tiles changed within 4 minutes, as in one upload"),
        (Proof(DAY, 0, 0, 0, 0.0), "no tile is known together with the one above it"),
    ],
)
def test_proof_says_in_one_line_why_it_holds_or_does_not(proof, words):
    assert proof.in_words == words
