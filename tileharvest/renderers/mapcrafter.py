"""Mapcrafter's sites: the `config.js` of version 2, and the page of version 1.

Names and formulas follow Mapcrafter's own page (`src/data/template/static/js/mapcrafterui.js` of its source).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec

from tileharvest.renderers.addresses import QuadtreeAddresses
from tileharvest.renderers.bounds import (
    MOST_LAYERS,
    Depth,
    Name,
    Side,
    Suffix,
    Text,
    Turns,
    Whole,
    converted,
    read_script,
)
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import ReadLayers, as_written, fetch_config, not_found, site_of
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Site

CONFIG_FILE: Final = "config.js"
_VARIABLE: Final = "var CONFIG"
_ROTATIONS: Final = ("tl", "tr", "br", "bl")
"""The folders of the four rotations, in the order of quarter turns. Each is named by the corner in which
north is: tl is top left."""
_REGION: Final = 512
"""Blocks along the edge of the square within which the world is turned."""
_HEIGHT: Final = 256
"""The height in blocks from which an isometric map counts downwards."""


_Tiles: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
_Offset: TypeAlias = tuple[_Tiles, _Tiles]


class _Map(msgspec.Struct, rename="camel"):
    image_format: Suffix
    max_zoom: Depth
    rotations: list[Turns]
    tile_size: int | tuple[int, int]
    """`Layer` checks its bounds, because msgspec 0.22 fails for a bounded number beside a tuple."""
    texture_size: Side
    render_view: Text = "isometric"
    """The view. Version 1 has no other than the isometric one."""
    tile_set_group: Text | None = None
    tile_offsets: list[_Offset] = []
    last_rendered: list[Whole] = []
    world: Text | None = None


class _Group(msgspec.Struct, rename="camel"):
    tile_offsets: list[_Offset] = []
    tile_width: Annotated[int, msgspec.Meta(ge=1, le=2**16)] = 1


class _Config(msgspec.Struct, rename="camel"):
    maps: Annotated[dict[str, Any], msgspec.Meta(max_length=MOST_LAYERS)]
    tile_set_groups: dict[str, _Group] = {}
    maps_order: list[str] = []


class Mapcrafter(Renderer):
    """Mapcrafter. Its sites are static files. It draws every parent of a changed tile after the children
    (`tilerenderworker.cpp`)."""

    name = "mapcrafter"
    title = "Mapcrafter"
    files = (CONFIG_FILE, "index.html")
    sign = f"{CONFIG_FILE} or index.html with '{_VARIABLE}'"
    doubt = None

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the rotations of all maps. Each is a layer, such as `map_world/tl`."""
        page = description.page
        for url in (page + CONFIG_FILE, page):
            answer = await fetch_config(fetch, url, is_page=url == page)
            if answer is not None and _VARIABLE in answer.text:
                layers = parse_config(answer.text, answer.folder, url)
                return site_of(self.name, description, layers, url)
        raise not_found(f"neither {page}{CONFIG_FILE} nor {page} names the maps of Mapcrafter")


def parse_config(text: str, page: str, url: str) -> ReadLayers:
    """Returns all layers that a `config.js`, or the page of version 1, names. `url` is its address.

    A map without a zoom below its whole-map image was never rendered, and is left out. Raises SiteError,
    which says what is wrong.
    """
    with as_written(url, "Mapcrafter"):
        read = read_script(text, _VARIABLE)
        # Version 1 has the maps alone, by name.
        config = converted(read if "maps" in read else {"maps": read}, _Config)
    layers, order = ReadLayers(url, "Mapcrafter"), [*dict.fromkeys([*config.maps_order, *config.maps])]
    for name in order:
        if name in config.maps:
            with layers.reading(name):
                described = converted(config.maps[name], _Map)
                layers += _layers(converted(name, Name), described, config.tile_set_groups, page)
    return layers


def _layers(name: str, described: _Map, groups: Mapping[str, _Group], page: str) -> tuple[Layer, ...]:
    depth, extension = described.max_zoom, described.image_format
    if depth < 1:
        return ()
    group = groups.get(described.tile_set_group or "", _Group(described.tile_offsets))
    size = described.tile_size
    sizes = size if isinstance(size, tuple) else (size, size)
    layers = []
    for turns in described.rotations:
        offset = group.tile_offsets[turns] if turns < len(group.tile_offsets) else (0, 0)
        last = described.last_rendered[turns] if turns < len(described.last_rendered) else 0
        folder = f"{name}/{_ROTATIONS[turns]}"
        layers.append(
            Layer(
                name=folder,
                pyramid=Pyramid(depth),
                image_extension="jpg" if extension == "jpeg" else extension,
                addresses=QuadtreeAddresses(f"{page}{folder}", depth, extension, first_digit=1),
                tile_size=sizes,
                world=described.world,
                north_direction=turns,
                projection=_projection(described, group.tile_width, sizes, turns, offset),
                rendered=last or None,
                stamp=f"lastRendered {last}" if last else None,
            )
        )
    return tuple(layers)


def _projection(
    described: _Map, tile_width: int, sizes: tuple[int, int], turns: int, offset: tuple[int, int]
) -> Projection | None:
    """Returns where blocks are drawn, from `mcToLatLng` of Mapcrafter's page, or None for an unknown view.

    Each quarter turn of the world moves (x, z) to (512 - z, x).
    """
    turned_x, turned_z = (1, 0, 0), (0, 1, 0)
    for _ in range(turns):
        (xe, xs, x0), turned_z = turned_z, turned_x
        turned_x = (-xe, -xs, _REGION - x0)
    (xe, xs, x0), (ze, zs, z0) = turned_x, turned_z
    left, top = 2 * offset[0], 2 * offset[1]
    if described.render_view == "topdown":
        block = 2 / (16 * tile_width)
        across, down = block * x0 - left, top - block * z0
        return Projection((block * xe, 0, block * xs, across), (-block * ze, 0, -block * zs, down))
    if described.render_view != "isometric":
        return None
    wide, high = 2 * described.texture_size / sizes[0], described.texture_size / sizes[1]
    return Projection(
        (wide * (xe + ze), 0, wide * (xs + zs), wide * (x0 + z0 - 16) - left),
        (high * (xe - ze), 2 * high, high * (xs - zs), high * (x0 - z0 - 2 * _HEIGHT) + top),
    )
