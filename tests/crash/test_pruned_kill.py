"""A pruned harvest that was killed and never continued makes no later harvest miss a change."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.crash.soundness import assert_sound
from tests.end_to_end.project import Project, answered, await_condition
from tests.end_to_end.pruned_stage import RARELY, the_walk
from tests.end_to_end.real_maps import ANTWORLD, Harvested
from tests.servers.nginx import Nginx
from tests.servers.published import published

NEXT_DAY: Final = "2021-05-13"
MOMENT: Final = 60
"""The requests before the kill. The pruned harvest makes 148, with those for the site's configuration."""


def test_a_change_after_a_harvest_that_was_killed_and_never_continued_is_found(
    shared_maps: Path,
    antworld: list[Harvested],
    project: Project,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
) -> None:
    """A tile is not trusted if the killed harvest has asked for it and not for all tiles below it."""
    server = nginx(published(shared_maps, ANTWORLD, 4, tmp_path / "site"))
    before, undisturbed = antworld[2], antworld[3]
    project.adopt(before.data)
    # With eight requests on the way, a kill cuts off more than one tile.
    project.add_map(ANTWORLD, server.url, walk="pruned", full_every=RARELY, concurrency=8)
    with project.running(
        "crawl", "overviewer", "-a", f"map={ANTWORLD}", "-a", f"day={undisturbed.day}"
    ) as run:
        assert await_condition(lambda: answered(server) >= MOMENT, run)
        run.kill()
        run.wait()
    assert_sound(project)
    assert the_walk(project.crawl(ANTWORLD, NEXT_DAY).stderr).is_pruned
    days = {undisturbed.day, NEXT_DAY}
    found, expected = project.versions(), undisturbed.versions
    assert {(one.tile, one.sha1) for one in found if one.day in days} == {
        (one.tile, one.sha1) for one in expected if one.day == undisturbed.day
    }
    assert {one for one in found if one.day not in days} == {one for one in expected if one.day not in days}
