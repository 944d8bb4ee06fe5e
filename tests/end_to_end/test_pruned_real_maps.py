"""Pruned harvests of real maps: the history is that of full ones, for a part of the requests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.end_to_end.project import Project, RecordedVersion
from tests.end_to_end.pruned_stage import RARELY, Walked, counts, the_walk, twin
from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH, Harvested
from tests.servers.nginx import LogLine, Nginx, nginx
from tests.servers.published import published, truth

UNCHANGED_DAY: Final = "2021-05-13"
PRUNED: Final = {"audit": 0, "full_every": RARELY}
ZONE: Final = {"center": [80, 22], "width": 40, "height": 24, "zoom": 0}


class Step(NamedTuple):
    """A harvest, and what was there when it had ended."""

    way: Walked
    log: list[LogLine]
    versions: set[RecordedVersion]
    stored: dict[str, bytes]
    counts: dict[str, int]

    @property
    def tile_requests(self) -> list[LogLine]:
        return of_tiles(self.log)


def of_tiles(log: list[LogLine]) -> list[LogLine]:
    return [line for line in log if line.path.endswith(".png")]


def harvested(project: Project, server: Nginx, day: str) -> Step:
    server.clear_log()
    way = the_walk(project.crawl(ANTWORLD, day).stderr)
    return Step(way, list(server.log()), project.versions(), project.stored(), counts(project))


def most_requests(changed_and_added: int, depth: int) -> float:
    """What the pruned walk may cost in a layer: a HEAD and a GET for each, half of one more for places beside
    that are empty, and the way down from the top."""
    return 2.5 * changed_and_added + 8 * depth


@pytest.fixture(scope="module")
def steps(
    shared_maps: Path, antworld: list[Harvested], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Step]]:
    """All versions in turn, then a day on which nothing has changed."""
    folder = tmp_path_factory.mktemp("pruned")
    project, site = Project(folder), published(shared_maps, ANTWORLD, 1, folder / "site")
    with nginx(site) as server:
        project.add_map(ANTWORLD, server.url, walk="pruned", **PRUNED)
        found = []
        for one in antworld:
            published(shared_maps, ANTWORLD, one.version, site)
            found.append(harvested(project, server, one.day))
        yield [*found, harvested(project, server, UNCHANGED_DAY)]


def test_every_version_leaves_the_history_and_the_images_of_a_full_harvest(
    steps: list[Step], antworld: list[Harvested]
) -> None:
    assert not any("skip" in one.summary["counts"] for one in antworld)
    for step, full in zip(steps, [*antworld, antworld[-1]], strict=True):
        assert step.versions == full.versions
        assert step.stored == full.stored
    assert [step.way.is_pruned for step in steps] == [False, True, True, True, True]


def test_requests_are_bounded_by_what_changed(steps: list[Step], shared_maps: Path) -> None:
    for step, happened in zip(steps[1:4], truth(shared_maps, ANTWORLD), strict=True):
        changes = sum(name.endswith(".png") for name in happened.changed | happened.added)
        assert len(step.tile_requests) <= most_requests(changes, ANTWORLD_DEPTH)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"zooms": [-4, -2]}, id="zooms that leave out the deepest"),
        pytest.param({"zooms": [-1, 0], "zones": [ZONE]}, id="deep zooms of a zone"),
    ],
)
def test_what_is_not_kept_is_remembered_for_the_walk(
    shared_maps: Path, project: Project, tmp_path: Path, nginx: Callable[..., Nginx], keys: dict[str, object]
) -> None:
    """Two steps, one of them without changes, beside a full harvest of the same."""
    site = published(shared_maps, ANTWORLD, 1, tmp_path / "site")
    server = nginx(site)
    project.add_map(ANTWORLD, server.url, walk="pruned", **PRUNED, **keys)
    harvested(project, server, "2021-02-13")
    full = twin(project, server.url, ANTWORLD, tmp_path / "full", walk="full", **keys)
    published(shared_maps, ANTWORLD, 2, site)
    changed, expected = (harvested(one, server, "2021-02-16") for one in (project, full))
    assert (changed.versions, changed.stored) == (expected.versions, expected.stored)
    assert changed.way.is_pruned
    assert changed.counts["skip"] > 0
    assert len(changed.tile_requests) < len(expected.tile_requests) / 2
    unchanged = harvested(project, server, UNCHANGED_DAY)
    assert unchanged.versions == changed.versions
    # Only where the walk starts, which is not the first level where a zone has deep zooms only.
    assert len({line.path.count("/") for line in unchanged.tile_requests}) == 1
    # The first missing one is asked by GET as well: the host might refuse HEAD.
    assert len(unchanged.tile_requests) <= (10 if len(keys) == 2 else 5)


def test_a_map_that_has_grown_is_pruned_under_the_names_that_stay(
    shared_maps: Path, project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    site = published(shared_maps, "alexjj", 1, tmp_path / "site")
    server = nginx(site)
    project.add_map(ANTWORLD, server.url, walk="pruned", **PRUNED)
    harvested(project, server, "2016-10-06")
    full = twin(project, server.url, ANTWORLD, tmp_path / "full", walk="full")
    published(shared_maps, "alexjj", 2, site)
    grown, expected = (harvested(one, server, "2016-10-07") for one in (project, full))
    assert grown.way.is_pruned
    assert (grown.versions, grown.stored) == (expected.versions, expected.stored)
    # By their paths nearly all files were added. By the grid's names 48 were drawn and one has another time;
    # 65 of the 169 requests are for empty places beside the new ones.
    touched = sum(expected.counts.get(name, 0) for name in ("add", "upd", "nMod"))
    assert len(grown.tile_requests) <= most_requests(touched, depth=6)
    unchanged = harvested(project, server, "2016-10-08")
    assert unchanged.versions == grown.versions
    assert len(unchanged.tile_requests) <= 5
