"""The demo's map in the form of each renderer, as this program's renderer reads it."""

import asyncio
import io
from collections.abc import Callable
from datetime import date
from functools import cache

import pytest
from PIL import Image

from tests.renderers.sites import PAGE, PublishedSite
from tileharvest.demo.forms import FORMS, Form
from tileharvest.demo.publication import publish
from tileharvest.demo.sprites import MATERIALS
from tileharvest.demo.world import landscape
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS
from tileharvest.tiles.layers import Layer

FIRST_DAY = date(2026, 11, 18)
ALL = tuple(FORMS.values())
SEEN_FROM_ABOVE = [form for form in ALL if form.cut.is_from_above]
SCALE = 8
"""The blocks of the world along the edge of one of the island's blocks, for renderers that look from
above."""


def name_of(form: Form) -> str:
    return form.renderer


Published = Callable[[Form], tuple[PublishedSite, Layer]]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """A function that returns the map's first day in a form, which is published once, and its layer."""

    @cache
    def published(form: Form) -> tuple[PublishedSite, Layer]:
        folder = tmp_path_factory.mktemp(name_of(form))
        publish(1, FIRST_DAY, folder, form)
        site = PublishedSite(folder)
        description = MapDescription(name="m", url=f"{PAGE}{form.page}")
        (layer,) = asyncio.run(RENDERERS[form.renderer].probe(description, site)).layers
        return site, layer

    return published


def colour_at(site: PublishedSite, layer: Layer, x: float, z: float) -> tuple[int, ...]:
    """Returns the colour that the deepest existing image shows at a place, by the renderer's addresses and
    projection."""
    assert layer.projection is not None
    across, up = layer.projection.point_of(x, z)
    tiles = {tile: url for url in site.images() if (tile := layer.addresses.tile_of(url)) is not None}
    deepest = max(tile.zoom for tile in tiles)
    width = 2 << -deepest
    (url,) = (
        url
        for tile, url in tiles.items()
        if (tile.zoom, tile.column, tile.row) == (deepest, int(across // width), int(-up // width))
    )
    image = Image.open(io.BytesIO((site.folder / url.removeprefix(PAGE)).read_bytes())).convert("RGBA")
    place = [
        int(part % width / width * side) for part, side in zip((across, -up), layer.tile_size, strict=True)
    ]
    return tuple(image.getpixel((place[0], place[1])))


@pytest.mark.parametrize("form", ALL, ids=name_of)
def test_every_image_that_is_published_is_a_tile(form: Form, published: Published) -> None:
    site, layer = published(form)
    assert layer.tile_size == form.cut.size
    tiles = {url: layer.addresses.tile_of(url) for url in site.images()}
    assert {url.rpartition("/")[2] for url, tile in tiles.items() if tile is None} <= {"base.png"}
    found = {tile for tile in tiles.values() if tile is not None}
    there = layer.pyramid.there
    assert all(there is None or tile in there for tile in found)
    coarsest = min(tile.zoom for tile in found)
    assert all(tile.zoom == coarsest or tile.parent(layer.pyramid.factor) in found for tile in found)


@pytest.mark.parametrize("form", SEEN_FROM_ABOVE, ids=name_of)
def test_blocks_lie_where_the_renderer_says(form: Form, published: Published) -> None:
    site, layer = published(form)
    ground, blocks = landscape(1)
    standing = {(x, z) for x, _, z in blocks}
    level = [
        place
        for place in sorted(ground)
        if place not in standing
        and {place, (place[0], place[1] - 1)} <= ground.keys()
        and ground[place].height == ground[place[0], place[1] - 1].height
        and (place[0], place[1] - 1) not in standing
    ]
    for x, z in level[:: len(level) // 7]:
        *colour, opacity = colour_at(site, layer, (x + 0.5) * SCALE, (z + 0.5) * SCALE)
        assert (tuple(colour), opacity) == (MATERIALS[ground[x, z].surface].top, 255)
    assert level[0][0] < 0 < level[-1][0]
