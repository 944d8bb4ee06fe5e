"""Dynmap's configurations as found on real sites, where its page draws blocks, and its servers' answers."""

from __future__ import annotations

import io
import json
from math import floor
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image as Pillow

from tests.renderers.sites import PAGE, PublishedSite, kept
from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.dynmap import Dynmap, parse_config
from tileharvest.renderers.site import UnrecognisedError, site_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tileharvest.tiles.layers import Layer

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


def published(folder: Path, files: dict[str, bytes]) -> PublishedSite:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return PublishedSite(folder)


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


@pytest.mark.parametrize(
    ("zoom", "column", "row", "path"),
    [
        (0, 0, 0, "0_0/0_0"),
        (0, -3, 6, "-1_-1/-3_-6"),
        (0, 32, -32, "1_1/32_32"),
        (-1, -2, 3, "-1_-1/z_-4_-6"),
        (-2, 1, -1, "0_0/zz_4_4"),
        (-4, 0, -1, "0_0/zzzz_0_16"),
        (-5, -1, 1, "-1_-1/zzzzz_-32_-32"),
    ],
)
def test_tiles_are_named_in_deepest_tiles_and_upwards(zoom: int, column: int, row: int, path: str) -> None:
    (layer,) = of_config()
    tile, url = Tile.at(zoom, column, row), f"{TILES}world/flat/{path}.png"
    assert layer.addresses.url_of(tile) == url
    assert layer.addresses.tile_of(url) == layer.addresses.tile_of(f"{url}?1381780228000") == tile


@pytest.mark.parametrize("out", [1, 2, 5])
@pytest.mark.parametrize(("column", "row"), [(0, 0), (-1, 2), (3, -4)])
def test_children_are_those_that_dynmap_composes_a_tile_of(out: int, column: int, row: int) -> None:
    """As `processZoomFile` does: (X, Y) and (X + h, Y) above, (X, Y - h) and (X + h, Y - h) below."""
    (layer,) = of_config()
    x, y, h = column << out, -(row << out), 1 << (out - 1)
    zoomed = "z" * (out - 1) + ("_" if out > 1 else "")
    expected = [
        f"{TILES}world/flat/{a >> 5}_{b >> 5}/{zoomed}{a}_{b}.png"
        for a, b in ((x, y), (x + h, y), (x, y - h), (x + h, y - h))
    ]
    children = layer.pyramid.children(Tile.at(-out, column, row))
    assert [layer.addresses.url_of(child) for child in children] == expected


@pytest.mark.parametrize(
    "path",
    [
        "0_0/z_1_0.png",
        "0_0/32_0.png",
        "0_0/00_0.png",
        "0_0/-0_0.png",
        "0_0/_0_0.png",
        "0_0/zzzzzz_0_0.png",
        "0_0/0_0.jpg",
        "0_0/0_99999999999999999999.png",
    ],
)
def test_what_dynmap_does_not_write_is_no_tile(path: str) -> None:
    (layer,) = of_config()
    assert layer.addresses.tile_of(f"{TILES}world/flat/{path}") is None
    assert layer.addresses.tile_of(f"{TILES}world/flatter/0_0/0_0.png") is None


def test_a_tile_coarser_than_the_map_has_no_address() -> None:
    (layer,) = of_config()
    with pytest.raises(ValueError, match="coarser than a map of 6 zooms"):
        layer.addresses.url_of(Tile.at(-6, 0, 0))


def test_names_of_worlds_are_written_as_addresses_are() -> None:
    body = configuration().replace(b'"world"', b'"my world"')
    (layer,) = parse_config(body, TILES, URL)
    assert layer.name == "my world/flat"
    assert layer.addresses.url_of(Tile(0, 1, -1)) == f"{TILES}my%20world/flat/0_0/0_0.png"


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


def test_land_beyond_one_empty_place_is_looked_for() -> None:
    (layer,) = of_config(mapzoomout=1)
    beside = layer.pyramid.beside(Tile.at(-1, 0, 0))
    assert Tile.at(-1, 2, 0) in beside
    assert Tile.at(-1, 3, 0) not in beside


def test_a_walk_starts_around_the_worlds_centre_and_its_origin() -> None:
    """The centre lies 160 x 4 = 640 pixels to the left of the origin, five tiles, and 160 below it."""
    (layer,) = of_config(mapzoomout=1)
    shown = (-3, 1), (0, 0)
    around = {Tile.at(-1, x + i, y + j) for x, y in shown for i in (-1, 0, 1) for j in (-1, 0, 1)}
    assert set(layer.pyramid.start()) == around
    (layer,) = of_config()
    assert {Tile.at(-5, -2, -1), Tile.at(-5, 1, 1)} <= set(layer.pyramid.start())
    assert layer.pyramid.is_endless


def test_a_map_of_a_type_before_version_1_is_left_alone() -> None:
    assert of_config(type="KzedMapType") == ()
    assert of_config(worldtomap=None) == ()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (configuration()[:100], "cut off or damaged"),
        (configuration(mapzoomout="five"), "not as Dynmap writes it"),
        (configuration(mapzoomout=99), "not as Dynmap writes it"),
        (configuration(worldtomap=[1.0]), "not as Dynmap writes it"),
        (configuration(worldtomap=[0.0] * 9), "the world as a line"),
        (configuration(**{"image-format": "bmp"}), "image-format is bmp: expected"),
        (b'{"error": "login-required"}', "'login-required'.*is there a login"),
    ],
)
def test_a_damaged_configuration_is_refused_with_what_is_wrong(body: bytes, message: str) -> None:
    with pytest.raises(SiteError, match=message):
        kept(parse_config(body, TILES, URL))


def test_dynmaps_own_server_is_asked_for_one_file(tmp_path: Path) -> None:
    site = published(tmp_path, {"up/configuration": configuration()})
    (layer,) = site.probed("dynmap").layers
    assert layer.addresses.folder == f"{TILES}world/flat"
    assert site.asked == [f"GET {URL}"]


def test_a_standalone_site_names_its_configuration_and_its_tiles(shared_maps: Path, tmp_path: Path) -> None:
    configs = shared_maps / "configs"
    files = {
        "standalone/config.js": (configs / "dynmap-3-config.js").read_bytes(),
        "standalone/dynmap_config.json": (configs / "dynmap-3-dynmap_config.json").read_bytes(),
    }
    probed = published(tmp_path, files).probed("dynmap")
    assert probed.layers[0].addresses.folder == f"{TILES}world/flat"
    assert probed.answers_head


def test_without_the_file_that_names_them_they_are_where_dynmap_puts_them(tmp_path: Path) -> None:
    site = published(tmp_path, {"standalone/dynmap_config.json": configuration()})
    (layer,) = site.probed("dynmap").layers
    assert layer.addresses.folder == f"{TILES}world/flat"
    assert len(site.asked) == 3


@pytest.mark.parametrize(("script", "tells"), [("tiles.php", False), ("MySQL_tiles.php", True)])
def test_a_script_may_give_out_the_tiles(tmp_path: Path, script: str, tells: bool) -> None:
    """As `generateConfigJS` writes it, and `getTileUrl` of `map.js` reads it. The script for files, of a site
    with a login, sends no validators."""
    addresses = "var config = {\n url : {\n  configuration: 'standalone/configuration.php',\n"
    addresses += f"  tiles: 'standalone/{script}?tile=',\n }}\n}};\n"
    files = {"standalone/config.js": addresses.encode(), "standalone/configuration.php": configuration()}
    site = published(tmp_path, files).probed("dynmap")
    (layer,) = site.layers
    url = layer.addresses.url_of(Tile(0, 1, -1))
    assert url == f"{PAGE}standalone/{script}?tile=world/flat/0_0/0_0.png"
    assert layer.addresses.tile_of(f"{url}&ts=1381780228000") == Tile(0, 1, -1)
    assert site.answers_head is tells


def test_tiles_may_lie_on_another_host(tmp_path: Path) -> None:
    addresses = b"var config = {url: {tiles: 'https://tiles.example.net/map/'}};"
    files = {"standalone/config.js": addresses, "standalone/dynmap_config.json": configuration()}
    (layer,) = published(tmp_path, files).probed("dynmap").layers
    assert layer.host == "tiles.example.net"


def test_a_host_that_sends_its_page_for_everything_has_no_configuration(tmp_path: Path) -> None:
    page = b"<!DOCTYPE html><html></html>"
    names = ("up/configuration", "standalone/config.js", "standalone/dynmap_config.json")
    with pytest.raises(UnrecognisedError, match="is the address right"):
        published(tmp_path, dict.fromkeys(names, page)).probed("dynmap")


def test_a_site_with_another_page_is_recognised_by_the_file_that_it_shares() -> None:
    assert Dynmap().recognises('<script src="./standalone/config.js"></script>\n<title>LiveAtlas</title>')
    assert not Dynmap().recognises("<title>Another map, unlike Dynmap</title>")


def test_a_damaged_file_of_addresses_is_named(tmp_path: Path) -> None:
    site = published(tmp_path, {"standalone/config.js": b"var config = {url: {"})
    with pytest.raises(SiteError, match=r"standalone/config\.js is cut off or damaged"):
        site.probed("dynmap")


def image(colour: str, mode: str = "RGBA") -> bytes:
    written = io.BytesIO()
    Pillow.new(mode, (128, 128), colour).save(written, "PNG")
    return written.getvalue()


BLANK, DRAWN = image("#00000000"), image("#ff000080")
MISSING = Answer(404)


def understood(answer: Answer, tiles: Iterable[Tile] = (Tile(0, 1, -1), Tile(-1, 2, -2))) -> Answer:
    found, again = (Dynmap().understood(answer, tile) for tile in tiles)
    assert found == again
    return found


@pytest.mark.parametrize("etag", ['"305419896"', 'W/"305419896"'])
def test_the_blank_image_of_dynmaps_server_is_a_missing_tile(etag: str) -> None:
    """`MapStorageResourceHandler.java`, where `tr == null`: 200, the ETag of 0x12345678, and the image."""
    assert understood(Answer(200, Validator(etag), len(BLANK))) == MISSING
    assert understood(Answer(200, Validator(etag), len(BLANK), BLANK)) == MISSING


def test_so_is_the_one_that_older_servers_and_scripts_send_without_an_etag() -> None:
    """The same before hashes were sent, and where `w == null`; `tiles.php`, where the file is not readable.

    Without the bytes nobody knows.
    """
    head = Answer(200, length=len(BLANK))
    assert understood(head) == head
    assert understood(Answer(200, length=len(BLANK), body=BLANK)) == MISSING
    drawn = Answer(200, length=len(DRAWN), body=DRAWN)
    assert understood(drawn) == drawn


def test_a_blank_image_that_a_host_keeps_as_a_file_is_a_tile() -> None:
    kept = Answer(200, Validator('"5f-2a0"', MODIFIED), len(BLANK), BLANK)
    assert understood(kept) == kept


@pytest.mark.parametrize("location", ["../images/blank.png", f"{PAGE}images/blank.png"])
def test_the_way_to_the_blank_image_is_a_missing_tile(location: str) -> None:
    """`MySQL_tiles.php` and its like, where nothing is found."""
    assert understood(Answer(302, location=location)) == MISSING
    moved = Answer(301, location=f"{PAGE}new/0_0.png")
    assert understood(moved) == moved


@pytest.mark.parametrize("etag", ['"1234567890"', '"-17"', 'W/"1234567890"'])
def test_a_hash_that_several_tiles_share_tells_no_state(etag: str) -> None:
    """`FileTreeMapStorage.java`: `getImageHashCode(world.getName() + "." + map.getPrefix(), x, y)`."""
    seen = Answer(200, Validator(etag, MODIFIED), 672)
    assert understood(seen) == Answer(200, Validator(None, MODIFIED), 672)


@pytest.mark.parametrize("validator", [Validator("'1234567890'", MODIFIED), Validator('"1234567890"')])
def test_a_hash_that_a_database_keeps_for_each_tile_is_left_and_so_is_one_alone(validator: Validator) -> None:
    """`MySQL_tiles.php` puts it between single quotes. Its row is the tile's own, zoom and day included."""
    seen = Answer(200, validator, 672)
    assert understood(seen) == seen


@pytest.mark.parametrize("wanted", ["world/flat", "world/flat_day"])
def test_why_a_layer_by_day_is_refused_is_told_where_it_alone_is_kept(wanted: str) -> None:
    read = parse_config(configuration(nightandday=True, mapzoomout=99), TILES, URL)
    with pytest.raises(SiteError, match=r"layer 'world/flat'.*mapzoomout"):
        site_of("dynmap", MapDescription(name="m", url=PAGE, layers=(wanted,)), read, URL)


def test_why_a_world_is_refused_is_told_where_one_of_its_layers_is_kept() -> None:
    read = parse_config(configuration().replace(b"-160.0", b'"far"'), TILES, URL)
    with pytest.raises(SiteError, match=r"layer 'world'.*center"):
        site_of("dynmap", MapDescription(name="m", url=PAGE, layers=("world/flat",)), read, URL)


def test_another_world_than_the_refused_one_is_no_layer_of_the_site() -> None:
    read = parse_config(configuration().replace(b"-160.0", b'"far"'), TILES, URL)
    with pytest.raises(ConfigurationError, match=r"no layer 'world_nether/flat'; it has: world$"):
        site_of("dynmap", MapDescription(name="m", url=PAGE, layers=("world_nether/flat",)), read, URL)
