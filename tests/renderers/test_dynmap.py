"""Dynmap's configurations as found on real sites, where its page draws blocks, and its servers' answers."""

import json
from math import floor
from pathlib import Path
from typing import Any

import pytest

from tests.renderers.sites import PAGE, WrittenSite
from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.dynmap import parse_config
from tileharvest.renderers.site import site_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.walk.walk import Walk

TILES = f"{PAGE}tiles/"
URL = f"{PAGE}up/configuration"
MODIFIED = "Mon, 14 Oct 2013 19:50:28 GMT"

FLAT = [4.0, 0.0, -2.4492935982947064e-16, -2.4492935982947064e-16, 0.0, -4.0, 0.0, 1.0, 0.0]
"""The matrices of `iso_S_90_lowres`, `iso_SE_30_hires` and `iso_SE_60_lowres`, as the real site has them."""
ISOMETRIC = [
    *(11.31370849898476, 0.0, -11.313708498984761),
    *(-5.6568542494923815, 13.856406460551018, -5.656854249492381),
    *(5.551115123125782e-17, 0.9999999999999997, 5.551115123125782e-17),
]
CAVE = [
    *(2.82842712474619, 0.0, -2.8284271247461903),
    *(-2.4494897427831783, 1.9999999999999998, -2.449489742783178),
    *(-4.8074067159589095e-17, 0.9999999999999999, -4.8074067159589095e-17),
]


def configuration(**changed: Any) -> bytes:
    """A configuration with one world and one map."""
    described = {
        "type": "HDMapType",
        "name": "flat",
        "prefix": "flat",
        "image-format": "png",
        "worldtomap": FLAT,
        "mapzoomout": 5,
        "nightandday": False,
        "background": None,
    } | changed
    center = {"x": -160.0, "y": 64.0, "z": 40.0}
    return json.dumps({"worlds": [{"name": "world", "center": center, "maps": [described]}]}).encode()


def of_config(**changed: Any) -> tuple[Layer, ...]:
    return tuple(parse_config(configuration(**changed), TILES, URL))


def test_real_configuration_has_the_values_that_the_file_shows(shared_maps: Path) -> None:
    body = (shared_maps / "configs" / "dynmap-3-dynmap_config.json").read_bytes()
    layers = parse_config(body, TILES, URL)
    found = [(one.name, one.depth, one.image_extension, one.tile_size, one.spawn) for one in layers]
    assert found[:5] == [
        ("world/flat", 6, "png", (128, 128), (-160, 64, 32)),
        ("world/surface", 8, "png", (128, 128), (-160, 64, 32)),
        ("world/cave", 6, "png", (128, 128), (-160, 64, 32)),
        ("world_nether/flat", 6, "png", (128, 128), (0, 64, 0)),
        ("world_nether/nether", 8, "png", (128, 128), (0, 64, 0)),
    ]
    assert [one.addresses.folder for one in layers[:3]] == [
        f"{TILES}world/{prefix}" for prefix in ("flat", "t", "ct")
    ]
    assert [one.background for one in layers[:4]] == [None, None, None, "#300806"]
    assert {one.world for one in layers} == {"world", "world_nether", "world_the_end"}


def test_a_map_by_day_and_by_night_is_two_layers() -> None:
    night, day = of_config(
        nightandday=True, background="#111111", backgroundday="#aaaaff", backgroundnight="#000022"
    )
    assert (night.name, night.background) == ("world/flat", "#000022")
    assert (day.name, day.background) == ("world/flat_day", "#aaaaff")
    assert day.addresses.url_of(Tile(0, 1, -1)) == f"{TILES}world/flat_day/0_0/0_0.png"
    assert (night.pyramid, night.projection) == (day.pyramid, day.projection)
    # A map of a type before version 1 is left alone.
    assert of_config(type="KzedMapType") == of_config(worldtomap=None) == ()


BLOCKS = [(0, 64, 0), (15, 64, 15), (-220, 64, -89), (7, 255, -1), (100_000, 0, 31), (-1, -64, 2_000_000)]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("tilescale", [0, 2])
@pytest.mark.parametrize("matrix", [FLAT, ISOMETRIC, CAVE], ids=["flat", "isometric", "cave"])
def test_blocks_lie_where_dynmaps_own_page_draws_them(
    block: tuple[int, int, int], matrix: list[float], tilescale: int
) -> None:
    """`fromLocationToLatLng` of `hdmap.js`, in pixels of the deepest zoom, of which its rows count downwards;
    and the tile that Dynmap's server takes for it."""
    x, y, z = block
    (layer,) = of_config(worldtomap=matrix, tilescale=tilescale)
    size = 128 << tilescale
    lng = matrix[0] * x + matrix[1] * y + matrix[2] * z
    lat = -(size - (matrix[3] * x + matrix[4] * y + matrix[5] * z))
    assert layer.tile_size == (size, size)
    assert layer.projection is not None
    point = layer.projection.point_of(x, z, y)
    assert point == pytest.approx((2 * lng / size, 2 * lat / size), abs=1e-6)
    if y == 64:
        assert layer.projection.place_at(*point) == pytest.approx((x, z), abs=1e-6)
    # The middle of the tile in which the server draws the block.
    column, up = floor(lng / size), floor((lat + size) / size)
    tile = layer.addresses.tile_of(f"{TILES}world/flat/{column >> 5}_{up >> 5}/{column}_{up}.png")
    assert tile is not None
    assert abs(tile.x - point[0]) <= 1 + 1e-6
    assert abs(tile.y - point[1]) <= 1 + 1e-6


def test_a_walk_starts_around_the_worlds_centre_and_its_origin() -> None:
    """The centre lies 160 x 4 = 640 pixels to the left of the origin, five tiles, and 160 below it."""
    (layer,) = of_config(mapzoomout=1)
    shown = (-3, 1), (0, 0)
    around = {Tile.at(-1, x + i, y + j) for x, y in shown for i in (-1, 0, 1) for j in (-1, 0, 1)}
    assert set(Walk(layer.pyramid).start()) == around
    (layer,) = of_config()
    assert {Tile.at(-5, -2, -1), Tile.at(-5, 1, 1)} <= set(Walk(layer.pyramid).start())
    assert layer.pyramid.is_endless


def test_a_standalone_site_names_its_configuration_and_its_tiles(shared_maps: Path, tmp_path: Path) -> None:
    configs = shared_maps / "configs"
    files = {
        "standalone/config.js": (configs / "dynmap-3-config.js").read_bytes(),
        "standalone/dynmap_config.json": (configs / "dynmap-3-dynmap_config.json").read_bytes(),
    }
    probed = WrittenSite(files).probed("dynmap")
    assert probed.layers[0].addresses.folder == f"{TILES}world/flat"
    assert probed.answers_head


@pytest.mark.parametrize(("script", "tells"), [("tiles.php", False), ("MySQL_tiles.php", True)])
def test_a_script_may_give_out_the_tiles(tmp_path: Path, script: str, tells: bool) -> None:
    """As `generateConfigJS` writes it, and `getTileUrl` of `map.js` reads it. The script for files, of a site
    with a login, sends no validators."""
    addresses = "var config = {\n url : {\n  configuration: 'standalone/configuration.php',\n"
    addresses += f"  tiles: 'standalone/{script}?tile=',\n }}\n}};\n"
    files = {"standalone/config.js": addresses.encode(), "standalone/configuration.php": configuration()}
    site = WrittenSite(files).probed("dynmap")
    (layer,) = site.layers
    url = layer.addresses.url_of(Tile(0, 1, -1))
    assert url == f"{PAGE}standalone/{script}?tile=world/flat/0_0/0_0.png"
    assert layer.addresses.tile_of(f"{url}&ts=1381780228000") == Tile(0, 1, -1)
    assert site.answers_head is tells


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ("world/flat", SiteError, r"layer 'world'.*center"),
        ("world_nether/flat", ConfigurationError, r"no layer 'world_nether/flat'; it has: world$"),
    ],
)
def test_a_layer_of_a_refused_world_is_not_lacking(wanted: str, error: type[Exception], message: str) -> None:
    read = parse_config(configuration().replace(b"-160.0", b'"far"'), TILES, URL)
    with pytest.raises(error, match=message):
        site_of("dynmap", MapDescription(name="m", url=PAGE, layers=(wanted,)), read, URL)


def test_a_site_with_a_login_is_told() -> None:
    with pytest.raises(SiteError, match=r"says 'login-required' instead .*: is there a login\?"):
        parse_config(b'{"error": "login-required"}', TILES, URL)
