"""The demo's map in the form of each renderer, as this program's renderer reads it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from datetime import date
from functools import cache

import pytest
from PIL import Image

from tests.renderers.sites import PAGE, PublishedSite
from tests.servers.side_view import SIDE_VIEW
from tileharvest.demo.forms import FORMS, Form
from tileharvest.demo.publication import publish
from tileharvest.demo.pyramid import FROM_ABOVE
from tileharvest.demo.sprites import MATERIALS
from tileharvest.demo.world import landscape
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS
from tileharvest.tiles.layers import Layer

FIRST_DAY = date(2026, 11, 18)
ALL = (*FORMS.values(), SIDE_VIEW)
SEEN_FROM_ABOVE = [form for form in ALL if form.cut.view is FROM_ABOVE]
SCALE = 8
"""The blocks of the world along the edge of one of the island's blocks, for renderers that look from
above."""


def name_of(form: Form) -> str:
    return type(form).__name__


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
    for url in site.images():
        with Image.open(io.BytesIO((site.folder / url.removeprefix(PAGE)).read_bytes())) as image:
            assert image.size == ((501, 1002) if form.renderer == "bluemap" else form.cut.size)
    tiles = {url: layer.addresses.tile_of(url) for url in site.images()}
    assert {url.rpartition("/")[2] for url, tile in tiles.items() if tile is None} <= {"base.png"}
    found = [tile for tile in tiles.values() if tile is not None]
    # Plain tiles have no negative numbers.
    signs = {False} if form.renderer == "xyz" else {True, False}
    assert {tile.column < 0 for tile in found} == {tile.row < 0 for tile in found} == signs
    deepest, coarsest = max(tile.zoom for tile in found), min(tile.zoom for tile in found)
    for tile in found:
        assert layer.pyramid.there is None or tile in layer.pyramid.there
        if tile.zoom < deepest:
            assert set(tile.children(layer.pyramid.factor)) & set(found)
        if tile.zoom > coarsest:
            assert tile.parent(layer.pyramid.factor) in found


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


def test_in_a_side_view_the_sea_lies_where_mapcrafter_says(published: Published) -> None:
    """A block of it shows its top, where nothing that stands in front is higher."""
    site, layer = published(SIDE_VIEW)
    ground, blocks = landscape(1)
    standing = {(x, z) for x, _, z in blocks}
    open_sea = [
        (x, z)
        for x, z in sorted(ground)
        if all(
            (x, z + near) not in standing and column.height == 0
            for near in range(12)
            if (column := ground.get((x, z + near))) is not None
        )
    ]
    for x, z in open_sea[:: len(open_sea) // 7]:
        *colour, opacity = colour_at(site, layer, x + 0.5, z + 0.5)
        assert (tuple(colour), opacity) == (MATERIALS[ground[x, z].surface].top, 255)
    assert open_sea[0][0] < 0 < open_sea[-1][0]


def test_overviewer_mapcrafter_and_dynmap_draw_the_same_picture(published: Published) -> None:
    """The formulas lead to the same pixels, but from other places of the world.

    The middle of Mapcrafter's map lies 8 blocks further east and south than that of Dynmap's. So does that of
    Overviewer's, which counts from 192 blocks above the sea: that is as far east and north of it.
    """
    ours, site = {}, {}
    for name in ("overviewer", "mapcrafter", "dynmap"):
        site[name], ours[name] = published(FORMS[name])
    for x, z in ((4, 30), (-42, 0), (38, -34), (-140, 45), (-10, -20)):
        there = colour_at(site["dynmap"], ours["dynmap"], x + 0.5, z + 0.5)
        assert colour_at(site["mapcrafter"], ours["mapcrafter"], x + 8.5, z + 8.5) == there
        assert colour_at(site["overviewer"], ours["overviewer"], x + 200.5, z - 183.5) == there
    spawn, its = ours["overviewer"].spawn, ours["dynmap"].spawn
    assert spawn is not None
    assert (spawn[0] - 200, spawn[1], spawn[2] + 184) == its
