"""Pruned harvests of real maps: the history is that of full ones, for a part of the requests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    SECOND_DAY,
    THIRD_DAY,
    Stage,
    configuration,
    drawn,
)
from tests.end_to_end.project import LayerTile, Project, RecordedVersion
from tests.end_to_end.pruned_stage import RARELY, Walked, counts, the_walk, walked
from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH
from tests.servers.nginx import LogLine, Nginx
from tests.servers.published import published

NOTHING_CHANGED: Final = "its change index says that nothing has changed since"
PRUNED: Final = {"audit": 0, "full_every": RARELY}
ZONE: Final = {"center": [80, 22], "width": 40, "height": 24, "zoom": 0}


def latest(project: Project) -> dict[LayerTile, bytes]:
    """The tiles that the history takes for present, with their bytes."""
    stored, found = project.stored(), {}
    for version in sorted(project.versions(), key=lambda version: version.day):
        if version.sha1 is None:
            found.pop(version.tile, None)
        else:
            found[version.tile] = stored[f"{version.sha1[:2]}/{version.sha1}.{version.extension}"]
    return found


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
    name: str,
    renderer: str,
    version: int,
    files: int,
    project: Project,
    shared_maps: Path,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
) -> None:
    keys = {"layers": ["world"]} if renderer == "bluemap" else {}
    server = nginx(published(shared_maps, name, version, tmp_path / "site"))
    project.add_map(name, server.url, renderer=renderer, **keys)
    project.crawl(name, FIRST_DAY, spider=renderer)
    before = latest(project)
    server.clear_log()
    log = project.crawl(name, SECOND_DAY, spider=renderer).stderr
    asked = list(server.log())
    tiles = [line for line in asked if line.path.endswith(".png")]
    assert len(asked) - len(tiles) == files
    assert {line.status for line in asked if line not in tiles} <= {304, 404}
    assert len(tiles) <= 0.02 * (2 * len(before) + 300) + 3
    assert all(NOTHING_CHANGED in walk.reason for walk in walked(log).values())
    assert latest(project) == before
    assert counts(project)["skip"] >= len(before) - len(tiles)


@pytest.mark.parametrize("has_index", [True, False])
def test_a_change_in_what_was_skipped_is_found_and_the_same_harvest_asks_everything(
    stage: Stage, has_index: bool
) -> None:
    """In two branches: the audit need not meet them both."""
    stage.describe(walk="auto" if has_index else "pruned", audit=1)
    if has_index:
        said = configuration().replace('"isOverlay"', '"last_rendertime": 1714500000, "isOverlay"')
        (stage.files.folder / "overviewerConfig.js").write_text(said, encoding="utf-8")

    def harvest(day: str) -> str:
        """Returns the log. Afterwards the history has what the site has, and nothing else."""
        log = stage.project.crawl("small", day).stderr
        assert latest(stage.project) == stage.files.images()
        return log

    harvest(FIRST_DAY)
    for leaf in ("00", "31"):
        stage.files.write(leaf, drawn("changed"))
    log = harvest(SECOND_DAY)
    assert the_walk(log).is_pruned
    (warning,) = [line for line in log.splitlines() if "] WARNING: layer" in line]
    wrong = "and its change index did not tell" if has_index else "below one that had not"
    assert f"had changed {wrong}" in warning
    assert "all of it is asked now" in warning
    assert stage.project.harvests("small")[-1]["walk"] == "repaired"
    # Then all is asked, although nothing else may have changed.
    following = the_walk(harvest(THIRD_DAY))
    assert not following.is_pruned
    assert wrong in following.reason


class Step(NamedTuple):
    """A harvest, and what was there when it had ended."""

    way: Walked
    asked: list[LogLine]
    """The requests for tiles."""
    kept: tuple[set[RecordedVersion], dict[str, bytes]]
    """The versions and the images."""
    counts: dict[str, int]


def harvested(project: Project, server: Nginx, day: str) -> Step:
    server.clear_log()
    way = the_walk(project.crawl(ANTWORLD, day).stderr)
    asked = [line for line in server.log() if line.path.endswith(".png")]
    return Step(way, asked, (project.versions(), project.stored()), counts(project))


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        pytest.param(ANTWORLD, {}, id="all zooms"),
        pytest.param(ANTWORLD, {"zooms": [-4, -2]}, id="zooms that leave out the deepest"),
        pytest.param(ANTWORLD, {"zooms": [-1, 0], "zones": [ZONE]}, id="deep zooms of a zone"),
        pytest.param("alexjj", {}, id="a map that has grown, under the names that stay"),
    ],
)
def test_a_pruned_harvest_leaves_the_history_of_a_full_one_for_requests_that_changes_bound(
    shared_maps: Path,
    project: Project,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
    name: str,
    keys: dict[str, Any],
) -> None:
    """Two steps, one of them without changes, beside a full harvest of the same."""
    site = published(shared_maps, name, 1, tmp_path / "site")
    server, full = nginx(site), Project(tmp_path / "full")
    project.add_map(ANTWORLD, server.url, walk="pruned", **PRUNED, **keys)
    harvested(project, server, "2021-02-13")
    full.folder.mkdir()
    full.adopt(project.data)
    full.add_map(ANTWORLD, server.url, walk="full", **keys)
    published(shared_maps, name, 2, site)
    changed, expected = (harvested(one, server, "2021-02-16") for one in (project, full))
    assert changed.way.is_pruned
    assert changed.kept == expected.kept
    touched = sum(expected.counts.get(outcome, 0) for outcome in ("add", "upd", "nMod"))
    # A HEAD and a GET for each, half of one more for empty places beside, and the way down from the top.
    assert len(changed.asked) <= 2.5 * touched + 8 * ANTWORLD_DEPTH
    unchanged = harvested(project, server, "2021-05-13")
    assert unchanged.kept == changed.kept
    # Only where the walk starts, which is not the first level where a zone has deep zooms only.
    assert len({line.path.count("/") for line in unchanged.asked}) == 1
    # A missing one of a block in which nothing was ever seen is asked by GET as well: HEAD might be refused.
    assert len(unchanged.asked) <= (10 if "zones" in keys else 5)
