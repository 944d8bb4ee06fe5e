"""Mapcrafter's configurations as found on real sites, and where its own page draws blocks."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.renderers.sites import PAGE
from tileharvest.renderers.mapcrafter import parse_config
from tileharvest.tiles.layers import Layer

CONFIG = f"{PAGE}config.js"


def config(**changed: Any) -> str:
    """A configuration of version 2 with one map, in all four rotations."""
    keys = {
        "imageFormat": '"png"',
        "maxZoom": "6",
        "rotations": "[0, 1, 2, 3]",
        "tileSize": "288",
        "textureSize": "6",
        "renderView": '"topdown"',
        "tileSetGroup": '"g"',
        "lastRendered": "[1517115602, 0, 0, 5]",
        "world": '"w"',
    } | changed
    of_map = ", ".join(f'"{key}": {value}' for key, value in keys.items())
    group = '{"tileOffsets": [[0, 0], [2, 0], [0, 3], [-4, 5]], "tileWidth": 3}'
    return f'var CONFIG = {{"maps": {{"m": {{{of_map}}}}}, "tileSetGroups": {{"g": {group}}}}};'


def of_config(text: str) -> tuple[Layer, ...]:
    return parse_config(text, PAGE, CONFIG)


@pytest.mark.parametrize(
    ("file", "values"),
    [
        (
            "mapcrafter-2-config.js",
            ("map_myworld_topdown_day/tl", 6, "png", 288, "myworld", 1520139601),
        ),
        ("mapcrafter-1.5-index.html", ("map_backs_DSM/tl", 8, "png", 384, "backs_DSM", None)),
    ],
)
def test_real_configuration_has_the_values_that_the_file_shows(
    shared_maps: Path, file: str, values: tuple[Any, ...]
) -> None:
    text = (shared_maps / "configs" / file).read_text(encoding="utf-8")
    (layer,) = of_config(text)
    width, height = layer.tile_size
    assert width == height
    found = (layer.name, layer.depth, layer.image_extension, width, layer.world, layer.rendered)
    assert found == values


def test_each_rotation_is_a_layer_with_a_folder_of_its_own() -> None:
    layers = of_config(config())
    assert [layer.name for layer in layers] == ["m/tl", "m/tr", "m/br", "m/bl"]
    assert [layer.addresses.folder for layer in layers] == [f"{PAGE}{layer.name}" for layer in layers]
    assert [layer.rendered for layer in layers] == [1517115602, None, None, 5]
    assert not of_config(config(maxZoom="0"))
    (other,) = of_config(config(renderView='"cubist"', rotations="[0]", tileSize="[576, 384]"))
    assert (other.projection, other.tile_size) == (None, (576, 384))


def pixel(
    block: tuple[int, int, int], rotation: int, offset: tuple[int, int], *, tile_size: int, max_zoom: int
) -> tuple[float, float]:
    """Where `mcToLatLng` of version 1 draws a place, in pixels of the deepest zoom; textures of 12 pixels."""
    x, y, z = block
    for _ in range(rotation):
        x, z = -z + 512, x
    size = (12 / 2.0) / (tile_size * 2**max_zoom)
    column = x + z - offset[0] * 32
    row = z - x + (256 - y) * 2 - offset[1] * 64
    lng = 0.5 - (1.0 / 2 ** (max_zoom + 1)) + column * 2 * size
    lat = 0.5 + row * size
    return lng * tile_size * 2**max_zoom, lat * tile_size * 2**max_zoom


BLOCKS = [(0, 64, 0), (15, 64, 15), (-220, 64, -89), (7, 255, -1), (100_000, 0, 31)]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("rotation", range(4))
def test_isometric_blocks_lie_where_its_own_page_draws_them(
    block: tuple[int, int, int], rotation: int
) -> None:
    offset = (3, -2)
    text = config(renderView='"isometric"', maxZoom="8", tileSize="384", textureSize="12")
    text = re.sub(r'"tileOffsets": \[.*?\]\]', f'"tileOffsets": {[list(offset)] * 4}', text)
    layer = of_config(text)[rotation]
    assert layer.projection is not None
    right, down = pixel(block, rotation, offset, tile_size=384, max_zoom=8)
    middle = 384 * 2**8 / 2
    expected = 2 * (right - middle) / 384, -2 * (down - middle) / 384
    x, y, z = block
    assert layer.projection.point_of(x, z, y) == pytest.approx(expected)


@pytest.mark.parametrize(("x", "z"), [(block[0], block[2]) for block in BLOCKS])
@pytest.mark.parametrize("rotation", range(4))
def test_top_down_a_block_is_as_wide_as_its_texture(x: int, z: int, rotation: int) -> None:
    """As the shared README tells it: (x, z) * tileSize / (16 tileWidth) + S / 2 - offset * tileSize."""
    layer = of_config(config())[rotation]
    assert layer.projection is not None
    offset = ([0, 0], [2, 0], [0, 3], [-4, 5])[rotation]
    turned_x, turned_z = x, z
    for _ in range(rotation):
        turned_x, turned_z = 512 - turned_z, turned_x
    right, down = (turned * 288 / (16 * 3) for turned in (turned_x, turned_z))
    expected = 2 * right / 288 - 2 * offset[0], -(2 * down / 288 - 2 * offset[1])
    assert layer.projection.point_of(x, z) == pytest.approx(expected)
    assert layer.projection.place_at(*expected) == pytest.approx((x, z))
