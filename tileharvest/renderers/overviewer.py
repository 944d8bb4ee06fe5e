"""Minecraft-Overviewer's sites: their configuration, and how to find out the depth of a layer without one.

The names of its fields, and how a tile's address is made of them, follow Overviewer's own page
(`overviewer_core/data/js_src/util.js` and `overviewer_core/tileset.py` of its source).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urljoin

import msgspec

from tileharvest.errors import SiteError
from tileharvest.maps.description import MOST_LEVELS
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
    read_script,
)
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.quadtree import QuadtreeAddresses
from tileharvest.renderers.site import (
    ReadLayers,
    Site,
    UnrecognisedError,
    as_written,
    fetch_config,
    is_there,
    not_found,
    site_of,
)
from tileharvest.tiles.layers import TILE_SIDE, Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch

CONFIG_FILE: Final = "overviewerConfig.js"
_VARIABLE: Final = "overviewerConfig"
_UNRESERVED_IN_URLS: Final = "%/:?#[]@!$&'()*+,;=~-._"


class _Const(msgspec.Struct):
    tile_size: Side = msgspec.field(name="tileSize", default=TILE_SIDE)


class _Map(msgspec.Struct):
    cache_tag: Tag | Whole | None = msgspec.field(name="cacheTag", default=None)


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
    min_zoom: Whole = 0
    last_rendertime: Number | None = msgspec.field(name="last_rendertime", default=None)
    render_in_progress: bool = msgspec.field(name="render_in_progress", default=False)

    def stamp(self, cache_tag: str | int | None) -> str | None:
        """Returns a text that changes with each render of the tileset, or None if there is none.

        `last_rendertime` is the time of the newest chunk that was drawn (`get_persistent_data` of
        `tileset.py`). It stays the same if a render found nothing to draw, but also if a render was forced to
        draw all of an unchanged world anew. If there is no such time, the `cacheTag` of the site stands in.
        It changes whenever a render of any tileset begins or ends (`_output_assets` of `assetmanager.py`).
        While a render is under way, neither tells what it has drawn so far.
        """
        if self.render_in_progress:
            return None
        if self.last_rendertime:
            return f"last_rendertime {self.last_rendertime!r}"
        return None if cache_tag is None else f"cacheTag {cache_tag}"


class _Config(msgspec.Struct):
    tilesets: Annotated[list[Any], msgspec.Meta(max_length=MOST_LAYERS)]
    const: _Const = msgspec.field(name="CONST", default_factory=_Const)
    map: _Map = msgspec.field(default_factory=_Map)


class Overviewer(Renderer):
    """Minecraft-Overviewer. Its sites are static files. Every parent has the time of its newest child
    (`_render_compositetile` of its `tileset.py`)."""

    name = "overviewer"
    title = "Minecraft-Overviewer"
    files = (CONFIG_FILE,)
    doubt = None

    def recognises(self, page: str) -> bool:
        return CONFIG_FILE in page

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the layers that the site's configuration names. Without a configuration it asks for tiles.

        It asks for tiles only of layers that maps.toml names, and only if maps.toml names the renderer, too.
        Tiles are asked for by HEAD, and another renderer's own server may answer HEAD with a body, which
        breaks the connection.
        """
        url = description.page + CONFIG_FILE
        answer = await fetch_config(fetch, url)
        if answer is None:
            if description.layers and not description.renderer:
                raise UnrecognisedError(f"there is no {url}")
            return Site(self.name, await _probe_layers(description, fetch), probed=True)
        site = site_of(self.name, description, parse_config(answer.text, answer.folder), url)
        if description.depth is None:
            return site
        unused = (
            f"depth = {description.depth} of map '{description.name}' is not used: {url} tells the depths"
        )
        return replace(site, notes=(*site.notes, unused))


def parse_config(text: str, page: str) -> ReadLayers:
    """Returns all layers, overlays included, that the text of an `overviewerConfig.js` beside `page` names.

    Raises SiteError, which says what the text is instead, or which field of the whole file is wrong.
    """
    url = f"{page}{CONFIG_FILE}"
    layers = ReadLayers(url, "Overviewer")
    with as_written(url, "Overviewer"):
        config = converted(_read_script(text), _Config)
    for said in config.tilesets:
        with layers.reading(said.get("path") if isinstance(said, dict) else said):
            layers.append(_layer(converted(said, _Tileset), page, config))
    return layers


async def probe_depth(is_there: Callable[[str], Awaitable[bool]]) -> int:
    """Returns the depth of a layer, found by asking for tiles on ways downwards from its top; 0 if no tile is
    there.

    Overviewer draws a tile only if it has drawn one below it, down to the deepest level. So one of the four
    children of any tile exists, until the deepest level is reached. The child next to the map's centre is
    asked for first, because most of a map lies there: then a level takes one question. A site that has lost
    tiles breaks this law, so each of the four tiles at the top begins a way, and the longest one counts.
    """
    return max(
        [await _levels(first, towards, is_there) for first, towards in _WAYS if await is_there(first)] or [0]
    )


_WAYS: Final = (("/1", "/2"), ("/0", "/3"), ("/2", "/1"), ("/3", "/0"))
"""The four tiles at the top, each with the digit of the child that lies next to the centre, at every level
below."""


async def _levels(path: str, towards: str, is_there: Callable[[str], Awaitable[bool]]) -> int:
    """Returns the number of levels of a way down from an existing tile at the top."""
    for level in range(1, MOST_LEVELS):
        for digit in dict.fromkeys((towards, "/0", "/1", "/2", "/3")):
            if await is_there(path + digit):
                path += digit
                break
        else:
            return level
    return MOST_LEVELS


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


def _read_script(text: str) -> Any:
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("version https://git-lfs"):
        raise SiteError(
            f"{CONFIG_FILE} is a Git-LFS pointer, not the file itself: the site was published without"
            " its large files; tell its owner"
        )
    found = start.find(_VARIABLE)
    if found < 0:
        raise SiteError(f"{CONFIG_FILE} does not set {_VARIABLE}: is this a Minecraft-Overviewer map?")
    try:
        return read_script(start, _VARIABLE)
    except msgspec.DecodeError as error:
        raise SiteError(f"{CONFIG_FILE} is cut off or damaged ({error}); try again later") from None


def _layer(tileset: _Tileset, page: str, config: _Config) -> Layer:
    cache_tag, tile_size = config.map.cache_tag, config.const.tile_size
    query = "" if cache_tag is None else f"?c={quote(str(cache_tag), safe='')}"
    spawn, depth, extension = tileset.spawn, tileset.zoom_levels, tileset.imgextension
    folder = _folder_url(page, tileset.base, tileset.path)
    return Layer(
        name=tileset.path,
        pyramid=Pyramid(depth),
        image_extension=extension,
        addresses=QuadtreeAddresses(folder, depth, extension, query),
        # A list names the tilesets that the overlay may lie on; in JavaScript an empty one is true too.
        overlay=tileset.is_overlay is not False,
        tile_size=(tile_size, tile_size),
        projection=projection_of(tile_size, tileset.north_direction),
        world=tileset.world,
        north_direction=tileset.north_direction,
        spawn=(round(spawn[0]), round(spawn[1]), round(spawn[2])) if isinstance(spawn, tuple) else None,
        background=tileset.bgcolor,
        min_zoom=tileset.min_zoom,
        rendered=None if tileset.last_rendertime is None else int(tileset.last_rendertime),
        stamp=tileset.stamp(cache_tag),
    )


def _folder_url(page: str, base: str, name: str) -> str:
    """Returns the folder of a layer's tiles. As on the site's own page, base and name are written one after
    the other and taken relative to the page. Characters that no address may have are percent-encoded.
    """
    return quote(urljoin(page, base + name), safe=_UNRESERVED_IN_URLS)


async def _probe_layers(description: MapDescription, fetch: Fetch) -> tuple[Layer, ...]:
    """Returns the layers that maps.toml names."""
    if not description.layers:
        raise UnrecognisedError(
            f"there is no {description.page}{CONFIG_FILE}: is the address right, or has the map moved? put"
            f" the right url into maps.toml; if this is its address, name its layers there, such as"
            f' layers = ["world-lighting"], and the depth is probed'
        )
    return tuple([await _probe_layer(description, name, fetch) for name in description.layers])


async def _probe_layer(description: MapDescription, name: str, fetch: Fetch) -> Layer:
    folder = _folder_url(description.page, "", name)
    for extension in sorted(EXTENSIONS, key=("png", "jpg", "webp").index):

        async def has(path: str, extension: str = extension) -> bool:
            return await is_there(fetch, f"{folder}{path}.{extension}")

        if description.depth is None:
            depth = await probe_depth(has)
        else:
            # The kind of the images is still to be found out.
            depth = description.depth if any([await has(first) for first, _ in _WAYS]) else 0
        if depth == MOST_LEVELS:
            raise not_found(f"{folder} has something at every address, so these are no tiles")
        if depth:
            addresses = QuadtreeAddresses(folder, depth, extension)
            # These are Overviewer's defaults. Nothing says otherwise.
            projection = projection_of(TILE_SIDE, 0)
            return Layer(name, Pyramid(depth), extension, addresses, tells_size=False, projection=projection)
    raise not_found(f"{folder} has neither a {CONFIG_FILE} beside it nor tiles")
