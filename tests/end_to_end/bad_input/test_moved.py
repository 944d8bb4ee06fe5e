"""Sites that have moved, and sites of which a part was deleted."""

import shutil

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    SECOND_DAY,
    THIRD_DAY,
    Stage,
    publish,
    visit,
)


def test_nothing_of_a_map_that_has_moved_is_gone_and_it_may_come_back(stage: Stage) -> None:
    """The site has its configuration only."""
    visit(stage.project, FIRST_DAY)
    before = stage.project.versions(), stage.project.stored()
    shutil.rmtree(stage.files.folder / LAYER)
    moved = visit(stage.project, SECOND_DAY)
    assert moved.status == 5
    assert "'small'" in moved.error
    assert "moved" in moved.error
    assert "put the new url into maps.toml" in moved.error
    assert "gone" not in moved.counts
    assert (stage.project.versions(), stage.project.stored()) == before
    assert [row["reason"] for row in stage.project.harvests("small")] == ["finished", "moved"]
    publish(stage.files.folder)
    done = visit(stage.project, THIRD_DAY)
    assert (done.status, done.counts) == (0, {"ign": 20})
    assert (stage.project.versions(), stage.project.stored()) == before


def test_a_new_map_without_a_tile_is_an_error_that_says_what_to_look_at(stage: Stage) -> None:
    shutil.rmtree(stage.files.folder / LAYER)
    done = visit(stage.project, FIRST_DAY)
    assert done.status == 5
    assert "map 'small' has no tile at all at the addresses that were asked, such as" in done.error
    publish(stage.files.folder)
    done = visit(stage.project, FIRST_DAY)
    assert (done.counts, done.said) == ({"add": 20}, "")
