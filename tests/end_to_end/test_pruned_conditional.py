"""`check = "conditional"`: what is known is asked by one GET with If-None-Match. The history is the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.pruned_stage import DAYS, HOUR, NOON, RARELY, Stage, drawn_site, the_walk
from tests.end_to_end.real_maps import ANTWORLD
from tests.servers import rules
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import LayerTile, RecordedVersion
    from tests.end_to_end.real_maps import Harvested
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import LogLine


class Asked(NamedTuple):
    """A harvest of the fourth version over the third."""

    log: list[LogLine]
    versions: set[RecordedVersion]
    stored: dict[str, bytes]
    is_pruned: bool

    def tiles(self, harvested: Harvested, method: str, status: int) -> set[LayerTile]:
        return harvested.rendering.tiles_of_files(
            line.path.removeprefix("/") for line in self.log if (line.method, line.status) == (method, status)
        )


@pytest.fixture(scope="module")
def ways(
    shared_maps: Path, antworld: list[Harvested], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Asked]:
    """In full, and pruned."""
    folder = tmp_path_factory.mktemp("conditional")
    found = {}
    with nginx(published(shared_maps, ANTWORLD, 4, folder / "site")) as server:
        for walk in ("full", "pruned"):
            (folder / walk).mkdir()
            project = Project(folder / walk)
            project.adopt(antworld[2].data)
            keys = {"audit": 0, "full_every": RARELY, "check": "conditional"}
            project.add_map(ANTWORLD, server.url, walk=walk, **keys)
            server.clear_log()
            log = project.crawl(ANTWORLD, antworld[3].day).stderr
            found[walk] = Asked(
                list(server.log()),
                project.versions(),
                project.stored(),
                the_walk(log).is_pruned,
            )
    return found


@pytest.mark.parametrize("walk", ["full", "pruned"])
def test_history_is_that_of_head_and_get(
    ways: dict[str, Asked], antworld: list[Harvested], walk: str
) -> None:
    assert ways[walk].is_pruned == (walk == "pruned")
    assert ways[walk].versions == antworld[3].versions
    assert ways[walk].stored == antworld[3].stored


@pytest.mark.parametrize("walk", ["full", "pruned"])
def test_tiles_that_are_known_are_asked_once_and_never_by_head(
    ways: dict[str, Asked], antworld: list[Harvested], walk: str
) -> None:
    before, after = antworld[2], antworld[3]
    known = before.images.keys()
    asked = ways[walk]
    by_head = asked.tiles(after, "HEAD", 200) | asked.tiles(after, "HEAD", 404)
    assert not by_head & known
    paths = Counter(line.path.removeprefix("/") for line in asked.log if line.path.endswith(".png"))
    twice = after.rendering.tiles_of_files(path for path, times in paths.items() if times > 1)
    assert twice == after.images.keys() - known
    assert set(paths.values()) <= {1, 2}


def test_a_server_without_etags_is_asked_by_head(
    project: Project, tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    files = drawn_site(tmp_path / "site")
    stage = Stage(files, misbehaving(files.folder), project)
    stage.describe(check="conditional", audit=0)
    stage.server.rule_for_all = rules.without_etag()
    stage.harvest(DAYS[0])
    files.draw("120", NOON + 100 * HOUR)
    assert the_walk(stage.harvest(DAYS[1])).is_pruned
    assert stage.is_up_to_date
    known = {"0", "1", "2", "3", "12", "120"} & {path.replace("/", "") for path in files.rendering.paths()}
    assert {path for method, path in stage.asked if method == "HEAD"} >= known
    assert {path for method, path in stage.asked if method == "GET"} == {"1", "12", "120"}
