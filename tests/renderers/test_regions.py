"""Maps of squaremap and Pl3xMap: their settings, where blocks lie, and where a search begins."""

import asyncio
import json
from math import floor
from pathlib import Path
from typing import Any

import pytest

from tests.renderers.sites import PAGE, PublishedSite, WrittenSite, of_map
from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.regions import BLOCKS, Pl3xMap, Squaremap, endless_pyramid
from tileharvest.renderers.registry import RENDERERS
from tileharvest.renderers.site import Fetched, UnrecognisedError
from tileharvest.tiles.grid import Tile
from tileharvest.walk.walk import Walk

SETTINGS = "tiles/settings.json"
WORLD = '{"zoom": {"max": 3, "maxOut": 3}}'


@pytest.fixture
def site(request: pytest.FixtureRequest, shared_maps: Path, tmp_path: Path) -> PublishedSite:
    """The last version of a real map."""
    return of_map(shared_maps, request.param, 6, tmp_path)


duckmap = pytest.mark.parametrize("site", ["duckmap"], indirect=True)
sbatserver = pytest.mark.parametrize("site", ["sbatserver"], indirect=True)


def put(settings: Any) -> WrittenSite:
    return WrittenSite({SETTINGS: json.dumps(settings), "tiles/w/settings.json": WORLD})


def pl3xmap(**keys: Any) -> dict[str, Any]:
    world = {"name": "w", "renderers": [{"label": "basic"}, {"label": "night sky"}]}
    return {"worldSettings": [world], "format": "png"} | keys


@sbatserver
def test_each_renderer_of_a_world_of_pl3xmap_is_a_layer(site: PublishedSite) -> None:
    layers = site.probed("pl3xmap").layers
    assert [(layer.name, layer.depth, layer.tile_size) for layer in layers] == [
        ("minecraft-overworld/vintage_story", 4, (512, 512)),
        ("minecraft-the_nether/basic", 4, (512, 512)),
        ("minecraft-the_end/basic", 4, (512, 512)),
    ]
    assert layers[2].spawn == (0, 64, 0)
    assert layers[2].addresses.url_of(Tile.at(0, 10, 7)) == f"{PAGE}tiles/minecraft-the_end/0/basic/10_7.png"
    # Who is online makes no other site: the first file names the players, and is another one each second.
    file = site.folder / SETTINGS
    players = [{"name": "Steve", "world": "minecraft:overworld", "position": {"x": 1, "z": 2}}]
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"players": players}), encoding="utf-8")
    assert site.probed("pl3xmap").layers == layers


@duckmap
def test_of_worlds_that_are_not_kept_nothing_is_asked_and_one_without_settings_is_no_layer(
    site: PublishedSite,
) -> None:
    site.probed("squaremap", layers=("minecraft_the_end",))
    assert site.asked == [f"GET {PAGE}{SETTINGS}", f"GET {PAGE}tiles/minecraft_the_end/settings.json"]
    (site.folder / "tiles/minecraft_the_end/settings.json").unlink()
    assert "minecraft_the_end" not in [layer.name for layer in site.probed("squaremap").layers]
    with pytest.raises(ConfigurationError, match="no layer 'minecraft_the_end'"):
        site.probed("squaremap", layers=("minecraft_the_end",))


@duckmap
def test_a_tile_keeps_its_name_when_the_owner_adds_zooms(site: PublishedSite) -> None:
    """Then every level has another number."""
    file = site.folder / "tiles/minecraft_overworld/settings.json"
    before = site.probed("squaremap").layers[0]
    file.write_text(file.read_text(encoding="utf-8").replace('"max":3', '"max":5'), encoding="utf-8")
    after = site.probed("squaremap").layers[0]
    tile = before.addresses.tile_of(f"{PAGE}tiles/minecraft_overworld/3/-9_4.png")
    assert tile is not None
    assert after.addresses.url_of(tile) == f"{PAGE}tiles/minecraft_overworld/5/-9_4.png"
    assert after.depth == 6


def test_two_renderers_of_a_world_share_its_folder_and_no_address(tmp_path: Path) -> None:
    site = put(pl3xmap(format="jpeg"))
    basic, night = site.probed("pl3xmap").layers
    tile = Tile.at(-1, -2, 5)
    assert basic.addresses.url_of(tile) == f"{PAGE}tiles/w/1/basic/-2_5.jpeg"
    assert night.addresses.url_of(tile) == f"{PAGE}tiles/w/1/night%20sky/-2_5.jpeg"
    assert night.image_extension == "jpg"
    assert night.addresses.tile_of(night.addresses.url_of(tile)) == tile
    assert night.addresses.tile_of(basic.addresses.url_of(tile)) is None
    site.asked.clear()
    assert site.probed("pl3xmap", layers=("w/night sky",)).layers == (night,)
    assert site.asked == [f"GET {PAGE}{SETTINGS}", f"GET {PAGE}tiles/w/settings.json"]


@pytest.mark.parametrize("wholes", [(False, False, True), (False, False, False)])
def test_a_file_that_is_being_written_is_read_again_and_then_told(wholes: tuple[bool, ...]) -> None:
    """Pl3xMap empties each of its two files once a second, and writes it anew (`FileUtil.java`)."""
    bodies = iter(wholes)

    async def fetch(method: str, url: str) -> Fetched:
        text = json.dumps(pl3xmap()) if url.endswith(SETTINGS) else WORLD
        is_whole = next(bodies, True)
        return Fetched(200, text.encode()[: None if is_whole else 40], url)

    probing = Pl3xMap().probe(MapDescription(name="m", url=PAGE), fetch)
    if any(wholes):
        assert len(asyncio.run(probing).layers) == 2
    else:
        with pytest.raises(SiteError, match=r"tiles/settings\.json is cut off or damaged"):
            asyncio.run(probing)


@pytest.mark.parametrize("x", [0, 511, -1, -399, 512, 100_000])
@pytest.mark.parametrize("out", range(4))
def test_a_block_is_in_the_tile_that_the_renderers_formula_names(x: int, out: int) -> None:
    """A tile is 512 * 2^n blocks wide n levels from the deepest. `Image.java` of squaremap: the region's x /
    2^n, rounded down; `TileImage.java` of Pl3xMap: x >> n."""
    z = -3 * x + 7
    tile = Tile.at(-out, *(floor(one / (512 * 2**out)) for one in (x, z)))
    right, up = BLOCKS.point_of(x, z)
    assert abs(right - tile.x) <= (1 << -tile.zoom)
    assert abs(up - tile.y) <= (1 << -tile.zoom)
    assert BLOCKS.block_at(right, up) == (x, z)


def test_the_search_begins_around_the_origin_and_the_spawn_and_goes_over_one_empty_place() -> None:
    """A coarsest tile of four levels is 4,096 blocks wide."""
    pyramid = endless_pyramid(4, [(41_000, -4097)])
    around_origin = {(x, y) for x in range(-2, 2) for y in range(-2, 2)}
    around_spawn = {(x, y) for x in (9, 10, 11) for y in (-3, -2, -1)}
    assert {(tile.column, tile.row) for tile in Walk(pyramid).start()} == around_origin | around_spawn
    assert Walk(pyramid).goes_sideways
    beside = {(tile.column, tile.row) for tile in pyramid.beside(Tile.at(-3, -1, -1))}
    assert {(-3, -2), (1, 1)} <= beside
    assert (-4, -1) not in beside
    assert Squaremap.step == -Pl3xMap.step


@pytest.mark.parametrize(
    ("renderer", "settings"), [("squaremap", pl3xmap()), ("pl3xmap", {"worlds": [{"name": "w"}]})]
)
def test_the_settings_of_the_other_renderer_are_not_taken_for_ones_own(
    tmp_path: Path, renderer: str, settings: Any
) -> None:
    with pytest.raises(UnrecognisedError, match=f"names the worlds of {RENDERERS[renderer].title}"):
        put(settings).probed(renderer)
