"""Dynmap's sites: those of its own server, and those on a web server.

Names and formulas follow Dynmap's source: its page in `DynmapCore/src/main/resources/extracted/web`, and its
server in `DynmapCore/src/main/java/org/dynmap`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from urllib.parse import quote, urljoin

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.addresses import PathAddresses
from tileharvest.renderers.bounds import (
    MOST_LAYERS,
    Block,
    Name,
    Suffix,
    Text,
    converted,
    flattened,
    read_json,
    read_script,
)
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import ReadLayers, as_written, fetch_config, not_found, site_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection, tiles_around
from tileharvest.tiles.images import is_transparent
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched, Site

SERVER_CONFIG: Final = "up/configuration"
"""The configuration that Dynmap's own server has for its page (`DynmapCore.java`)."""
ADDRESSES_FILE: Final = "standalone/config.js"
"""The file that names the configuration and the tiles of a site without that server (`generateConfigJS` of
`JsonFileClientUpdateComponent.java`)."""

_VARIABLE: Final = "var config"
_TYPE: Final = "HDMapType"
"""The type of all maps since Dynmap 1. Earlier types have other addresses."""
_MOST_OUT: Final = 22
"""The most levels out from the deepest zoom. Dynmap itself can name 16. A tile 22 levels out is as wide as a
world, with 8 pixels a block."""
_EDGE: Final = 30_000_000
"""Blocks from the middle of a world to its end."""
_STRIDE: Final = 2
"""How far from an existing coarsest tile others are looked for: one empty place is bridged. In the published
configurations that were read, such a place is about 1,024 blocks wide, a short way for players."""
_SEA: Final = 64.0
"""The height that Dynmap's page assumes for a place without a height (`map.js`)."""
_BLANK_HASH: Final = '"305419896"'
"""The ETag of the blank image that Dynmap's server sends for a missing tile (`blankpnghash` of
`MapStorageResourceHandler.java`)."""
_BLANK_FILE: Final = "images/blank.png"
"""The address to which the scripts beside a database redirect for a missing tile (`MySQL_tiles.php`)."""
_HASH: Final = re.compile(r'"-?\d+"', re.ASCII)
_TILE: Final = re.compile(r"/-?\d+_-?\d+/(?:(z+)_)?(-?\d{1,9})_(-?\d{1,9})", re.ASCII)


_Coordinate: TypeAlias = Annotated[float, msgspec.Meta(ge=-_EDGE, le=_EDGE)]
_Listed: TypeAlias = Annotated[list[Any], msgspec.Meta(max_length=MOST_LAYERS)]


class _Urls(msgspec.Struct):
    configuration: Text = "standalone/dynmap_config.json"
    tiles: Text = "tiles/"


class _Map(msgspec.Struct, rename={"image_format": "image-format"}):
    type: Text
    name: Text = ""
    """The map's name in the links of Dynmap's page."""
    prefix: Text = ""
    """The name of the map's folder."""
    image_format: Suffix = "png"
    worldtomap: Annotated[list[Block], msgspec.Meta(min_length=6, max_length=16)] | None = None
    mapzoomout: Annotated[int, msgspec.Meta(ge=0, le=_MOST_OUT)] = 0
    """The number of levels out, those of the world included (`HDMap.java`)."""
    tilescale: Annotated[int, msgspec.Meta(ge=0, le=4)] = 0
    nightandday: bool = False
    background: Text | None = None
    backgroundday: Text | None = None
    backgroundnight: Text | None = None


class _World(msgspec.Struct):
    name: Name
    maps: _Listed = []
    x: _Coordinate = msgspec.field(name="center.x", default=0.0)
    y: _Coordinate = msgspec.field(name="center.y", default=_SEA)
    z: _Coordinate = msgspec.field(name="center.z", default=0.0)


class _Config(msgspec.Struct):
    worlds: _Listed = []
    error: Text | None = None


def write_path(zoom: int, column: int, row: int) -> str:
    """Returns a tile's path, in folders of 32 x 32 tiles, with a letter z for each level out.

    At every zoom, columns and rows are counted in deepest tiles, rows upwards. A tile has the column and the
    row of its upper left deepest tile (`getTileName` of `hdmap.js`).
    """
    out = -zoom
    x, y = column << out, -(row << out)
    zoomed = f"{'z' * out}_" if out else ""
    return f"/{x >> 5}_{y >> 5}/{zoomed}{x}_{y}"


def read_path(path: str) -> Tile | None:
    found = _TILE.fullmatch(path)
    if found is None:
        return None
    out = len(found[1] or "")
    return Tile.at(-out, int(found[2]) >> out, -int(found[3]) >> out)


class Dynmap(Renderer):
    """Dynmap. It draws a parent whenever one of the children was drawn, and gives the parent the time of its
    newest child (`processZoomFile` of `DynmapWorld.java`)."""

    name = "dynmap"
    title = "Dynmap"
    files = ("standalone/dynmap_config.json", ADDRESSES_FILE)
    sign = f"{SERVER_CONFIG} or {ADDRESSES_FILE}"
    doubt = None

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the maps of all worlds. Each is a layer, named by world and map, such as `world/flat`.

        A map that is drawn by day and by night is two layers: `world/flat` shows the night, `world/flat_day`
        the day. The configuration of Dynmap's own server is looked for first, because Dynmap's robots.txt
        allows that address.
        """
        page, urls = description.page, _Urls()
        answer = await fetch_config(fetch, page + SERVER_CONFIG)
        if answer is not None:
            page = _page_of(answer, page, SERVER_CONFIG)
        else:
            named = await fetch_config(fetch, page + ADDRESSES_FILE)
            if named is not None and _VARIABLE in named.text:
                page = _page_of(named, page, ADDRESSES_FILE)
                urls = _parse_addresses(named.text, page + ADDRESSES_FILE)
            answer = await fetch_config(fetch, urljoin(page, urls.configuration))
        if answer is None:
            other = urljoin(page, urls.configuration)
            raise not_found(f"neither {page}{SERVER_CONFIG} nor {other} names the maps of Dynmap")
        layers = parse_config(answer.body, urljoin(page, urls.tiles), answer.url)
        # The script of a site with a login sends no validators, so that only the bytes say anything.
        tells = not urls.tiles.partition("?")[0].endswith("/tiles.php")
        return replace(site_of(self.name, description, layers, answer.url), answers_head=tells)

    def markers(self, layer: Layer) -> str | None:
        tiles, world, _ = layer.addresses.folder.rsplit("/", 2)
        # Scripts beside a database have other addresses.
        return None if "?" in tiles else f"{tiles}/_markers_/marker_{world}.json"

    def understood(self, answer: Answer) -> Answer:
        """Returns 404 for the blank image that stands for a missing tile, and for a redirect to it.

        Older servers and scripts send the blank image without an ETag. No tile that Dynmap draws is blank.

        The ETags of Dynmap 3 are removed. They are hashes that Dynmap keeps by a tile's numbers alone,
        without the zoom and without day or night (`FileTreeMapStorage.java`). So tile `0_0` has the hash of
        `z_0_0`, which was drawn later, and its ETag can stay the same when the tile is drawn anew.
        Last-Modified is the tile's own.
        """
        if answer.location is not None:
            is_blank = answer.location.partition("?")[0].endswith(_BLANK_FILE)
            return Answer(404) if is_blank else answer
        said = answer.validator
        if answer.status != 200:
            return answer
        if said.entity == _BLANK_HASH or (said == Validator() and is_transparent(answer.body)):
            return Answer(404)
        if said.last_modified is not None and said.entity is not None and _HASH.fullmatch(said.entity):
            return msgspec.structs.replace(answer, validator=Validator(last_modified=said.last_modified))
        return answer


def parse_config(body: bytes, tiles: str, url: str) -> ReadLayers:
    """Returns all layers that a configuration names.

    `tiles` is the beginning of their addresses, and `url` the address of the configuration. Raises SiteError,
    which says what is wrong with the whole configuration.
    """
    layers = ReadLayers(url, "Dynmap")
    with as_written(url, "Dynmap"):
        config = converted(read_json(body), _Config)
        if config.error is not None:
            raise SiteError(f"{url} says '{config.error}' instead of which maps there are: is there a login?")
    for said in config.worlds:
        named = said.get("name") if isinstance(said, dict) else said
        with layers.reading(named):
            world = converted(flattened(said, "center"), _World)
            for described in world.maps:
                its = described if isinstance(described, dict) else {}
                name = f"{named}/{its.get('name') or its.get('prefix')}"
                with layers.reading(name):
                    layers += _layers(world, converted(described, _Map), tiles)
    return layers


def _layers(world: _World, described: _Map, tiles: str) -> tuple[Layer, ...]:
    if described.type != _TYPE or described.worldtomap is None:
        return ()
    size = 128 << described.tilescale
    projection = _projection(described.worldtomap, size)
    depth = described.mapzoomout + 1
    # Nobody says how far a map reaches, or whether anything is drawn at its world's centre and its origin.
    points = projection.point_of(world.x, world.z, world.y), projection.point_of(0, 0)
    pyramid = Pyramid.endless(depth, tiles_around(1 - depth, points), stride=_STRIDE)
    by_night = described.backgroundnight if described.nightandday else None
    backgrounds = {"": by_night, "_day": described.backgroundday}
    layers = []
    for suffix in backgrounds if described.nightandday else ("",):
        folder = f"{tiles}{quote(world.name)}/{quote(described.prefix + suffix)}"
        layers.append(
            Layer(
                name=f"{world.name}/{described.name or described.prefix}{suffix}",
                pyramid=pyramid,
                image_extension=described.image_format,
                addresses=PathAddresses(folder, depth, described.image_format, write_path, read_path),
                tile_size=(size, size),
                world=world.name,
                projection=projection,
                spawn=(round(world.x), round(world.y), round(world.z)),
                background=backgrounds[suffix] or described.background,
            )
        )
    return tuple(layers)


def _projection(matrix: list[float], size: int) -> Projection:
    """Returns where blocks are drawn, from `fromLocationToLatLng` of `hdmap.js`.

    `worldtomap` turns a place of the world into pixels of the deepest zoom, counted to the right and upwards.
    Row 0 begins a tile's height above the origin of these pixels.
    """
    unit = 2 / size
    (xe, xh, xs), (ye, yh, ys) = matrix[:3], matrix[3:6]
    return Projection(
        (unit * xe, unit * xh, unit * xs, 0.0), (unit * ye, unit * yh, unit * ys, -2.0), height=_SEA
    )


def _parse_addresses(text: str, url: str) -> _Urls:
    with as_written(url, "Dynmap"):
        urls = converted(converted(read_script(text, _VARIABLE), dict[str, Any]).get("url", {}), _Urls)
    # Dynmap's page puts the present time there (`formatUrl` of `map.js`). For the configuration any number
    # will do.
    return _Urls(urls.configuration.replace("{timestamp}", "0"), urls.tiles)


def _page_of(answer: Fetched, page: str, file: str) -> str:
    """Returns the address of the page beside which the file was found. A redirect may have led to another one
    than `page`."""
    found = answer.url.partition("?")[0]
    return found.removesuffix(file) if found.endswith(f"/{file}") else page
