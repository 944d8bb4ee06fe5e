"""BlueMap's sites. Only their images of low resolution are kept.

Names and formulas follow its own page (`common/webapp/src/js/map/Map.js` and `util/Utils.js` of its source).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import defaultdict
from dataclasses import replace
from itertools import product
from math import floor
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import quote, urljoin

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.addresses import PathAddresses
from tileharvest.renderers.bounds import (
    MOST_LAYERS,
    Block,
    Name,
    Number,
    Side,
    Text,
    converted,
    flattened,
    read_json,
)
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import ReadLayers, fetch_config
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection, tiles_around
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import MOST_FACTOR, Pyramid
from tileharvest.tiles.verdict import Answer
from tileharvest.walk.change_index import ChangeIndex

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched, Site

SETTINGS_FILE: Final = "settings.json"
LEFT_ALONE: Final = (
    "BlueMap's tiles of high resolution are models and no images: they are left alone, and its images of low"
    " resolution are kept"
)

_NO_CONTENT: Final = 204
_REGIONS: Final = 64
"""Regions along the edge of the square that one file describes. A region is 512 blocks wide."""
_MOST_REGION_BYTES: Final = 1024 * 1024
_MOST_STAMPS: Final = 4_000_000
"""The most pairs of a region and a tile that shows it. A world of 65,536 x 65,536 blocks with tiles of 500
has 200,000."""
_UPDATE_TIMES: Final = b"\x0b\x00\x11last-update-times\x00\x00\x10\x00"
"""The bytes before the integers: the kind of the tag, its name, and the number of integers."""
_MARGIN: Final = 64
"""Blocks beyond a region that may have changed with it. A model is 32 blocks wide and begins 2 blocks off, so
it reaches into the next region; and the first line of an image is also the last line of the image before."""
_TILE: Final = re.compile(r"/(\d{1,2})/x(-?\d(?:/\d)*)/z(-?\d(?:/\d)*)", re.ASCII)

_Place: TypeAlias = tuple[int, int]
"""Column and row of a region or a tile."""
_Factor: TypeAlias = Annotated[int, msgspec.Meta(ge=2, le=MOST_FACTOR)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=12)]
"""The number of levels. With twelve levels of the least factor, 2, one image shows a world's whole width."""


class _Settings(msgspec.Struct, rename="camel"):
    maps: Annotated[list[Name], msgspec.Meta(max_length=MOST_LAYERS)]
    map_data_root: Text = "maps"
    """The folder of the maps: relative to the page, or an address. Versions before 5 do not write it."""


class _Map(msgspec.Struct):
    tile_size: tuple[Side, Side] = msgspec.field(name="lowres.tileSize")
    lod_factor: _Factor = msgspec.field(name="lowres.lodFactor")
    lod_count: _Count = msgspec.field(name="lowres.lodCount")
    name: Text | None = None
    sorting: Number = 1_000_000
    start_pos: tuple[Block, Block] = msgspec.field(name="startPos", default=(0, 0))
    void_color: list[Number] = msgspec.field(name="voidColor", default_factory=list)


class BlueMap(Renderer):
    """BlueMap.

    BlueMap saves a tile before its parent, and writes the parent even if its bytes stay the same
    (`LowresLayer.java`). So the times of its files may prove that nothing below has changed. If a host tells
    no times, or times of its own, the proof shows it.

    BlueMap's own server answers HEAD with a body (`MapStorageRequestHandler.java`), which a client takes for
    the next answer on the connection. So HEAD is never sent. On a file server a conditional GET costs no more
    than a HEAD. The own server of version 5 sends neither ETag nor Last-Modified, so each GET brings the
    whole image.
    """

    name = "bluemap"
    title = "BlueMap"
    files = (SETTINGS_FILE,)
    sign = f"{SETTINGS_FILE} with 'maps'"
    doubt = None

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        site = await super().probe(description, fetch)
        return replace(site, answers_head=False, notes=(LEFT_ALONE,))

    async def layers(self, found: Fetched, description: MapDescription, fetch: Fetch) -> ReadLayers:
        """Returns a layer for each map that the site lists, in the order of its menu.

        It costs a request for each map that is kept. A map that is listed without settings of its own is left
        out, as on the site's own page.
        """
        settings = converted(read_json(found.body), _Settings)
        root = urljoin(found.url, settings.map_data_root.rstrip("/") + "/")
        listed = tuple(dict.fromkeys(settings.maps))
        is_named = description.layers and set(description.layers) <= set(listed)
        layers, order = ReadLayers(found.url, self.title), dict[str, float]()
        for name in description.layers if is_named else listed:
            folder = f"{root}{quote(name)}"
            its = await fetch_config(fetch, f"{folder}/{SETTINGS_FILE}")
            if its is not None:
                with layers.reading(name, its.url):
                    described = converted(flattened(read_json(its.body), "lowres"), _Map)
                    layers.append(_layer(described, name, f"{folder}/tiles"))
                    order[name] = described.sorting
        layers.sort(key=lambda layer: order[layer.name])
        return layers

    async def change_index(self, layer: Layer, fetch: Fetch) -> ChangeIndex | None:
        """Returns the time at which each region of the map was last drawn. BlueMap publishes it from 5.22 on,
        on file servers.

        A file describes 64 x 64 regions, so the four files around the origin describe a world of 65,536 x
        65,536 blocks. A larger world has no index here. The files of versions before 5.22, each of 1,024 x
        1,024 blocks, are not used: they cost as many requests as a walk that is pruned by the times, and
        named far more than had changed.
        """
        folder = f"{layer.addresses.folder.removesuffix('/tiles')}/rstate/regions"
        times: dict[_Place, int] = {}
        for column, row in product((0, -1), repeat=2):
            url = f"{folder}/x{_digits(column)}/z{_digits(row)}.regions.dat"
            answer = await fetch_config(fetch, url)
            for place, time in enumerate(parse_regions(answer.body, url)) if answer is not None else ():
                if time:
                    times[_REGIONS * column + place % _REGIONS, _REGIONS * row + place // _REGIONS] = time
        is_larger = any(one in (-_REGIONS, _REGIONS - 1) for place in times for one in place)
        return None if is_larger or not times else ChangeIndex("regions", _stamps(times, layer.tile_size[0]))

    def markers(self, layer: Layer) -> str | None:
        return f"{layer.addresses.folder.removesuffix('/tiles')}/live/markers.json"

    def understood(self, answer: Answer) -> Answer:
        """Returns 404 for a 204, with which BlueMap's own servers answer for a missing tile."""
        return Answer(404) if answer.status == _NO_CONTENT else answer


def write_path(zoom: int, column: int, row: int) -> str:
    """Returns a tile's path. Each digit of a number but the last is a folder, as in `/1/x-1/2/z3`."""
    return f"/{1 - zoom}/x{_digits(column)}/z{_digits(row)}"


def read_path(path: str) -> Tile | None:
    match = _TILE.fullmatch(path)
    if match is None:
        return None
    level, column, row = (int(part.replace("/", "")) for part in match.groups())
    return Tile.at(1 - level, column, row)


def parse_regions(body: bytes, url: str) -> tuple[int, ...]:
    """Returns when each of 64 x 64 regions was last drawn, row by row, in seconds since 1970.

    A region that was never drawn has 0. The file is gzipped NBT, a compound with a list of integers
    (`MapRegionState.java`). `url` is its address. Raises SiteError for a file that is anything else.
    """
    try:
        data = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(body, _MOST_REGION_BYTES)
        start = data.index(_UPDATE_TIMES) + len(_UPDATE_TIMES)
        return struct.unpack_from(f">{_REGIONS * _REGIONS}i", data, start)
    except (zlib.error, ValueError, struct.error) as error:
        raise SiteError(f"{url} is cut off, damaged or of another form ({error})") from None


def _stamps(times: Mapping[_Place, int], size: int) -> tuple[tuple[int, int, str], ...]:
    """Returns x and y of each tile of the finest zoom, with the times of the regions that it shows as a
    stamp. `size` is the tile's width in blocks. Raises SiteError for more than can be read."""
    by_tile: defaultdict[_Place, list[str]] = defaultdict(list)
    if len(times) * ((512 + 2 * _MARGIN) // size + 2) ** 2 > _MOST_STAMPS:
        raise SiteError(f"{len(times):,} regions with tiles of {size} blocks are more than can be read")
    for (x, z), time in sorted(times.items()):
        columns, rows = (
            range((512 * place - _MARGIN) // size, (512 * (place + 1) + _MARGIN) // size + 1)
            for place in (x, z)
        )
        for tile in product(columns, rows):
            by_tile[tile].append(f"{x},{z}:{time}")
    deepest = ((Tile.at(0, *place), its) for place, its in sorted(by_tile.items()))
    return tuple((tile.x, tile.y, " ".join(its)) for tile, its in deepest)


def _layer(settings: _Map, name: str, folder: str) -> Layer:
    east, south = settings.start_pos
    size, height = settings.tile_size
    if size != height:
        raise ValueError(f"its tiles are {size} x {height} blocks, and no squares")
    depth, factor = settings.lod_count, settings.lod_factor
    projection = Projection.from_above(size)
    # The world's origin lies at the edge of a tile, and the land may lie on the other side of the edge.
    seeds = tiles_around(1 - depth, [(0, 0), projection.point_of(east, south)], factor)
    return Layer(
        name=name,
        pyramid=Pyramid.endless(depth, seeds, factor),
        image_extension="png",
        addresses=PathAddresses(folder, depth, "png", write_path, read_path),
        tile_size=(size, size),
        world=settings.name,
        projection=projection,
        # The settings name no height.
        spawn=(floor(east), round(projection.height), floor(south)),
        background=_colour(settings.void_color),
    )


def _colour(parts: list[float]) -> str | None:
    """Returns the CSS colour of red, green and blue from 0 to 1, or None for anything else."""
    if len(parts) < 3:
        return None
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, part))):02x}" for part in parts[:3])


def _digits(number: int) -> str:
    return ("-" if number < 0 else "") + "/".join(str(abs(number)))
