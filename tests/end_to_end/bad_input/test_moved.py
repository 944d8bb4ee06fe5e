"""Sites that have moved, and sites of which a part was deleted."""

from __future__ import annotations

import shutil
from typing import NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    SECOND_DAY,
    THIRD_DAY,
    Stage,
    Visit,
    publish,
    versions,
    visit,
)


class Recorded(NamedTuple):
    """The versions and images, which must not change when a map has moved."""

    versions: set[tuple[str, ...]]
    stored: dict[str, bytes]


def recorded(stage: Stage) -> Recorded:
    return Recorded({tuple(map(str, row)) for row in stage.project.versions()}, stage.project.stored())


class Days(NamedTuple):
    before: Recorded
    moved: Visit
    after: Recorded


@pytest.fixture(scope="module")
def days(shared_stage: Stage) -> Days:
    """A harvest of all tiles, and one of a site that has its configuration only."""
    visit(shared_stage.project, FIRST_DAY)
    before = recorded(shared_stage)
    shutil.rmtree(shared_stage.files.folder / LAYER)
    return Days(before, visit(shared_stage.project, SECOND_DAY), recorded(shared_stage))


def test_a_map_that_has_moved_is_said_in_one_line_with_what_to_do(days: Days) -> None:
    assert days.moved.status == 5
    assert "'small'" in days.moved.error
    assert "moved" in days.moved.error
    assert "put the new url into maps.toml" in days.moved.error


def test_nothing_of_a_map_that_has_moved_is_gone(days: Days) -> None:
    assert days.after == days.before
    assert "gone" not in days.moved.counts


def test_the_harvest_is_recorded_as_moved(days: Days, shared_stage: Stage) -> None:
    assert [row["reason"] for row in shared_stage.project.harvests("small")] == ["finished", "moved"]


def test_when_the_site_is_back_nothing_has_changed(days: Days, shared_stage: Stage) -> None:
    publish(shared_stage.files.folder)
    done = visit(shared_stage.project, THIRD_DAY)
    assert (done.status, done.counts) == (0, {"ign": 20})
    assert recorded(shared_stage) == days.before


def test_a_map_whose_configuration_has_moved_too_is_one_line_with_what_to_do(stage: Stage) -> None:
    visit(stage.project, FIRST_DAY)
    before = recorded(stage)
    shutil.rmtree(stage.files.folder)
    done = visit(stage.project, SECOND_DAY)
    assert done.status == 5
    assert "overviewerConfig.js" in done.error
    assert "put the right url into maps.toml" in done.error
    assert recorded(stage) == before


def test_a_map_without_configuration_that_has_moved_is_one_line_too(stage: Stage) -> None:
    """Its layers are named in maps.toml, so its depth would be found by asking for tiles. There are none."""
    stage.project.maps_file.unlink()
    stage.project.add_map("small", f"{stage.site.url}/", layers=[LAYER])
    visit(stage.project, FIRST_DAY)
    before = recorded(stage)
    shutil.rmtree(stage.files.folder)
    done = visit(stage.project, SECOND_DAY)
    assert done.status == 5
    assert "moved" in done.error
    assert "put the right url into maps.toml" in done.error
    assert recorded(stage) == before


def test_half_of_the_tiles_can_be_gone(stage: Stage) -> None:
    visit(stage.project, FIRST_DAY)
    stage.files.remove("0", "00", "01", "02", "03", "1", "10", "11", "12", "13")
    done = visit(stage.project, SECOND_DAY)
    assert (done.status, done.counts) == (0, {"ign": 10, "gone": 10})
    assert [row[:2] for row in versions(stage.project, "13")] == [
        (FIRST_DAY, versions(stage.project, "13")[0][1]),
        (SECOND_DAY, None),
    ]


def test_one_more_than_half_cannot(stage: Stage) -> None:
    visit(stage.project, FIRST_DAY)
    before = recorded(stage)
    stage.files.remove("0", "00", "01", "02", "03", "1", "10", "11", "12", "13", "20")
    done = visit(stage.project, SECOND_DAY)
    assert done.status == 5
    assert "and 9 tiles are there: the map was begun anew at its address" in done.error
    assert recorded(stage) == before


def test_a_new_map_without_a_tile_is_an_error_that_says_what_to_look_at(stage: Stage) -> None:
    shutil.rmtree(stage.files.folder / LAYER)
    done = visit(stage.project, FIRST_DAY)
    assert done.status == 5
    assert "map 'small' has no tile at all at the addresses that were asked, such as" in done.error
    publish(stage.files.folder)
    done = visit(stage.project, FIRST_DAY)
    assert (done.counts, done.said) == ({"add": 20}, "")
