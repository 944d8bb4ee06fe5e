"""The forms in which renderers publish a map: the addresses of tiles, and the files beside them.

They follow what the renderers themselves write, and not the code that reads it here. So a harvest of a map
that was published in a form is a test of both. The island lies in the world as each renderer's formula says.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from PIL import Image

from tileharvest.demo.painter import SCALE
from tileharvest.demo.pyramid import TILE_SIDE, Cut
from tileharvest.demo.world import SPAWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileharvest.demo.pyramid import DrawnTile, Tiles
    from tileharvest.tiles.grid import Tile

_SEA: Final = 64
"""The height of the sea in a Minecraft world."""
_FROM_ABOVE: Final = {"x": SPAWN[0] * SCALE, "z": SPAWN[2] * SCALE}
"""The place where players start, for renderers that look from above."""
_ON_OVERVIEWER: Final = [SPAWN[0] + 8 + 192, SPAWN[1], SPAWN[2] + 8 - 192]
"""The same place for Overviewer. It draws at the middle of its map what lies 192 blocks above the sea of a
chunk's middle, and so the sea of a place that is as far east and north of it."""
_WORLD: Final = "minecraft_overworld"


@dataclass(frozen=True, slots=True)
class Form:
    """How one renderer publishes."""

    renderer: str
    """Its name in maps.toml."""
    cut: Cut
    folder: str
    """The folder of all tiles. It holds no file that is not published here."""
    path: Callable[[Tile, int], str]
    """Returns the path of a tile's file below the site's folder. The second argument is the map's depth."""
    files: Callable[[int, int, Tiles], dict[str, str]]
    """Returns the texts of all other files, by their paths: of a map of this depth, drawn at a moment in
    seconds since 1970, with these tiles."""
    bytes_of: Callable[[DrawnTile], bytes] = attrgetter("png")
    """Returns the bytes of a tile's file."""
    page: str = ""
    """The path, below the site's address, that the map's entry in maps.toml names."""
    town: Sequence[str] = ()
    """Two corners around the town, which get a name, or nothing where its place depends on the projection."""


def _quadtree(folder: str, first_digit: int, tile: Tile, depth: int) -> str:
    """Returns the path in a map that is a square around its middle, which each zoom divides into four: a
    digit for each zoom, from the coarsest."""
    levels = range(depth - 1 + tile.zoom, -1, -1)
    # Counted from the left and the upper edge of the square, which is 2^(depth + zoom) tiles wide.
    half = 1 << depth + tile.zoom - 1
    column, row = tile.column + half, tile.row + half
    digits = (first_digit + (column >> level & 1) + 2 * (row >> level & 1) for level in levels)
    return f"{folder}/{'/'.join(map(str, digits))}.png"


def _overviewer_files(depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
    """Minecraft-Overviewer 0.19."""
    tileset = {
        "name": "Day",
        "path": "world-day",
        "world": "world",
        "minZoom": 0,
        "maxZoom": depth,
        "zoomLevels": depth,
        "defaultZoom": 1,
        "imgextension": "png",
        "bgcolor": "#1a1a1a",
        "last_rendertime": drawn_at,
        "spawn": _ON_OVERVIEWER,
        "north_direction": 0,
    }
    config = {
        "CONST": {"tileSize": TILE_SIDE},
        "worlds": ["world"],
        "map": {"cacheTag": str(drawn_at), "north_direction": "lower-left"},
        "tilesets": [tileset],
    }
    return {"overviewerConfig.js": f"var overviewerConfig = {json.dumps(config, indent=4)};\n"}


def _mapcrafter_files(depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
    """Mapcrafter 2. The picture is Overviewer's: a block is 12 pixels to the side, 6 down and 12 high."""
    described = {
        "imageFormat": "png",
        "lastRendered": [drawn_at, 0, 0, 0],
        "maxZoom": depth,
        "renderView": "isometric",
        "rotations": [0],
        "textureSize": 12,
        "tileSetGroup": "island",
        "tileSize": TILE_SIDE,
        "worldName": "island",
    }
    # The map is moved six tiles down. Unmoved, the sea would be drawn 12 * (256 - 64) pixels below its
    # middle.
    group = {"maxZoom": depth, "tileOffsets": [[0, 6]] * 4, "tileWidth": 1}
    maps, groups = {"map_island": described}, {"island": group}
    config = {"maps": maps, "mapsOrder": ["map_island"], "tileSetGroups": groups}
    return {
        "config.js": f"var CONFIG = {json.dumps(config, indent=2)};\n",
        "index.html": '<meta name="generator" content="Mapcrafter" />\n',
    }


def _squaremap_path(tile: Tile, depth: int) -> str:
    return f"tiles/{_WORLD}/{depth - 1 + tile.zoom}/{tile.column}_{tile.row}.png"


def _squaremap_files(depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
    """squaremap."""
    world = {"name": _WORLD, "display_name": "minecraft:overworld", "type": "normal", "order": 0}
    zoom = {"def": depth - 1, "max": depth - 1, "extra": 2}
    settings = {"spawn": _FROM_ABOVE, "zoom": zoom}
    return {
        "tiles/settings.json": json.dumps({"worlds": [world], "ui": {"title": "squaremap - {world}"}}),
        f"tiles/{_WORLD}/settings.json": json.dumps(settings),
        "index.html": '<meta property="og:title" content="squaremap">\n',
    }


def _pl3xmap_path(tile: Tile, depth: int) -> str:
    return f"tiles/minecraft-overworld/{-tile.zoom}/basic/{tile.column}_{tile.row}.png"


def _pl3xmap_files(depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
    """Pl3xMap."""
    styles = [{"value": "Basic", "label": "basic"}]
    world = {"name": "minecraft-overworld", "type": "overworld", "order": 0, "renderers": styles}
    zoom = {"default": 0, "maxOut": depth - 1, "maxIn": 2}
    settings = {"name": "minecraft-overworld", "spawn": _FROM_ABOVE, "zoom": zoom}
    site = {"format": "png", "worldSettings": [world]}
    return {
        "tiles/settings.json": json.dumps(site),
        "tiles/minecraft-overworld/settings.json": json.dumps(settings),
        "index.html": '<meta property="og:title" content="Pl3xMap">\n',
    }


def _bluemap_path(tile: Tile, depth: int) -> str:
    column, row = (("-" if one < 0 else "") + "/".join(str(abs(one))) for one in (tile.column, tile.row))
    return f"maps/island/tiles/{1 - tile.zoom}/x{column}/z{row}.png"


def _bluemap_files(depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
    """BlueMap 5, of low resolution."""
    settings = {"version": "5.22", "mapDataRoot": "maps", "liveDataRoot": "maps", "maps": ["island"]}
    island = {
        "name": "The demo's island",
        "sorting": 0,
        "lowres": {"tileSize": [500, 500], "lodFactor": 5, "lodCount": depth},
        "startPos": [*_FROM_ABOVE.values()],
    }
    return {
        "settings.json": json.dumps(settings),
        "maps/island/settings.json": json.dumps(island),
        "index.html": "<title>BlueMap</title>\n",
    }


def _bluemap_bytes(tile: DrawnTile) -> bytes:
    """Returns an image with the picture in its upper part, and height and light in the lower one."""
    whole = Image.new("RGBA", (501, 1002))
    whole.paste(tile.image)
    whole.paste((0, _SEA, 0, 255), (0, 501, 501, 1002))
    file = io.BytesIO()
    whole.save(file, "PNG", compress_level=1)
    return file.getvalue()


def _unmined_path(tile: Tile, depth: int) -> str:
    x, y = tile.column, tile.row
    return f"tiles/zoom.{tile.zoom}/{x // 10}/{y // 10}/tile.{x}.{y}.png"


def _unmined_files(depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
    """uNmINeD. A block is a pixel at its zoom 0, which is the deepest one."""
    # A region is 512 blocks wide, and so is a tile of zoom -1. Their bits are written by 32 x 32.
    regions = [(tile.column, tile.row) for tile in tiles if tile.zoom == -1]
    words: dict[tuple[int, int], list[int]] = {}
    for x, z in regions:
        words.setdefault((x // 32, z // 32), [0] * 256)[z % 32] |= 1 << x % 32
    groups = [f"{{ x: {x}, z: {z}, m: new Uint32Array({rows}) }}" for (x, z), rows in words.items()]
    xs, zs = [x for x, _ in regions], [z for _, z in regions]
    properties = (
        f"minZoom: {1 - depth}", "maxZoom: 0", "defaultZoom: 0", 'imageFormat: "png"',
        f"minRegionX: {min(xs)}", f"minRegionZ: {min(zs)}",
        f"maxRegionX: {max(xs)}", f"maxRegionZ: {max(zs)}",
        'worldName: "Island"', 'background: ""', "markers: new Array()",
    )  # fmt: skip
    return {
        "unmined.map.properties.js": f"var UnminedMapProperties = {{ {', '.join(properties)} }}\n",
        "unmined.map.regions.js": f"var UnminedRegions = [ {', '.join(groups)} ]\n",
        "index.html": '<script src="unmined.map.properties.js"></script>\n',
    }


def _dynmap_path(tile: Tile, depth: int) -> str:
    out = -tile.zoom
    x, y = tile.column << out, -(tile.row << out)
    zoomed = f"{'z' * out}_" if out else ""
    return f"tiles/island/surface/{x >> 5}_{y >> 5}/{zoomed}{x}_{y}.png"


def _dynmap_files(depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
    """Dynmap 3, of a site without its own server. The picture is that of Overviewer."""
    surface = {
        "type": "HDMapType",
        "name": "surface",
        "prefix": "surface",
        "image-format": "png",
        "worldtomap": [12, 0, 12, 6, 12, -6, 0, 1, 0],
        "mapzoomout": depth - 1,
        "tilescale": 1,
    }
    center = dict(zip("xyz", SPAWN, strict=True))
    world = {"name": "island", "center": center, "maps": [surface]}
    config = {"dynmapversion": "3.0-SNAPSHOT", "defaultworld": "island", "worlds": [world]}
    urls = {"configuration": "standalone/dynmap_config.json", "tiles": "tiles/"}
    return {
        "standalone/dynmap_config.json": json.dumps(config),
        "standalone/config.js": f"var config = {json.dumps({'url': urls})};\n",
        "index.html": '<script src="js/dynmaputils.js"></script>\n',
    }


def _xyz_path(tile: Tile, depth: int) -> str:
    return f"tiles/{5 + tile.zoom}/{tile.column}/{tile.row}.png"


def _xyz_files(depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
    """Plain tiles with a TileJSON. The map lies in the middle of a square of 32 x 32 deepest tiles."""
    description = {
        "tilejson": "3.0.0",
        "name": "The demo's island",
        "tiles": ["tiles/{z}/{x}/{y}.png"],
        "minzoom": 6 - depth,
        "maxzoom": 5,
        "bounds": [-180, -85.0511, 180, 85.0511],
    }
    return {"tiles.json": json.dumps(description)}


_FROM_ABOVE_BY_512: Final = Cut(size=(512, 512), zooms=4, is_from_above=True)
# Dynmap's rows begin at the upper edge of those that it counts upwards from 0. The sea is drawn 12 * 64
# pixels above the world's origin.
_DYNMAP_CUT: Final = Cut(size=(256, 256), zooms=4, down=256 - 12 * _SEA)
_BLUEMAP_CUT: Final = Cut(size=(500, 500), factor=5, zooms=3, is_from_above=True)
_UNMINED_CUT: Final = Cut(size=(256, 256), zooms=4, is_from_above=True)
_XYZ_CUT: Final = Cut(size=(256, 256), zooms=4, right=16 * 256, down=16 * 256)
_TOWN: Final = tuple(f"{_ON_OVERVIEWER[0] + far},{_ON_OVERVIEWER[2] + far}" for far in (-32, 32))
_DAY, _TL = "world-day", "map_island/tl"
_ALL: Final = (
    Form("overviewer", Cut(), _DAY, partial(_quadtree, _DAY, 0), _overviewer_files, town=_TOWN),
    Form("mapcrafter", Cut(), _TL, partial(_quadtree, _TL, 1), _mapcrafter_files),
    Form("squaremap", _FROM_ABOVE_BY_512, "tiles", _squaremap_path, _squaremap_files),
    Form("pl3xmap", _FROM_ABOVE_BY_512, "tiles", _pl3xmap_path, _pl3xmap_files),
    Form("bluemap", _BLUEMAP_CUT, "maps", _bluemap_path, _bluemap_files, _bluemap_bytes),
    Form("unmined", _UNMINED_CUT, "tiles", _unmined_path, _unmined_files),
    Form("dynmap", _DYNMAP_CUT, "tiles", _dynmap_path, _dynmap_files),
    Form("xyz", _XYZ_CUT, "tiles", _xyz_path, _xyz_files, page="tiles.json"),
)
FORMS: Final[Mapping[str, Form]] = {form.renderer: form for form in _ALL}
"""By the renderer's name."""
