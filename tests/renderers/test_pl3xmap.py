"""Pl3xMap's settings, as found on a real site."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.renderers.sites import PAGE, PublishedSite, of_map
from tileharvest.errors import SiteError
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = "tiles/settings.json"


@pytest.fixture
def sbatserver(shared_maps: Path, tmp_path: Path) -> PublishedSite:
    return of_map(shared_maps, "sbatserver", 6, tmp_path)


def settings(**keys: Any) -> str:
    world = {"name": "w", "renderers": [{"label": "basic"}, {"label": "night sky"}]}
    return json.dumps({"worldSettings": [world], "format": "png"} | keys)


def put(folder: Path, text: str) -> PublishedSite:
    (folder / "tiles/w").mkdir(parents=True)
    (folder / SETTINGS).write_text(text, encoding="utf-8")
    (folder / "tiles/w/settings.json").write_text('{"zoom": {"maxOut": 3}}', encoding="utf-8")
    return PublishedSite(folder)


def test_each_renderer_of_a_world_is_a_layer(sbatserver: PublishedSite) -> None:
    site = sbatserver.probed("pl3xmap")
    assert [(layer.name, layer.depth, layer.tile_size) for layer in site.layers] == [
        ("minecraft-overworld/vintage_story", 4, (512, 512)),
        ("minecraft-the_nether/basic", 4, (512, 512)),
        ("minecraft-the_end/basic", 4, (512, 512)),
    ]
    end = site.layers[2]
    assert end.spawn == (0, 64, 0)
    assert end.addresses.url_of(Tile.at(0, 10, 7)) == f"{PAGE}tiles/minecraft-the_end/0/basic/10_7.png"
    assert end.addresses.url_of(Tile.at(-3, 1, 0)) == f"{PAGE}tiles/minecraft-the_end/3/basic/1_0.png"


def test_two_renderers_of_a_world_share_its_folder_and_no_address(tmp_path: Path) -> None:
    basic, night = put(tmp_path, settings()).probed("pl3xmap").layers
    tile = Tile.at(-1, -2, 5)
    assert basic.addresses.url_of(tile) == f"{PAGE}tiles/w/1/basic/-2_5.png"
    assert night.addresses.url_of(tile) == f"{PAGE}tiles/w/1/night%20sky/-2_5.png"
    assert night.addresses.tile_of(night.addresses.url_of(tile)) == tile
    assert night.addresses.tile_of(basic.addresses.url_of(tile)) is None


def test_a_kept_renderer_asks_for_the_settings_of_its_world_once(tmp_path: Path) -> None:
    site = put(tmp_path, settings())
    (layer,) = site.probed("pl3xmap", layers=("w/night sky",)).layers
    assert layer.name == "w/night sky"
    assert site.asked == [f"GET {PAGE}{SETTINGS}", f"GET {PAGE}tiles/w/settings.json"]


def test_who_is_online_makes_no_other_site(sbatserver: PublishedSite) -> None:
    """The first file names the players, and is another one each second."""
    before = sbatserver.probed("pl3xmap")
    file = sbatserver.folder / SETTINGS
    players = [{"name": "Steve", "world": "minecraft:overworld", "position": {"x": 1, "z": 2}}]
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"players": players}), encoding="utf-8")
    assert sbatserver.probed("pl3xmap") == before


@pytest.mark.parametrize(("told", "extension", "ending"), [("jpeg", "jpg", "jpeg"), ("webp", "webp", "webp")])
def test_images_have_the_ending_that_the_site_names(
    tmp_path: Path, told: str, extension: str, ending: str
) -> None:
    layer = put(tmp_path, settings(format=told)).probed("pl3xmap").layers[0]
    assert layer.image_extension == extension
    assert layer.addresses.url_of(Tile.at(0, 0, 0)).endswith(f"/0_0.{ending}")


def test_an_image_format_that_nobody_can_show_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="format is bmp: expected"):
        put(tmp_path, settings(format="bmp")).probed("pl3xmap")


def test_a_site_of_squaremap_is_none(shared_maps: Path, tmp_path: Path) -> None:
    site = of_map(shared_maps, "duckmap", 1, tmp_path)
    with pytest.raises(UnrecognisedError, match="names the worlds of Pl3xMap"):
        site.probed("pl3xmap")
