"""Minecraft-Overviewer's sites: their configuration.

The names of its fields, and how a tile's address is made of them, follow Overviewer's own page
(`overviewer_core/data/js_src/util.js` and `overviewer_core/tileset.py` of its source).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urljoin

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.addresses import QuadtreeAddresses
from tileharvest.renderers.bounds import (
    MOST_LAYERS,
    Block,
    Depth,
    Name,
    Number,
    Side,
    Suffix,
    Tag,
    Text,
    Turns,
    Whole,
    converted,
    flattened,
    read_script,
)
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import ReadLayers, as_written
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import TILE_SIDE, Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched

CONFIG_FILE: Final = "overviewerConfig.js"
_VARIABLE: Final = "overviewerConfig"
_UNRESERVED_IN_URLS: Final = "%/:?#[]@!$&'()*+,;=~-._"


class _Tileset(msgspec.Struct, rename="camel"):
    path: Name
    zoom_levels: Depth
    imgextension: Suffix
    base: Text = ""
    is_overlay: bool | list[Any] = False
    world: Text | None = None
    north_direction: Turns = msgspec.field(name="north_direction", default=0)
    spawn: tuple[Block, Block, Block] | bool | None = None
    bgcolor: Text | None = None
    last_rendertime: Number | None = msgspec.field(name="last_rendertime", default=None)
    render_in_progress: bool = msgspec.field(name="render_in_progress", default=False)

    def stamp(self, cache_tag: str | int | None) -> str | None:
        """Returns a text that changes with each render of the tileset, or None if there is none.

        `last_rendertime` is the time of the newest chunk that was drawn (`get_persistent_data` of
        `tileset.py`). It stays the same if a render found nothing to draw, but also if a render was forced to
        draw all of an unchanged world anew. If there is no such time, the `cacheTag` of the site stands in.
        It changes whenever a render of any tileset begins or ends (`_output_assets` of `assetmanager.py`).
        While a render is under way, neither says what it has drawn so far.
        """
        if self.render_in_progress:
            return None
        if self.last_rendertime:
            return f"last_rendertime {self.last_rendertime!r}"
        return None if cache_tag is None else f"cacheTag {cache_tag}"


class _Config(msgspec.Struct):
    tilesets: Annotated[list[Any], msgspec.Meta(max_length=MOST_LAYERS)]
    tile_size: Side = msgspec.field(name="CONST.tileSize", default=TILE_SIDE)
    cache_tag: Tag | Whole | None = msgspec.field(name="map.cacheTag", default=None)


class Overviewer(Renderer):
    """Minecraft-Overviewer. Its sites are static files. Every parent has the time of its newest child
    (`_render_compositetile` of its `tileset.py`)."""

    name = "overviewer"
    title = "Minecraft-Overviewer"
    files = (CONFIG_FILE,)
    doubt = None

    async def layers(self, found: Fetched, description: MapDescription, fetch: Fetch) -> ReadLayers:
        return parse_config(found.text, found.folder)


def parse_config(text: str, page: str) -> ReadLayers:
    """Returns all layers, overlays included, that the text of an `overviewerConfig.js` beside `page` names.

    Raises SiteError, which says what the text is instead, or which field of the whole file is wrong.
    """
    url = f"{page}{CONFIG_FILE}"
    layers = ReadLayers(url, "Overviewer")
    with as_written(url, "Overviewer"):
        if text.lstrip("\ufeff \t\r\n").startswith("version https://git-lfs"):
            raise SiteError(
                f"{url} is a Git-LFS pointer, not the file itself: the site was published without its large"
                " files; tell its owner"
            )
        if _VARIABLE not in text:
            raise SiteError(f"{url} does not set {_VARIABLE}: is this a Minecraft-Overviewer map?")
        config = converted(flattened(read_script(text, _VARIABLE), "CONST", "map"), _Config)
    for said in config.tilesets:
        with layers.reading(said.get("path") if isinstance(said, dict) else said):
            layers.append(_layer(converted(said, _Tileset), page, config))
    return layers


def projection_of(tile_size: int, north_direction: int) -> Projection:
    """Returns where Overviewer draws blocks, from `fromWorldToLatLng` of its `util.js`.

    There a place is a fraction of the whole map, which depends on the depth. In grid units the depth cancels
    out. A step of a block moves the picture by 24 pixels to the side and 12 downwards. A block of height is
    24 pixels, counted downwards from 256:

        gridX = -1 + 24 (x' + z') / tileSize
        gridY = (12 x' - 12 z' - 24 (256 - y)) / tileSize

    where x' and z' are x and z turned by the layer's north direction.
    """
    # How much x' and z' grow for each block eastwards and southwards, and their values at 0. A chunk of 16 is
    # turned.
    turned_x, turned_z = (
        ((1, 0, 0), (0, 1, 0)),
        ((0, -1, 16), (1, 0, 0)),
        ((-1, 0, 16), (0, -1, 16)),
        ((0, 1, 0), (-1, 0, 16)),
    )[north_direction]
    (xe, xs, x0), (ze, zs, z0) = turned_x, turned_z
    block, step = 24 / tile_size, 12 / tile_size
    return Projection(
        (block * (xe + ze), 0, block * (xs + zs), block * (x0 + z0) - 1),
        (step * (xe - ze), block, step * (xs - zs), step * (x0 - z0) - 256 * block),
    )


def _layer(tileset: _Tileset, page: str, config: _Config) -> Layer:
    cache_tag, tile_size = config.cache_tag, config.tile_size
    query = "" if cache_tag is None else f"?c={quote(str(cache_tag), safe='')}"
    spawn, depth, extension = tileset.spawn, tileset.zoom_levels, tileset.imgextension
    folder = _folder_url(page, tileset.base, tileset.path)
    return Layer(
        name=tileset.path,
        pyramid=Pyramid(depth),
        image_extension=extension,
        addresses=QuadtreeAddresses(folder, depth, extension, query=query),
        # A list names the tilesets that the overlay may lie on; in JavaScript an empty one is true too.
        overlay=tileset.is_overlay is not False,
        tile_size=(tile_size, tile_size),
        projection=projection_of(tile_size, tileset.north_direction),
        world=tileset.world,
        north_direction=tileset.north_direction,
        spawn=(round(spawn[0]), round(spawn[1]), round(spawn[2])) if isinstance(spawn, tuple) else None,
        background=tileset.bgcolor,
        rendered=None if tileset.last_rendertime is None else int(tileset.last_rendertime),
        stamp=tileset.stamp(cache_tag),
    )


def _folder_url(page: str, base: str, name: str) -> str:
    """Returns the folder of a layer's tiles. As on the site's own page, base and name are written one after
    the other and taken relative to the page. Characters that no address may have are percent-encoded.
    """
    return quote(urljoin(page, base + name), safe=_UNRESERVED_IN_URLS)
