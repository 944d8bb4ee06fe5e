"""squaremap's settings, as found on a real site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.renderers.sites import PAGE, PublishedSite, of_map
from tileharvest.errors import ConfigurationError
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = "tiles/settings.json"


@pytest.fixture
def duckmap(shared_maps: Path, tmp_path: Path) -> PublishedSite:
    return of_map(shared_maps, "duckmap", 6, tmp_path)


def test_each_world_is_a_layer_with_the_values_that_its_files_show(duckmap: PublishedSite) -> None:
    site = duckmap.probed("squaremap")
    assert [layer.name for layer in site.layers] == [
        "minecraft_overworld",
        "minecraft_the_end",
        "minecraft_the_nether",
    ]
    overworld = site.layers[0]
    assert (overworld.depth, overworld.tile_size, overworld.image_extension) == (4, (512, 512), "png")
    assert overworld.spawn == (-399, 64, 78)
    assert overworld.addresses.url_of(Tile.at(0, -9, 4)) == f"{PAGE}tiles/minecraft_overworld/3/-9_4.png"
    assert overworld.addresses.url_of(Tile.at(-3, -2, 0)) == f"{PAGE}tiles/minecraft_overworld/0/-2_0.png"


def test_of_worlds_that_are_not_kept_nothing_is_asked(duckmap: PublishedSite) -> None:
    duckmap.probed("squaremap", layers=("minecraft_the_end",))
    assert duckmap.asked == [f"GET {PAGE}{SETTINGS}", f"GET {PAGE}tiles/minecraft_the_end/settings.json"]


def test_a_world_without_settings_of_its_own_is_no_layer(duckmap: PublishedSite) -> None:
    (duckmap.folder / "tiles/minecraft_the_end/settings.json").unlink()
    assert [layer.name for layer in duckmap.probed("squaremap").layers] == [
        "minecraft_overworld",
        "minecraft_the_nether",
    ]
    with pytest.raises(ConfigurationError, match="no layer 'minecraft_the_end'"):
        duckmap.probed("squaremap", layers=("minecraft_the_end",))


def test_a_tile_keeps_its_name_when_the_owner_adds_zooms(duckmap: PublishedSite) -> None:
    """Then every level has another number, and what was there of the new ones is left over no more."""
    file = duckmap.folder / "tiles/minecraft_overworld/settings.json"
    before = duckmap.probed("squaremap").layers[0]
    file.write_text(file.read_text(encoding="utf-8").replace('"max":3', '"max":5'), encoding="utf-8")
    after = duckmap.probed("squaremap").layers[0]
    tile = before.addresses.tile_of(f"{PAGE}tiles/minecraft_overworld/3/-9_4.png")
    assert tile is not None
    assert after.addresses.url_of(tile) == f"{PAGE}tiles/minecraft_overworld/5/-9_4.png"
    assert after.depth == 6


def test_worlds_stand_in_the_order_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "tiles").mkdir()
    worlds = '{"worlds": [{"name": "b", "order": 1}, {"name": "c"}, {"name": "a", "order": 1}]}'
    (tmp_path / SETTINGS).write_text(worlds, encoding="utf-8")
    for world in "abc":
        (tmp_path / "tiles" / world).mkdir()
        (tmp_path / f"tiles/{world}/settings.json").write_text('{"zoom": {"max": 0}}', encoding="utf-8")
    site = PublishedSite(tmp_path).probed("squaremap")
    assert [(layer.name, layer.depth) for layer in site.layers] == [("c", 1), ("a", 1), ("b", 1)]


def test_a_site_of_pl3xmap_is_none(shared_maps: Path, tmp_path: Path) -> None:
    site = of_map(shared_maps, "sbatserver", 1, tmp_path)
    with pytest.raises(UnrecognisedError, match="names the worlds of squaremap"):
        site.probed("squaremap")


def test_a_world_at_an_impossible_place_is_refused(duckmap: PublishedSite) -> None:
    file = duckmap.folder / "tiles/minecraft_overworld/settings.json"
    file.write_text('{"zoom": {"max": 3}, "spawn": {"x": 99999999, "z": 0}}', encoding="utf-8")
    (line,) = duckmap.probed("squaremap").refused
    assert "spawn.x is 99999999: expected `int` <= 30000000" in line
