"""Zones and zooms: only what is kept is fetched, and next to nothing else is asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH
from tests.end_to_end.rendering import Rendering
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.project import LayerTile
    from tests.servers.nginx import LogLine, Nginx

CENTRE: Final = (80, 22)
"""Of the zone; even, so that the zone's edges are edges of tiles. Part of it is not rendered."""
WIDTH, HEIGHT = 10, 4
COARSEST: Final = -2
TOP: Final = COARSEST - 3
"""Where the walk starts; the map's first level is at -6."""


class Harvested(NamedTuple):
    project: Project
    rendering: Rendering
    server: Nginx
    log: list[LogLine]
    """Of the first harvest."""


def in_zone(tile: LayerTile) -> bool:
    """Whether the tile's square shares ground with the zone's rectangle."""
    reach = 2**-tile.zoom
    return abs(tile.x - CENTRE[0]) < WIDTH + reach and abs(tile.y - CENTRE[1]) < HEIGHT + reach


@pytest.fixture(scope="module")
def harvested(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harvested]:
    folder = tmp_path_factory.mktemp("zones")
    project = Project(folder)
    site = published(shared_maps, ANTWORLD, 1, folder / "site")
    zone = {"center": list(CENTRE), "width": WIDTH, "height": HEIGHT, "zoom": 0}
    with nginx(site) as server:
        project.add_map(ANTWORLD, server.url, zooms=[COARSEST, 0], zones=[zone], walk="full")
        project.crawl(ANTWORLD, "2021-02-13")
        yield Harvested(project, Rendering(site, ANTWORLD_DEPTH), server, list(server.log()))


def kept(rendering: Rendering) -> dict[LayerTile, bytes]:
    images = rendering.images()
    return {tile: images[tile] for tile in images if tile.zoom >= COARSEST and in_zone(tile)}


def asked(harvested: Harvested, log: list[LogLine], method: str, status: int = 0) -> set[LayerTile]:
    """The tiles asked by a method, with any answer or with that one."""
    return harvested.rendering.tiles_of_files(
        line.path.removeprefix("/") for line in log if line.method == method and status in (0, line.status)
    )


def questions(harvested: Harvested) -> set[LayerTile]:
    """The tiles asked by the first harvest: by GET where they are to be kept, and by HEAD above."""
    return asked(harvested, harvested.log, "GET") | asked(harvested, harvested.log, "HEAD")


def test_only_tiles_of_the_zone_and_the_zooms_are_kept(harvested: Harvested) -> None:
    expected = kept(harvested.rendering)
    assert {tile.zoom for tile in expected} == {-2, -1, 0}
    assert {version.tile for version in harvested.project.versions()} == expected.keys()
    assert sorted(harvested.project.stored().values()) == sorted(set(expected.values()))


def test_what_is_kept_is_fetched_and_nothing_else(harvested: Harvested) -> None:
    assert asked(harvested, harvested.log, "GET", 200) == kept(harvested.rendering).keys()


def test_nothing_outside_is_asked_about_but_what_lies_up_to_three_levels_above(harvested: Harvested) -> None:
    rendering = harvested.rendering
    there = rendering.images().keys()
    found = questions(harvested)
    assert found == {
        tile for tile in there | rendering.tiles(rendering.missing()) if tile.zoom >= TOP and in_zone(tile)
    }
    assert len(found) < len(there) / 2


def test_a_zone_that_does_not_meet_the_map_is_refused_and_nothing_is_touched(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    site = published(shared_maps, "alexjj", 1, tmp_path / "site")
    with nginx(site) as server:
        project.add_map(
            "far", server.url, zones=[{"center": [100_000, 0], "width": 4, "height": 4, "zoom": 0}]
        )
        done = project.scrapy("harvest", "far", check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "map 'far'" in line
    assert "zone" in line
    assert project.kept() == {}
