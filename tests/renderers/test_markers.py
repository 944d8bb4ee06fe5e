"""Land far from the rest: endless layers are also searched from a site's markers."""

import asyncio
import json
from typing import Any

import pytest

from tests.renderers.sites import PAGE, WrittenSite
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import probe, spots
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.pyramid import MOST_SEEDS, Pyramid
from tileharvest.walk.walk import Walk

FLAT = {"type": "HDMapType", "name": "flat", "worldtomap": [4, 0, 0, 0, 0, -4]}
TOWN = {"x": 400_000, "z": -200_000}
SITES: dict[str, dict[str, Any]] = {
    "squaremap": {
        "tiles/settings.json": {"worlds": [{"name": "w"}]},
        "tiles/w/settings.json": {"zoom": {"max": 3}},
        "tiles/w/markers.json": [{"id": "towns", "markers": [{"type": "icon", "point": TOWN}]}],
    },
    "pl3xmap": {
        "tiles/settings.json": {"worldSettings": [{"name": "w", "renderers": [{"label": "basic"}]}]},
        "tiles/w/settings.json": {"zoom": {"maxOut": 3}},
        "tiles/w/markers.json": [{"key": "towns", "label": "Towns"}],
        "tiles/w/markers/towns.json": [{"type": "icon", "data": {"point": TOWN}}],
    },
    "bluemap": {
        "settings.json": {"maps": ["w"]},
        "maps/w/settings.json": {"lowres": {"tileSize": [500, 500], "lodFactor": 5, "lodCount": 3}},
        "maps/w/live/markers.json": {"towns": {"markers": {"a": {"position": {**TOWN, "y": 64}}}}},
    },
    "dynmap": {
        "up/configuration": {"worlds": [{"name": "w", "maps": [FLAT]}]},
        "tiles/_markers_/marker_w.json": {"sets": {"a": {"x": [TOWN["x"]], "z": [TOWN["z"]]}}},
    },
}


@pytest.mark.parametrize("renderer", SITES)
def test_a_town_far_away_is_among_the_places_at_which_a_walk_starts(renderer: str) -> None:
    files = SITES[renderer]

    def start(files: dict[str, Any]) -> set[Tile]:
        description = MapDescription(name="m", url=PAGE, renderer=renderer)
        site = WrittenSite({path: json.dumps(said) for path, said in files.items()})
        (layer,) = asyncio.run(probe(description, site)).layers
        assert layer.projection is not None
        return set(Walk(layer.pyramid).start())

    without = {path: said for path, said in files.items() if "marker" not in path}
    (town,) = start(files) - start(without)
    assert town.zoom == min(tile.zoom for tile in start(without))
    assert abs(town.column) > 10 or abs(town.row) > 10


def test_spots_are_all_pairs_of_x_and_z_within_a_world() -> None:
    value = [{"x": 1, "z": 2}, {"a": [{"x": [3, 4], "z": [5, 6]}]}, {"x": 9e9, "z": 0}, {"x": "1", "z": 2}]
    assert set(spots(value)) == {(1, 2), (3, 5), (4, 6)}


def test_an_endless_layer_is_searched_from_the_tiles_that_its_index_names() -> None:
    seed, far = Tile.at(-2, 0, 0), Tile.at(0, 4_000, 1_000)
    seeded = Pyramid.endless(3, (seed,)).seeded([far, far, seed])
    assert tuple(Walk(seeded).start()) == (seed, far.ancestor(2))
    assert len(seeded.seeded(Tile.at(-2, number, 9) for number in range(5_000)).seeds) == MOST_SEEDS
