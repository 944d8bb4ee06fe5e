"""uNmINeD's sites: the properties of a map, the regions of which it has tiles, and the tiles' addresses.

uNmINeD is a closed program; only the files that it writes are known. The names of files and fields, and the
way in which regions are looked up, follow its exported page (`tileUrlFunction` of its
`unmined.openlayers.js`).
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.addresses import PathAddresses
from tileharvest.renderers.bounds import Suffix, Text, Whole, converted, read_script
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import as_written, fetch_config, is_there, not_found
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import ListedTiles, Pyramid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched

PROPERTIES_FILE: Final = "unmined.map.properties.js"
REGIONS_FILE: Final = "unmined.map.regions.js"
LAYER: Final = "tiles"
"""The name of a site's only layer: the folder of its tiles. The world's name will not do, because the owner
may change it."""
FINEST: Final = 4
"""The zoom of uNmINeD that is zoom 0 of the grid, however deep a map is. So tiles keep their names if a map
is drawn deeper one day. At this zoom a block is 16 pixels wide, as many as its texture has. Most maps end at
uNmINeD's zoom 0, where a block is one pixel. Scripts that call uNmINeD ask for the zooms -2 to 4."""
TILE_SIZE: Final = 256, 256
BLOCKS: Final = Projection.from_above(16)
"""At the finest zoom a tile has 256 / 2^4 blocks along its edge."""

_PROPERTIES: Final = "UnminedMapProperties"
_REGIONS: Final = re.compile("Unmined(?:Map)?Regions")
_ARRAY: Final = re.compile(r"new\s+Uint32Array\s*\(\s*(\[[^\[\]]*\])\s*\)")
_REGION_ZOOM: Final = -1
"""The zoom of uNmINeD at which a tile is a region, 512 blocks wide."""
_GROUP: Final = 32
"""Regions along the edge of a group. The bits of a group are written together, a word for each row."""
_FARTHEST: Final = 1 << 17
"""The greatest distance of a region from the origin, in regions. A Minecraft world ends 58,594 regions from
its origin."""
_MOST_REGIONS: Final = 200_000
"""The most regions of a site. They have 52 billion blocks."""
_COARSEST: Final = -22
"""The coarsest zoom of uNmINeD that is accepted. One of its tiles is wider than a Minecraft world."""
_NUMBER: Final = r"(0|-?[1-9]\d{0,8})"
_TILE: Final = re.compile(rf"/zoom\.(-?\d{{1,2}})/-?\d+/-?\d+/tile\.{_NUMBER}\.{_NUMBER}", re.ASCII)

Place = tuple[int, int]
"""Column and row."""


class _Properties(msgspec.Struct, rename="camel"):
    min_zoom: Whole
    max_zoom: Whole
    """The deepest zoom. Owners raise it by hand, for a page that enlarges the deepest tiles: 9 was seen on a
    site whose tiles end at 0."""
    image_format: Suffix
    world_name: Text = ""
    background: Text = ""


class _Group(msgspec.Struct):
    x: Whole
    z: Whole
    m: list[Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]] | None = None
    """A word for each row, with a bit for each region. There are 256 words, of which 32 are used. None in
    files of old versions: then x and z are those of one region."""

    def regions(self) -> Iterable[Place]:
        """Yields column and row of each region of the group that is drawn."""
        if self.m is None:
            yield self.x, self.z
            return
        for j, word in enumerate(self.m[:_GROUP]):
            for i in range(_GROUP):
                if word >> i & 1:
                    yield self.x * _GROUP + i, self.z * _GROUP + j


def write_path(zoom: int, column: int, row: int) -> str:
    """Returns a tile's path. Ten columns and ten rows share a folder."""
    return f"/zoom.{zoom + FINEST}/{column // 10}/{row // 10}/tile.{column}.{row}"


def read_path(path: str) -> Tile | None:
    found = _TILE.fullmatch(path)
    return None if found is None else Tile.at(int(found[1]) - FINEST, int(found[2]), int(found[3]))


def existing_tiles(regions: Collection[Place], coarsest: int, deepest: int) -> ListedTiles:
    """Returns the tiles of a map, whose zooms are uNmINeD's: at each zoom those that show a drawn region, or
    part of one."""

    def listed() -> Iterator[Tile]:
        places = set(regions)
        for zoom in range(_REGION_ZOOM, min(coarsest, _REGION_ZOOM) - 1, -1):
            if zoom <= deepest:
                yield from (Tile.at(zoom - FINEST, *place) for place in places)
            places = {(x >> 1, y >> 1) for x, y in places}

    return ListedTiles(listed(), deeper=max(0, deepest - _REGION_ZOOM))


class Unmined(Renderer):
    """uNmINeD. Its sites are static files.

    uNmINeD does not document when it writes the parents of a changed tile. In a repository with 13,807
    changed tiles the bytes of the parent changed each time. So an unchanged parent is taken to prove its
    children, if the times of the host agree in a full walk.
    """

    name = "unmined"
    title = "uNmINeD"
    files = (PROPERTIES_FILE, REGIONS_FILE)
    doubt = None

    async def layers(self, found: Fetched, description: MapDescription, fetch: Fetch) -> list[Layer]:
        """Returns the one layer of the site. It costs a further request for each zoom above 0 that is drawn,
        and one more if `maxZoom` names a deeper zoom than is drawn."""
        start = found.text.find(_PROPERTIES)
        if start < 0:
            raise not_found(f"{found.url} does not set {_PROPERTIES}")
        properties = converted(read_script(found.text[start:]), _Properties)
        url = found.folder + REGIONS_FILE
        answer = await fetch_config(fetch, url)
        if answer is None:
            raise SiteError(f"there is no {url}, which says what tiles the map has; tell its owner")
        regions = parse_regions(answer.text, url)
        folder, extension = f"{found.folder}tiles", properties.image_format
        # Whatever zooms the map has: its owner may draw others one day.
        addresses = PathAddresses(folder, FINEST - _COARSEST + 1, extension, write_path, read_path)
        deepest = await _deepest(fetch, properties.max_zoom, regions, addresses)
        return [_layer(properties, regions, deepest, addresses)]


def parse_regions(text: str, url: str) -> frozenset[Place]:
    """Returns column and row of each drawn region. A region is 512 blocks wide. Raises SiteError for a
    damaged file, and for one without a region."""
    match = _REGIONS.search(text)
    if match is None:
        raise SiteError(f"{url} does not set UnminedRegions: is this a map of uNmINeD?")
    with as_written(url, "uNmINeD"):
        groups = converted(read_script(_ARRAY.sub(r"\1", text[match.end() :])), list[_Group])
        drawn = (region for group in groups for region in group.regions())
        found = frozenset(islice(drawn, _MOST_REGIONS + 1))
        far = max((max(abs(x), abs(z)) for x, z in found), default=0)
        if far > _FARTHEST:
            raise ValueError(f"a region lies {far:,} regions from the origin")
    if len(found) > _MOST_REGIONS:
        raise SiteError(f"{url} has more than {_MOST_REGIONS:,} regions, which is more than can be read")
    if not found:
        raise SiteError(f"{url} has no region: nothing of the map is drawn")
    return found


async def _deepest(fetch: Fetch, max_zoom: int, regions: frozenset[Place], addresses: PathAddresses) -> int:
    """Returns the deepest zoom of uNmINeD that is drawn.

    That is `maxZoom` if it is at most 0. A larger `maxZoom` says nothing. Then a tile of each deeper zoom is
    asked for until one is missing. The tile is taken from the drawn region next to the origin, where most
    people build.
    """
    x, z = min(regions, key=lambda region: (abs(region[0]) + abs(region[1]), region))
    deepest = min(0, max_zoom)
    while deepest < min(max_zoom, FINEST):
        across = 1 << (deepest + 1 - _REGION_ZOOM)
        tile = Tile.at(deepest + 1 - FINEST, x * across, z * across)
        if not await is_there(fetch, addresses.url_of(tile)):
            break
        deepest += 1
    return deepest


def _layer(
    properties: _Properties, regions: frozenset[Place], deepest: int, addresses: PathAddresses
) -> Layer:
    coarsest, extension = properties.min_zoom, properties.image_format
    if not _COARSEST <= coarsest <= deepest:
        raise ValueError(f"its zooms are {coarsest} to {deepest}")
    return Layer(
        name=LAYER,
        pyramid=Pyramid.listed(FINEST - coarsest + 1, existing_tiles(regions, coarsest, deepest)),
        image_extension="jpg" if extension == "jpeg" else extension,
        addresses=addresses,
        tile_size=TILE_SIZE,
        world=properties.world_name or None,
        projection=BLOCKS,
        background=properties.background or None,
    )
