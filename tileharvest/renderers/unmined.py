"""uNmINeD's sites: the properties of a map, the regions of which it has tiles, and the tiles' addresses.

uNmINeD is a closed program, so what is known is what it writes. The names of files and fields, and the way in
which regions are looked up, follow its exported page (`tileUrlFunction` of its `unmined.openlayers.js`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.bounds import Suffix, Text, Whole, converted, read_script
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import as_written, fetch_config, is_there, not_found
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Fetched

PROPERTIES_FILE: Final = "unmined.map.properties.js"
REGIONS_FILE: Final = "unmined.map.regions.js"
LAYER: Final = "tiles"
"""The only layer of a site, by the folder of its tiles. The name of the world is its owner's, who may change
it."""
FINEST: Final = 4
"""The zoom of uNmINeD that is zoom 0 here, whatever a map has: names stay when a map is drawn deeper one day.
A block is 16 pixels wide there, as many as its texture has. Most maps end at zoom 0, where it is one pixel;
scripts that call uNmINeD ask for -2 to 4."""
TILE_SIZE: Final = 256, 256
BLOCKS: Final = Projection.from_above(16)
"""At the finest zoom a tile has 256 / 2^4 blocks along its edge."""

_PROPERTIES: Final = "UnminedMapProperties"
_REGIONS: Final = re.compile("Unmined(?:Map)?Regions")
_ARRAY: Final = re.compile(r"new\s+Uint32Array\s*\(\s*(\[[^\]]*\])\s*\)")
_REGION_ZOOM: Final = -1
"""The zoom of uNmINeD at which a tile is a region, 512 blocks wide."""
_GROUP: Final = 32
"""Regions along the edge of a group, whose bits are written together: a word for each row."""
_FARTHEST: Final = 1 << 17
"""Regions. A Minecraft world ends 58,594 regions from its origin."""
_MOST_REGIONS: Final = 200_000
"""Of a site. A tile for each block of so many would be 52 billion."""
_COARSEST: Final = -22
"""A tile of this zoom of uNmINeD is wider than such a world."""
_NUMBER: Final = r"(0|-?[1-9]\d{0,8})"
_TILE: Final = re.compile(
    rf"/zoom\.{_NUMBER}/{_NUMBER}/{_NUMBER}/tile\.{_NUMBER}\.{_NUMBER}\.(\w+)", re.ASCII
)

Place = tuple[int, int]
"""Column and row."""
_Form = TypeVar("_Form")


class _Properties(msgspec.Struct, rename="camel"):
    min_zoom: Whole
    max_zoom: Whole
    """Is edited by hand, for a page that enlarges the deepest tiles: 9 was seen where tiles end at 0."""
    image_format: Suffix
    world_name: Text = ""
    background: Text = ""


class _Group(msgspec.Struct):
    x: Whole
    z: Whole
    m: list[Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]] | None = None
    """A word for each row, a bit for each region. It has 256 words, of which 32 are used. Old versions of
    uNmINeD write none: then x and z are those of one region."""

    def regions(self) -> Iterable[Place]:
        if self.m is None:
            yield self.x, self.z
            return
        for j, word in enumerate(self.m[:_GROUP]):
            for i in range(_GROUP):
                if word >> i & 1:
                    yield self.x * _GROUP + i, self.z * _GROUP + j


@dataclass(frozen=True, slots=True)
class UnminedAddresses:
    """Where the tiles of a map lie: ten columns and ten rows share a folder."""

    folder: str
    """That of the tiles, without a slash at its end."""
    extension: str
    """As the site writes it, such as `jpeg`."""

    def url_of(self, tile: Tile) -> str:
        x, y = tile.column, tile.row
        zoom = tile.zoom + FINEST
        return f"{self.folder}/zoom.{zoom}/{x // 10}/{y // 10}/tile.{x}.{y}.{self.extension}"

    def tile_of(self, url: str) -> Tile | None:
        path = url.partition("?")[0]
        match = _TILE.fullmatch(path.removeprefix(self.folder)) if path.startswith(self.folder) else None
        if match is None:
            return None
        zoom, _, _, x, y = map(int, match.groups()[:5])
        if not _COARSEST <= zoom <= FINEST:
            return None
        tile = Tile.at(zoom - FINEST, x, y)
        return tile if self.url_of(tile) == path else None


@dataclass(frozen=True, slots=True)
class DrawnRegions:
    """The tiles of a map: at each zoom those that show a region, or part of one."""

    regions: frozenset[Place]
    coarsest: int
    deepest: int
    """Both are zooms of uNmINeD."""
    _by_zoom: dict[int, frozenset[Place]] = field(init=False, repr=False, compare=False)
    """For the zooms at which a tile is a region or wider."""

    def __post_init__(self) -> None:
        by_zoom, places = {}, self.regions
        for zoom in range(_REGION_ZOOM, self.coarsest - 1, -1):
            by_zoom[zoom] = places
            places = frozenset((x >> 1, y >> 1) for x, y in places)
        object.__setattr__(self, "_by_zoom", by_zoom)

    def __contains__(self, tile: Tile) -> bool:
        zoom = tile.zoom + FINEST
        if not self.coarsest <= zoom <= self.deepest:
            return False
        within = max(0, zoom - _REGION_ZOOM)
        places = self.regions if within else self._by_zoom[zoom]
        return (tile.column >> within, tile.row >> within) in places

    def at(self, zoom: int) -> Iterable[Tile]:
        place = zoom + FINEST
        if not self.coarsest <= place <= self.deepest:
            return []
        across = 1 << max(0, place - _REGION_ZOOM)
        places = self.regions if across > 1 else self._by_zoom[place]
        return [
            Tile.at(zoom, x * across + i, y * across + j)
            for x, y in sorted(places)
            for j in range(across)
            for i in range(across)
        ]


class Unmined(Renderer):
    """uNmINeD. Its sites are static files.

    When it writes the parents of a changed tile is not documented. In the 13,807 changes of a repository that
    was looked at, the bytes of the parent changed each time, so an unchanged parent proves its children.
    Whether the host's times agree is found out by a full walk.
    """

    name = "unmined"
    title = "uNmINeD"
    files = (PROPERTIES_FILE, REGIONS_FILE)
    doubt = None

    def recognises(self, page: str) -> bool:
        return PROPERTIES_FILE in page

    async def layers(self, found: Fetched, description: MapDescription, fetch: Fetch) -> list[Layer]:
        """Returns the one layer of the site.

        That takes a request more for each zoom above 0 that is drawn, and one where `maxZoom` names a deeper
        one than is drawn.
        """
        if _PROPERTIES not in found.text:
            raise not_found(f"{found.url} does not set {_PROPERTIES}")
        properties = parse_properties(found.text, found.url)
        regions = await _regions(fetch, found.folder + REGIONS_FILE)
        addresses = UnminedAddresses(f"{found.folder}tiles", properties.image_format)
        deepest = await _deepest(fetch, properties.max_zoom, regions, addresses)
        return [_layer(properties, regions, deepest, addresses)]


def parse_properties(text: str, url: str) -> _Properties:
    """Returns what a map's properties say. `url` is their address. Raises SiteError, which says what is
    wrong."""
    start = text.find(_PROPERTIES)
    return _parsed(text[max(0, start) :], url, _Properties)


def parse_regions(text: str, url: str) -> frozenset[Place]:
    """Returns the column and row of each region that is drawn, 512 blocks wide.

    Raises SiteError for a file that is damaged, and for one without a region.
    """
    match = _REGIONS.search(text)
    if match is None:
        raise SiteError(f"{url} does not set UnminedRegions: is this a map of uNmINeD?")
    groups = _parsed(_ARRAY.sub(r"\1", text[match.end() :]), url, list[_Group])
    drawn = (region for group in groups for region in group.regions())
    found = frozenset(islice(drawn, _MOST_REGIONS + 1))
    if len(found) > _MOST_REGIONS:
        raise SiteError(f"{url} has more than {_MOST_REGIONS:,} regions, which is more than can be read")
    if not found:
        raise SiteError(f"{url} has no region: nothing of the map is drawn")
    far = max(max(abs(x), abs(z)) for x, z in found)
    if far > _FARTHEST:
        raise SiteError(f"{url} is not as uNmINeD writes it: a region lies {far:,} regions from the origin")
    return found


async def _regions(fetch: Fetch, url: str) -> frozenset[Place]:
    answer = await fetch_config(fetch, url)
    if answer is None:
        raise SiteError(f"there is no {url}, which says what tiles the map has; tell its owner")
    return parse_regions(answer.text, url)


def _parsed(text: str, url: str, form: type[_Form]) -> _Form:
    with as_written(url, "uNmINeD"):
        return converted(read_script(text), form)


async def _deepest(
    fetch: Fetch, max_zoom: int, regions: frozenset[Place], addresses: UnminedAddresses
) -> int:
    """Returns the deepest zoom of uNmINeD that is drawn: `maxZoom`, where that is no more than 0.

    A larger one says nothing, so a tile of each deeper zoom is asked for, as far as there is one. It is that
    of the region next to the origin, where most people are.
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
    properties: _Properties, regions: frozenset[Place], deepest: int, addresses: UnminedAddresses
) -> Layer:
    coarsest, extension = properties.min_zoom, properties.image_format
    if not _COARSEST <= coarsest <= deepest:
        raise ValueError(f"its zooms are {coarsest} to {deepest}")
    return Layer(
        name=LAYER,
        pyramid=Pyramid.listed(FINEST - coarsest + 1, DrawnRegions(regions, coarsest, deepest)),
        image_extension="jpg" if extension == "jpeg" else extension,
        addresses=addresses,
        tile_size=TILE_SIZE,
        world=properties.world_name or None,
        projection=BLOCKS,
        background=properties.background or None,
    )
