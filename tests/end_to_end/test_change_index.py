"""What a quiet day costs by a change index, and what follows if an index or unchanged tiles are wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.pruned_stage import (
    DAYS,
    HOUR,
    NOON,
    Stage,
    counts,
    drawn_site,
    latest,
    the_walk,
    walked,
)
from tests.servers.misbehaving import Misbehaving
from tests.servers.nginx import LogLine, nginx
from tests.servers.published import published

BY_INDEX: Final = "what its change index does not list is skipped"
NOTHING_CHANGED: Final = "its change index says that nothing has changed since"


def split(log: list[LogLine]) -> tuple[list[LogLine], list[LogLine]]:
    """The files of the site, and its tiles."""
    tiles = [line for line in log if line.path.endswith(".png")]
    return [line for line in log if line not in tiles], tiles


@pytest.mark.parametrize(
    ("name", "renderer", "version", "files"),
    [
        # robots.txt and config.js
        ("jgore43", "mapcrafter", 1, 2),
        # robots.txt, and a file of regions for each quarter of the world. Both settings.json are left out.
        ("labyrinthmc", "bluemap", 5, 5),
    ],
)
def test_a_quiet_day_of_any_map_with_an_index_costs_its_files_and_the_audit(
    name: str, renderer: str, version: int, files: int, project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    keys = {"layers": ["world"]} if renderer == "bluemap" else {}
    with nginx(published(shared_maps, name, version, tmp_path / "site")) as server:
        project.add_map(name, server.url, renderer=renderer, **keys)
        project.crawl(name, DAYS[0], spider=renderer)
        before = latest(project)
        server.clear_log()
        log = project.crawl(name, DAYS[1], spider=renderer).stderr
        asked, tiles = split(list(server.log()))
    assert len(asked) == files
    assert {line.status for line in asked} <= {304, 404}
    assert len(tiles) <= 0.02 * (2 * len(before) + 300) + 3
    assert all(NOTHING_CHANGED in walk.reason for walk in walked(log).values())
    assert latest(project) == before
    assert counts(project)["skip"] >= len(before) - len(tiles)


@pytest.mark.parametrize("has_index", [True, False])
def test_a_change_in_what_was_skipped_is_found_and_the_same_harvest_asks_everything(
    project: Project, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving], has_index: bool
) -> None:
    """One in each of two branches, and one where no tile was: the audit need not meet them all."""
    files = drawn_site(tmp_path / "site")
    if has_index:
        files.configure(last_rendertime=NOON)
    stage = Stage(files, misbehaving(files.folder), project)
    stage.describe(audit=1)
    stage.harvest(DAYS[0])
    assert stage.is_up_to_date
    for leaf in ("120", "300", "302"):
        if has_index:
            files.draw(leaf, NOON + 100 * HOUR)
        else:
            # Among these times a change does not show.
            files.draw_alone(leaf, NOON - HOUR)
    log = stage.harvest(DAYS[1])
    assert the_walk(log).is_pruned
    assert (BY_INDEX in log) is has_index
    wrong = "and its change index did not tell" if has_index else "below one that had not"
    (warning,) = [line for line in log.splitlines() if "] WARNING: layer" in line]
    assert f"had changed {wrong}" in warning
    assert "all of it is asked now" in warning
    assert stage.is_up_to_date
    assert project.harvests("small")[-1]["walk"] == "repaired"
    # Then all is asked, although nothing else may have changed.
    following = the_walk(stage.harvest(DAYS[2]))
    assert not following.is_pruned
    assert wrong in following.reason
