"""Pruned harvests of real maps: the history is that of full ones, for a part of the requests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.end_to_end.project import Project, RecordedVersion
from tests.end_to_end.pruned_stage import RARELY, Walked, counts, the_walk, twin
from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH, Harvested
from tests.servers.nginx import LogLine, Nginx
from tests.servers.published import published, truth

UNCHANGED_DAY: Final = "2021-05-13"
PRUNED: Final = {"audit": 0, "full_every": RARELY}
ZONE: Final = {"center": [80, 22], "width": 40, "height": 24, "zoom": 0}


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


def most_requests(changed_and_added: int, depth: int) -> float:
    """What the pruned walk may cost in a layer: a HEAD and a GET for each, half of one more for places beside
    that are empty, and the way down from the top."""
    return 2.5 * changed_and_added + 8 * depth


def test_every_version_leaves_the_history_of_a_full_harvest_for_requests_that_changes_bound(
    shared_maps: Path,
    antworld: list[Harvested],
    project: Project,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
) -> None:
    site = published(shared_maps, ANTWORLD, 1, tmp_path / "site")
    server = nginx(site)
    project.add_map(ANTWORLD, server.url, walk="pruned", **PRUNED)
    steps = []
    for one in antworld:
        published(shared_maps, ANTWORLD, one.version, site)
        steps.append(harvested(project, server, one.day))
        assert steps[-1].kept == (one.versions, one.stored)
        assert "skip" not in one.summary["counts"]
    for step, happened in zip(steps[1:], truth(shared_maps, ANTWORLD), strict=True):
        changes = sum(name.endswith(".png") for name in happened.changed | happened.added)
        assert step.way.is_pruned
        assert len(step.asked) <= most_requests(changes, ANTWORLD_DEPTH)
    quiet = harvested(project, server, UNCHANGED_DAY)
    assert quiet.way.is_pruned
    assert quiet.kept == steps[-1].kept


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        pytest.param(ANTWORLD, {"zooms": [-4, -2]}, id="zooms that leave out the deepest"),
        pytest.param(ANTWORLD, {"zooms": [-1, 0], "zones": [ZONE]}, id="deep zooms of a zone"),
        pytest.param("alexjj", {}, id="a map that has grown, under the names that stay"),
    ],
)
def test_what_is_not_kept_or_lies_elsewhere_now_is_remembered_for_the_walk(
    shared_maps: Path,
    project: Project,
    tmp_path: Path,
    nginx: Callable[..., Nginx],
    name: str,
    keys: dict[str, Any],
) -> None:
    """Two steps, one of them without changes, beside a full harvest of the same."""
    site = published(shared_maps, name, 1, tmp_path / "site")
    server = nginx(site)
    project.add_map(ANTWORLD, server.url, walk="pruned", **PRUNED, **keys)
    harvested(project, server, "2021-02-13")
    full = twin(project, server.url, ANTWORLD, tmp_path / "full", walk="full", **keys)
    published(shared_maps, name, 2, site)
    changed, expected = (harvested(one, server, "2021-02-16") for one in (project, full))
    assert changed.way.is_pruned
    assert changed.kept == expected.kept
    touched = sum(expected.counts.get(outcome, 0) for outcome in ("add", "upd", "nMod"))
    assert len(changed.asked) <= most_requests(touched, ANTWORLD_DEPTH)
    unchanged = harvested(project, server, UNCHANGED_DAY)
    assert unchanged.kept == changed.kept
    # Only where the walk starts, which is not the first level where a zone has deep zooms only.
    assert len({line.path.count("/") for line in unchanged.asked}) == 1
    # The first missing one is asked by GET as well: the host might refuse HEAD.
    assert len(unchanged.asked) <= (10 if "zones" in keys else 5)
