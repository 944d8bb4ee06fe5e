"""Plain tiles, whoever draws them: described by a template of their addresses in maps.toml, or by a TileJSON.

A TileJSON is read as its specification says (`3.0.0/README.md` of mapbox/tilejson-spec). Degrees become
columns and rows in the Mercator projection of a square world, as everywhere on the web ("Slippy map
tilenames" of OpenStreetMap's wiki).
"""

from __future__ import annotations

from math import asinh, atan, ceil, degrees, floor, log, radians, sinh, tan
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec.structs import replace

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.description import EXAMPLES, TileBounds
from tileharvest.maps.regions import KNOWN, bounds_at
from tileharvest.maps.template import DEEPEST, Template, is_template
from tileharvest.renderers.addresses import TemplateAddresses
from tileharvest.renderers.bounds import Number, Side, Text, Whole, converted, read_json, shown
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import UnrecognisedError, fetch_config, site_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import ON_GRID, Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import EXTENSIONS
from tileharvest.walk.walk import Walk

if TYPE_CHECKING:
    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.regions import Canvas
    from tileharvest.renderers.site import Fetch, Site

_TILE_SIDE: Final = 256
_MOST_FIRST: Final = 2048**2
"""The most tiles of the coarsest zoom, all of which a walk asks for: those of the largest known canvas, and
of zoom 11 of the whole earth."""
_NO_IMAGES: Final = frozenset({"avif", "gif", "geojson", "json", "mvt", "pbf", "terrain", "tif", "tiff"})


class _TileJson(msgspec.Struct):
    tiles: Annotated[list[Text], msgspec.Meta(min_length=1, max_length=1000)]
    """Templates of the addresses of the same tiles. The first one is used."""
    scheme: Text = "xyz"
    minzoom: Whole = 0
    maxzoom: Whole | None = None
    """The deepest zoom. The specification's default, 30, is not used: nobody has drawn so deep a zoom."""
    bounds: tuple[Number, Number, Number, Number] | None = None
    """West, south, east and north. The specification's default, the world, is not used: sites of a region
    leave the bounds out, too."""
    name: Text | None = None
    format: Text = "png"
    tile_size: Side | None = msgspec.field(name="tileSize", default=None)
    """The width of a tile in pixels. The specification has no such key, but some servers write it."""


class Xyz(Renderer):
    """Plain tiles. Nothing is known of them but what maps.toml or a TileJSON says."""

    name = "xyz"
    title = "plain XYZ tiles"
    sign = "a url with {z}, {x} and {y}, or a TileJSON"
    doubt = "nobody says of plain tiles that one changes whenever a tile below it does"

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the site with its only layer, which is named by its deepest zoom, such as `zoom7`.

        That zoom is zoom 0 of the grid. With another deepest zoom all names of tiles would differ, so that is
        another layer. A template alone costs no request. Raises ConfigurationError if nobody says how far the
        tiles reach, and if the tiles are not images.
        """
        if is_template(description.url):
            said = _TileJson([description.url])
        else:
            said = await _tile_json(description.url, fetch)
        try:
            template = Template(said.tiles[0])
        except ValueError as error:
            raise SiteError(f"{description.url} has tiles at '{said.tiles[0]}': {error}") from None
        layer = _layer(description, said, template)
        return site_of(self.name, description, [layer], description.url)


def is_plain(description: MapDescription) -> bool:
    """Returns whether an entry of maps.toml shows by itself that its map is of plain tiles."""
    url, keys = description.url, {description.bounds, description.site_zooms, description.canvas}
    is_said = description.renderer == Xyz.name or keys != {None}
    return is_said or is_template(url) or urlsplit(url).path.endswith(".json")


async def _tile_json(url: str, fetch: Fetch) -> _TileJson:
    answer = await fetch_config(fetch, url)
    text = "" if answer is None else answer.text.lstrip()
    if answer is None or not text.startswith("{") or '"tilejson"' not in text:
        raise UnrecognisedError(f"{url} is not a TileJSON, and has no {{z}}, {{x}} and {{y}} itself")
    try:
        said = converted(read_json(answer.body), _TileJson)
        if said.scheme not in ("xyz", "tms"):
            raise ValueError(f"scheme is {shown(said.scheme)}: expected xyz or tms")
        template = urljoin(answer.url or url, said.tiles[0])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise SiteError(f"{url} is not as a TileJSON is written: {error}") from None
    return replace(said, tiles=[template.replace("{y}", "{-y}") if said.scheme == "tms" else template])


def _layer(description: MapDescription, said: _TileJson, template: Template) -> Layer:
    canvas = description.canvas or (KNOWN.get(description.host) if template.is_flat else None)
    coarsest, deepest = _zooms(description, said, canvas)
    pyramid = Pyramid(deepest - coarsest + 1, area=_area(description, said, deepest, canvas))
    _check_start(description, pyramid, deepest)
    ending = template.ending.lower() or said.format.lower()
    if ending in _NO_IMAGES:
        raise ConfigurationError(
            f"the tiles of map '{description.name}' are of the kind '{ending}': kept are PNG, JPEG and WebP"
        )
    extension = {"jpeg": "jpg"}.get(ending, ending)
    told = said.tile_size if canvas is None else canvas.tile
    # Tiles for screens of twice the density.
    is_doubled = "@2x" in template.form
    side = 2 * _TILE_SIDE if is_doubled else told or _TILE_SIDE
    projection = None if isinstance(description.bounds, TileBounds) else mercator(deepest)
    if canvas is not None and not canvas.earth:
        # A pixel counts as a block.
        projection = None if canvas.tile is None else Projection.from_above(canvas.tile)
    try:
        return Layer(
            name=f"zoom{deepest}",
            pyramid=pyramid,
            # The address may end with the name of a program that makes images, such as `tile.php`.
            image_extension=extension if extension in EXTENSIONS else "png",
            addresses=TemplateAddresses(template, pyramid.depth, deepest),
            tile_size=(side, side),
            tells_size=told is not None or is_doubled,
            world=said.name,
            projection=projection,
        )
    except ValueError as error:
        raise SiteError(f"{description.url}: {error}") from None


def _check_start(description: MapDescription, pyramid: Pyramid, deepest: int) -> None:
    """Raises ConfigurationError if a walk would begin with too many tiles. Zones outside of the layer are not
    judged here."""
    try:
        walk = Walk(pyramid, description.zooms, description.zones)
    except ValueError:
        return
    if walk.start_size > _MOST_FIRST:
        zoom = deepest + walk.top
        coarser = max(0, zoom - ceil(log(walk.start_size / _MOST_FIRST, 4)))
        begin = f", or begin at a coarser zoom if the site has one: site_zooms = [{coarser}, {deepest}]"
        raise ConfigurationError(
            f"map '{description.name}' would begin with the {walk.start_size:,} tiles of zoom {zoom}, and"
            f" {_MOST_FIRST:,} are the most: keep a part of it by smaller bounds, or by zones, such as"
            f" {EXAMPLES['zones']}{begin if zoom else ''}"
        )


def _zooms(description: MapDescription, said: _TileJson, canvas: Canvas | None) -> tuple[int, int]:
    """Returns the coarsest and the deepest of the site's zooms that the map has."""
    if canvas is not None:
        return canvas.zoom, canvas.zoom
    if Template(said.tiles[0]).is_flat:
        raise ConfigurationError(
            f"the address of map '{description.name}' has no {{z}}, so it is a canvas of one zoom: write how"
            f" many tiles it has, such as {EXAMPLES['canvas']}"
        )
    coarsest, deepest = description.site_zooms or (said.minzoom, said.maxzoom)
    if deepest is None:
        raise ConfigurationError(
            f"nobody says which zooms the tiles of map '{description.name}' have; write for example"
            f" {EXAMPLES['site_zooms']}, or add it with --site-zooms=4,9"
        )
    coarsest, last = max(coarsest, said.minzoom), deepest if said.maxzoom is None else said.maxzoom
    deepest = min(deepest, last)
    if coarsest > deepest:
        has = f"{said.minzoom} to {last}"
        raise ConfigurationError(
            f"map '{description.name}': none of the site's zooms {has} is among site_zooms;"
            f" write for example site_zooms = [{said.minzoom}, {last}]"
        )
    if deepest > DEEPEST or coarsest < 0:
        raise ConfigurationError(
            f"the site of map '{description.name}' names zoom {deepest if coarsest >= 0 else coarsest}, and"
            f" kept is what lies between 0 and {DEEPEST}; write for example {EXAMPLES['site_zooms']}"
        )
    return coarsest, deepest


def _area(description: MapDescription, said: _TileJson, deepest: int, canvas: Canvas | None) -> TileRange:
    bounds = description.bounds or said.bounds
    if bounds is None and canvas is not None:
        return TileRange.between(Tile.at(0, 0, 0), Tile.at(0, canvas.tiles[0] - 1, canvas.tiles[1] - 1))
    if bounds is None:
        raise ConfigurationError(
            f"nobody says how far the tiles of map '{description.name}' reach, and the world has"
            f" {4**deepest:,} of zoom {deepest}: write {EXAMPLES['bounds']}, in degrees or in tiles, or"
            " add it with --bounds=W,S,E,N"
        )
    if not isinstance(bounds, TileBounds):
        x_from, x_to, y_from, y_to = bounds_at(bounds, deepest)
        return TileRange.between(Tile.at(0, x_from, y_from), Tile.at(0, x_to, y_to))
    if bounds.zoom > deepest:
        raise ConfigurationError(
            f"map '{description.name}' has its bounds in tiles of zoom {bounds.zoom}, and no deeper one than"
            f" {deepest}; change its bounds or site_zooms"
        )
    (x_from, x_to), (y_from, y_to), zoom = bounds.x, bounds.y, bounds.zoom - deepest
    return TileRange.between(Tile.at(zoom, x_from, y_from), Tile.at(zoom, x_to, y_to))


def mercator(deepest: int) -> Projection:
    """Returns where a place of the earth lies on the grid. East is counted in degrees east. South is counted
    in degrees south as the Mercator projection stretches them, so that both are 180 at the square world's
    edge:

        south = -asinh(tan(degrees north)) * 180 / pi
    """
    half = 1 << deepest
    return Projection((half / 180, 0, 0, half), (0, 0, -half / 180, -half), height=0)


def is_on_earth(layer: Layer, renderer: str | None) -> bool:
    """Returns whether places of a layer are given by latitude and longitude. On a canvas that lies nowhere on
    earth, whose pixels count as blocks, the first one lies at the grid's origin."""
    return renderer == Xyz.name and layer.projection is not None and layer.projection.x[3] > 0


def page_place(
    layer: Layer, renderer: str | None, point: tuple[float, float]
) -> tuple[float, float, tuple[float, float] | None]:
    """Returns x and z of a point of the grid as the viewer's addresses have them, and its latitude and
    longitude, or None if the layer is not of the earth.

    Addresses count from the middle of a unit, so a block has whole numbers.
    """
    east, south = (layer.projection or ON_GRID).place_at(*point)
    if not is_on_earth(layer, renderer):
        return floor(east), floor(south), None
    return east - 0.5, south - 0.5, (latitude_of(south), east)


def latitude_of(south: float) -> float:
    """Returns the latitude, in degrees north, of a place that lies `south` in the projection of
    `mercator`."""
    return degrees(atan(sinh(-radians(south))))


def south_of(latitude: float) -> float:
    """Returns how far south a latitude, in degrees north, lies in the projection of `mercator`: the inverse
    of `latitude_of`."""
    return -degrees(asinh(tan(radians(latitude))))
