"""A real map that grows by a level between two versions: all paths change, no tile does."""

from pathlib import Path
from typing import Final

from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.rendering import Rendering
from tests.servers.nginx import nginx
from tests.servers.published import published

BEFORE, AFTER = "2016-10-06", "2016-10-07"
"""Both versions were published on one day; here the second is harvested on the next."""

MOVES: Final = {"0": "0/3", "1": "1/2", "2": "2/1", "3": "3/0"}
"""Where Overviewer moves the first-level tiles, and with each all that is below."""


def test_a_grown_map_is_compared_under_the_names_that_growth_leaves_alone(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    site = published(shared_maps, "alexjj", 1, tmp_path / "site")
    before = Rendering(site, depth=5)
    moved = {f"/{MOVES[path[1]]}{path[2:]}": before.file(path) for path in before.paths()}
    images = {path: file.read_bytes() for path, file in moved.items()}
    times = {path: file.stat().st_mtime for path, file in moved.items()}
    with nginx(site) as server:
        project.add_map("growing", server.url)
        project.crawl("growing", BEFORE)
        published(shared_maps, "alexjj", 2, site)
        project.crawl("growing", AFTER)
    after = Rendering(site, depth=6)
    there = after.paths()
    kept = {path for path in there & images.keys() if after.file(path).read_bytes() == images[path]}
    same_time = {path for path in kept if after.file(path).stat().st_mtime == times[path]}

    def with_outcome(outcome: str) -> set[LayerTile]:
        return {tile for tile, found in project.outcomes().items() if found == outcome}

    assert kept
    assert with_outcome("ign") == after.tiles(same_time)
    assert with_outcome("nMod") == after.tiles(kept - same_time)
    assert with_outcome("upd") == after.tiles(there & images.keys() - kept)
    assert with_outcome("add") == after.tiles(there - images.keys())
    assert with_outcome("gone") == after.tiles(images.keys() - there)
    assert project.query("SELECT depth FROM harvest_layers ORDER BY harvest") == [(5,), (6,)]
    days = [(version.tile, version.day) for version in project.versions()]
    for tile in after.tiles(kept):
        assert [day for other, day in days if other == tile] == [BEFORE]
