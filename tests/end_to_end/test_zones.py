"""Zones and zooms: only what is kept is fetched, and next to nothing else is asked about."""

from pathlib import Path
from typing import Final

from tests.end_to_end.project import LayerTile, Project
from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH
from tests.end_to_end.rendering import Rendering
from tests.servers.nginx import nginx
from tests.servers.published import published

CENTRE: Final = (80, 22)
"""Of the zone; even, so that the zone's edges are edges of tiles. Part of it is not rendered."""
WIDTH, HEIGHT = 10, 4
COARSEST: Final = -2
TOP: Final = COARSEST - 3
"""Where the walk starts; the map's first level is at -6."""


def in_zone(tile: LayerTile) -> bool:
    """Whether the tile's square shares ground with the zone's rectangle."""
    reach = 2**-tile.zoom
    return abs(tile.x - CENTRE[0]) < WIDTH + reach and abs(tile.y - CENTRE[1]) < HEIGHT + reach


def test_tiles_of_the_zone_are_fetched_and_others_up_to_three_levels_above_are_only_asked_about(
    project: Project, shared_maps: Path, tmp_path: Path
) -> None:
    rendering = Rendering(published(shared_maps, ANTWORLD, 1, tmp_path / "site"), ANTWORLD_DEPTH)
    zone = {"center": list(CENTRE), "width": WIDTH, "height": HEIGHT, "zoom": 0}
    with nginx(rendering.folder) as server:
        project.add_map(ANTWORLD, server.url, zooms=[COARSEST, 0], zones=[zone], walk="full")
        project.crawl(ANTWORLD, "2021-02-13")
        log = list(server.log())
    images = rendering.images()
    kept = {tile: images[tile] for tile in images if tile.zoom >= COARSEST and in_zone(tile)}
    assert {tile.zoom for tile in kept} == {-2, -1, 0}
    assert {version.tile for version in project.versions()} == kept.keys()
    assert sorted(project.stored().values()) == sorted(set(kept.values()))
    fetched = [line.path.lstrip("/") for line in log if (line.method, line.status) == ("GET", 200)]
    assert rendering.tiles_of_files(fetched) == kept.keys()
    asked = rendering.tiles_of_files(line.path.lstrip("/") for line in log)
    places = images.keys() | rendering.tiles(rendering.missing())
    assert asked == {tile for tile in places if tile.zoom >= TOP and in_zone(tile)}
    assert len(asked) < len(images) / 2
