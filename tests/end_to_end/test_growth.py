"""A real map that grows by a level between two versions: all paths change, no tile does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.rendering import Rendering, date_all
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.project import LayerTile

BEFORE, AFTER = "2016-10-06", "2016-10-07"
"""Both versions were published on one day; here the second is harvested on the next."""

MOVES: Final = {"0": "0/3", "1": "1/2", "2": "2/1", "3": "3/0"}
"""Where Overviewer moves the first-level tiles, and with each all that is below."""


class Grown(NamedTuple):
    """The tiles of the second version, by what happened to their files."""

    project: Project
    moved: set[LayerTile]
    """Bytes and time are those of the first version."""
    redated: set[LayerTile]
    """The bytes are."""
    changed: set[LayerTile]
    new: set[LayerTile]
    removed: set[LayerTile]


@pytest.fixture(scope="module", params=[False, True], ids=["rendered in place", "uploaded anew"])
def grown(
    request: pytest.FixtureRequest, shared_maps: Path, tmp_path_factory: pytest.TempPathFactory
) -> Grown:
    """Both versions, harvested. Uploaded anew, all files of a version have one time."""
    folder = tmp_path_factory.mktemp("grown")
    project = Project(folder)
    site = published(shared_maps, "alexjj", 1, folder / "site")
    if request.param:
        date_all(site, 1_475_800_000)
    before = Rendering(site, depth=5)
    moved = {f"/{MOVES[path[1]]}{path[2:]}": before.file(path) for path in before.paths()}
    images = {path: file.read_bytes() for path, file in moved.items()}
    times = {path: file.stat().st_mtime for path, file in moved.items()}
    with nginx(site) as server:
        project.add_map("growing", server.url)
        project.crawl("growing", BEFORE)
        published(shared_maps, "alexjj", 2, site)
        if request.param:
            date_all(site, 1_475_900_000)
        project.crawl("growing", AFTER)
    after = Rendering(site, depth=6)
    there = after.paths()
    kept = {path for path in there & images.keys() if after.file(path).read_bytes() == images[path]}
    same_time = {path for path in kept if after.file(path).stat().st_mtime == times[path]}
    return Grown(
        project,
        moved=after.tiles(same_time),
        redated=after.tiles(kept - same_time),
        changed=after.tiles(there & images.keys() - kept),
        new=after.tiles(there - images.keys()),
        removed=after.tiles(images.keys() - there),
    )


def with_outcome(project: Project, outcome: str) -> set[LayerTile]:
    return {tile for tile, found in project.outcomes().items() if found == outcome}


def test_a_grown_map_is_compared_under_the_names_that_growth_leaves_alone(grown: Grown) -> None:
    """Uploaded anew, what only moved is fetched once and found the same."""
    assert grown.moved or grown.redated
    assert with_outcome(grown.project, "ign") == grown.moved
    assert with_outcome(grown.project, "nMod") == grown.redated
    assert with_outcome(grown.project, "upd") == grown.changed
    assert with_outcome(grown.project, "add") == grown.new
    assert with_outcome(grown.project, "gone") == grown.removed
    depths = grown.project.query("SELECT depth FROM harvest_layers ORDER BY harvest")
    assert depths == [(5,), (6,)]


def test_a_tile_that_only_moved_has_no_second_version(grown: Grown) -> None:
    days = [(version.tile, version.day) for version in grown.project.versions()]
    for tile in grown.moved | grown.redated:
        assert [day for other, day in days if other == tile] == [BEFORE]


def test_growth_stores_no_image_twice(grown: Grown) -> None:
    images = list(grown.project.stored().values())
    assert len(images) == len(set(images))
