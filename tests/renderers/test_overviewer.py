"""Overviewer's configurations as found on real sites."""

from fractions import Fraction

import pytest

from tests.renderers.sites import PAGE, WrittenSite
from tileharvest.errors import ConfigurationError, ExitStatus, SiteError
from tileharvest.renderers.overviewer import parse_config, projection_of
from tileharvest.tiles.grid import Tile

CONFIG = f"{PAGE}overviewerConfig.js"

MINIMAL = """
var overviewerConfig = {
    "tilesets": [
        {"path": "day", "zoomLevels": 4, "imgextension": "png", "isOverlay": false},
        {"path": "ores", "zoomLevels": 4, "imgextension": "png", "isOverlay": ["Day"]},
        {"path": "caves", "zoomLevels": 3, "imgextension": "jpg", "isOverlay": true}
    ]
};
"""

# As the files show, read by eye.
REAL = {
    "overviewer-darkness4.js": [("world-lighting", 7, "png", 0, (-48, 80, -46), 1563139226, "1563139367")],
    "overviewer-salisbury.js": [("world-lighting", 8, "png", 0, (1168, 98, 1098), 1513463415, "1514375793")],
    "overviewer-maxzoom-below-zoomlevels.js": [
        ("normalrender", 11, "jpg", 0, (-2817, 67, -8912), 1533139239, "1533249856")
    ],
    "overviewer-north-3.js": [
        ("daytime", 7, "png", 3, (133, 80, 196), 1517778564, "1517869431"),
        ("nighttime", 7, "png", 3, (133, 80, 196), 1517778564, "1517869431"),
    ],
    "overviewer-webp-three-tilesets.js": [
        ("world", 7, "webp", 0, (327, 68, 345), 1605479459, "1692244637"),
        ("world-night", 7, "webp", 0, (327, 68, 345), 1605479459, "1692244637"),
        ("world_nether", 6, "webp", 0, None, 1360591426, "1692244637"),
    ],
}


@pytest.mark.parametrize("name", REAL)
def test_real_configuration_has_the_values_that_the_file_shows(shared_maps, name):
    layers = parse_config((shared_maps / "configs" / name).read_text(), PAGE)
    assert [
        (
            layer.name,
            layer.depth,
            layer.image_extension,
            layer.north_direction,
            layer.spawn,
            layer.rendered,
            layer.addresses.query.removeprefix("?c="),
        )
        for layer in layers
    ] == REAL[name]


def test_of_a_configuration_are_also_read_the_frame_the_world_and_what_is_an_overlay(shared_maps):
    text = (shared_maps / "configs" / "overviewer-webp-three-tilesets.js").read_text()
    layers = parse_config(text, PAGE)
    assert {(x.tile_size, x.background, x.overlay) for x in layers} == {((384, 384), "#1a1a1a", False)}
    assert [layer.world for layer in layers] == ["world - overworld"] * 2 + ["world_nether - nether"]
    assert layers[0].addresses.url_of(Tile(-5, 32, 32)) == f"{PAGE}world/1/2.webp?c=1692244637"
    # An overlay is a true word or a list.
    assert [layer.overlay for layer in parse_config(MINIMAL, PAGE)] == [False, True, True]
    assert parse_config(MINIMAL, PAGE)[0].addresses.query == ""


@pytest.mark.parametrize(
    ("base", "path", "folder"),
    [
        ("", "day", f"{PAGE}day"),
        ("http://tiles.example.org/x/", "day", "http://tiles.example.org/x/day"),
        ("http://tiles.example.org/x-", "day", "http://tiles.example.org/x-day"),
        ("/tiles/", "day", "https://map.example.net/tiles/day"),
        ("", "./data/renders/Isles/", f"{PAGE}data/renders/Isles/"),
        ("", "my world", f"{PAGE}my%20world"),
    ],
)
def test_base_and_path_are_joined_letter_by_letter(base, path, folder):
    text = MINIMAL.replace('"path": "day"', f'"path": "{path}", "base": "{base}"')
    assert parse_config(text, PAGE)[0].addresses.folder == folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "is a Git-LFS pointer"),
        (MINIMAL[:150], "is cut off"),
        ("", "does not set overviewerConfig"),
        ("var x = {};", "does not set overviewerConfig"),
        ("var overviewerConfig = {};", "tilesets"),
    ],
)
def test_text_that_is_no_configuration_is_refused_with_what_it_is(text, message):
    with pytest.raises(SiteError, match=message) as raised:
        parse_config(text, PAGE)
    assert raised.value.exit_status is ExitStatus.UNREACHABLE


@pytest.mark.parametrize(("layers", "kept"), [((), ["day"]), (("caves", "day"), ["caves", "day"])])
def test_layers_that_are_kept_are_those_that_are_named_or_no_overlays(layers, kept):
    site = WrittenSite({"overviewerConfig.js": MINIMAL})
    assert [layer.name for layer in site.probed("overviewer", layers=layers).layers] == kept
    with pytest.raises(ConfigurationError, match="no layer 'night'; it has: day, ores, caves"):
        site.probed("overviewer", layers=("night",))


@pytest.mark.parametrize("north", range(4))
@pytest.mark.parametrize(("levels", "tile_size"), [(1, 384), (7, 384), (12, 256)])
@pytest.mark.parametrize("block", [(0, 64, 0), (15, 64, 15), (-220, 64, -89), (7, 255, -1), (100_000, -9, 3)])
def test_blocks_lie_where_overviewers_own_page_draws_them(north, levels, tile_size, block):
    """`fromWorldToLatLng` of its `util.js`, with exact fractions of the whole map."""
    x, y, z = block
    x, z = {0: (x, z), 1: (-z + 15, x), 2: (-x + 15, -z + 15), 3: (z, -x + 15)}[north]
    pixel = Fraction(1, tile_size * 2**levels)
    lng = Fraction(1, 2) - Fraction(1, 2 ** (levels + 1)) + 12 * x * pixel + 12 * z * pixel + 12 * pixel
    lat = Fraction(1, 2) - 6 * x * pixel + 6 * z * pixel + 12 * (256 - y) * pixel
    units = 2 ** (levels + 1)
    drawn = float((lng - Fraction(1, 2)) * units), -float((lat - Fraction(1, 2)) * units)
    projection = projection_of(tile_size, north)
    # The page takes the middle of the block.
    assert projection.point_of(block[0] + 0.5, block[2] + 0.5, y) == pytest.approx(drawn)
    if y == 64:
        assert projection.block_at(*drawn) == (block[0], block[2])
