"""BlueMap's settings as found on a real site, and where its own page looks for tiles and blocks."""

import json
from math import floor
from pathlib import Path
from typing import Any

import pytest

from tests.renderers.sites import PAGE, PublishedSite, WrittenSite, of_map
from tileharvest.renderers.bluemap import LEFT_ALONE
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.walk.walk import Walk

FOLDER = f"{PAGE}maps/world"


def settings(**changed: Any) -> bytes:
    """Of a map, as versions 3 and later write them."""
    keys = {
        "name": "Overworld",
        "sorting": 0,
        "hires": {"tileSize": [32, 32], "scale": [1, 1], "translate": [2, 2]},
        "lowres": {"tileSize": [500, 500], "lodFactor": 5, "lodCount": 3},
        "startPos": [0, 0],
        "voidColor": [0, 0.5, 1, 1],
        "perspectiveView": True,
    } | changed
    return json.dumps(keys).encode()


def layer_of(**changed: Any) -> Layer:
    files = {"settings.json": '{"maps": ["world"]}', "maps/world/settings.json": settings(**changed)}
    return WrittenSite(files).probed("bluemap").layers[0]


@pytest.fixture
def site(shared_maps: Path, tmp_path: Path) -> PublishedSite:
    return of_map(shared_maps, "labyrinthmc", 5, tmp_path)


def test_a_real_site_has_the_values_that_its_files_show(site: PublishedSite) -> None:
    found = site.probed("bluemap")
    assert [(one.name, one.world, one.depth, one.pyramid.factor, one.tile_size) for one in found.layers] == [
        ("world", "world (overworld)", 3, 5, (500, 500)),
        ("hub_rainbow", "Hub", 3, 5, (500, 500)),
    ]
    assert {(one.spawn, one.background, one.image_extension) for one in found.layers} == {
        ((0, 64, 0), "#000000", "png")
    }
    assert (found.notes, found.answers_head) == ((LEFT_ALONE,), False)


def test_maps_without_settings_and_folders_that_are_not_listed_are_left_out(site: PublishedSite) -> None:
    """The site lists two maps that are not there; its own page tells so in the console and goes on."""
    (site.folder / "maps" / "old").mkdir()
    (site.folder / "maps" / "old" / "settings.json").write_bytes(settings())
    assert {one.name for one in site.probed("bluemap").layers} == {"world", "hub_rainbow"}


def test_of_many_maps_only_those_that_are_kept_are_asked_about(site: PublishedSite) -> None:
    site.probed("bluemap", layers=("hub_rainbow",))
    assert site.asked == [f"GET {PAGE}settings.json", f"GET {PAGE}maps/hub_rainbow/settings.json"]


def test_the_maps_may_lie_on_another_host() -> None:
    folder = "https://tiles.example.org/data/world"
    said = {"maps": ["world"], "mapDataRoot": "https://tiles.example.org/data"}
    site = WrittenSite({"settings.json": json.dumps(said), f"{folder}/settings.json": settings()})
    (layer,) = site.probed("bluemap").layers
    assert layer.addresses.url_of(Tile.at(0, 1, 2)) == f"{folder}/tiles/1/x1/z2.png"
    assert layer.host == "tiles.example.org"


PLACES = [(0, 0), (499, 500), (-1, -12_500), (-6_001, 73), (12_499, -2_501), (29_999_984, -29_999_984)]


@pytest.mark.parametrize(("x", "z"), PLACES)
def test_blocks_lie_on_the_tiles_on_which_its_own_page_looks_for_them(x: int, z: int) -> None:
    """`loadMapArea` of `Map.js`: floor(x / (tileSize * lodFactor ^ (lod - 1)))."""
    layer = layer_of()
    assert layer.projection is not None
    right, up = layer.projection.point_of(x + 0.5, z + 0.5)
    tile = Tile.at(0, floor(right / 2), floor(-up / 2))
    for lod in (1, 2, 3):
        width = 500 * 5 ** (lod - 1)
        assert (1 - lod, x // width, z // width) == (tile.zoom, tile.column, tile.row)
        tile = tile.parent(layer.pyramid.factor)
    assert layer.projection.block_at(right, up) == (x, z)


def test_the_walk_begins_around_the_origin_and_the_start() -> None:
    """The start may lie at the edge of a tile, as the origin does, and the land on the other side of it."""
    layer = layer_of(startPos=[30_000, -13_000])
    around = {(right, down) for right in (-1, 0, 1) for down in (-1, 0, 1)}
    far = {(2 + right, -2 + down) for right, down in around}
    assert {(tile.column, tile.row) for tile in Walk(layer.pyramid).start()} == around | far
    assert {tile.zoom for tile in Walk(layer.pyramid).start()} == {-2}
    assert (layer.spawn, layer.background) == ((30_000, 64, -13_000), "#0080ff")
