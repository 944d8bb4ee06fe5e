"""The forms in which renderers publish a map: the addresses of tiles, and the files beside them.

They follow what the renderers themselves write, and not the code that reads it here. So a harvest of a map
that was published in a form is a test of both. The island lies in the world as each renderer's formula says.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, ClassVar, Final

from PIL import Image

from tileharvest.demo.painter import SCALE
from tileharvest.demo.pyramid import TILE_SIDE, Cut
from tileharvest.demo.world import SPAWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


class Form:
    """How one renderer publishes. It has no state."""

    renderer: ClassVar[str]
    """Its name in maps.toml."""
    cut: ClassVar[Cut]
    folder: ClassVar[str]
    """The folder of all tiles. It holds no file that is not published here."""
    page: ClassVar[str] = ""
    """The path, below the site's address, that the map's entry in maps.toml names."""
    town: ClassVar[Sequence[str]] = ()
    """Two corners around the town, which get a name, or nothing where its place depends on the projection."""

    def path(self, tile: Tile, depth: int) -> str:
        """Returns the path of a tile's file below the site's folder."""
        raise NotImplementedError

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
        """Returns the texts of all other files, by their paths. `drawn_at` is in seconds since 1970."""
        raise NotImplementedError

    def bytes_of(self, tile: DrawnTile) -> bytes:
        """Returns the bytes of a tile's file."""
        return tile.png


class SquareForm(Form):
    """The form of maps that are squares around their middle: each zoom divides them into four."""

    cut = Cut()
    first_digit: ClassVar[int]
    """The least of the four digits in the paths of tiles."""

    def path(self, tile: Tile, depth: int) -> str:
        """Returns the folder, and a digit for each zoom, from the coarsest."""
        levels = range(depth - 1 + tile.zoom, -1, -1)
        # Counted from the left and the upper edge of the square, which is 2^(depth + zoom) tiles wide.
        half = 1 << depth + tile.zoom - 1
        column, row = tile.column + half, tile.row + half
        digits = (self.first_digit + (column >> level & 1) + 2 * (row >> level & 1) for level in levels)
        return f"{self.folder}/{'/'.join(map(str, digits))}.png"


class OverviewerForm(SquareForm):
    """Minecraft-Overviewer 0.19."""

    renderer = "overviewer"
    town = (
        f"{_ON_OVERVIEWER[0] - 32},{_ON_OVERVIEWER[2] - 32}",
        f"{_ON_OVERVIEWER[0] + 32},{_ON_OVERVIEWER[2] + 32}",
    )
    folder = "world-day"
    first_digit = 0

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
        tileset = {
            "name": "Day",
            "path": self.folder,
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


class MapcrafterForm(SquareForm):
    """Mapcrafter 2. The picture is Overviewer's: a block is 12 pixels to the side, 6 down and 12 high."""

    renderer = "mapcrafter"
    folder = "map_island/tl"
    first_digit = 1

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
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


class SquaremapForm(Form):
    """squaremap."""

    renderer = "squaremap"
    cut = Cut(size=(512, 512), zooms=4, is_from_above=True)
    folder = "tiles"

    def path(self, tile: Tile, depth: int) -> str:
        return f"tiles/{_WORLD}/{depth - 1 + tile.zoom}/{tile.column}_{tile.row}.png"

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
        world = {"name": _WORLD, "display_name": "minecraft:overworld", "type": "normal", "order": 0}
        zoom = {"def": depth - 1, "max": depth - 1, "extra": 2}
        settings = {"spawn": _FROM_ABOVE, "zoom": zoom}
        return {
            "tiles/settings.json": json.dumps({"worlds": [world], "ui": {"title": "squaremap - {world}"}}),
            f"tiles/{_WORLD}/settings.json": json.dumps(settings),
            "index.html": '<meta property="og:title" content="squaremap">\n',
        }


class Pl3xMapForm(Form):
    """Pl3xMap."""

    renderer = "pl3xmap"
    cut = Cut(size=(512, 512), zooms=4, is_from_above=True)
    folder = "tiles"

    def path(self, tile: Tile, depth: int) -> str:
        return f"tiles/minecraft-overworld/{-tile.zoom}/basic/{tile.column}_{tile.row}.png"

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
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


class BlueMapForm(Form):
    """BlueMap 5, of low resolution."""

    renderer = "bluemap"
    cut = Cut(size=(500, 500), factor=5, zooms=3, is_from_above=True)
    folder = "maps"

    def path(self, tile: Tile, depth: int) -> str:
        column, row = (("-" if one < 0 else "") + "/".join(str(abs(one))) for one in (tile.column, tile.row))
        return f"maps/island/tiles/{1 - tile.zoom}/x{column}/z{row}.png"

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
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

    def bytes_of(self, tile: DrawnTile) -> bytes:
        """Returns an image with the picture in its upper part, and height and light in the lower one."""
        whole = Image.new("RGBA", (501, 1002))
        whole.paste(tile.image)
        whole.paste((0, _SEA, 0, 255), (0, 501, 501, 1002))
        file = io.BytesIO()
        whole.save(file, "PNG", compress_level=1)
        return file.getvalue()


class UnminedForm(Form):
    """uNmINeD. A block is a pixel at its zoom 0, which is the deepest one."""

    renderer = "unmined"
    cut = Cut(size=(256, 256), zooms=4, is_from_above=True)
    folder = "tiles"

    def path(self, tile: Tile, depth: int) -> str:
        x, y = tile.column, tile.row
        return f"tiles/zoom.{tile.zoom}/{x // 10}/{y // 10}/tile.{x}.{y}.png"

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
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


class DynmapForm(Form):
    """Dynmap 3, of a site without its own server. The picture is that of Overviewer."""

    renderer = "dynmap"
    # Its rows begin at the upper edge of those that it counts upwards from 0. The sea is drawn 12 * 64 pixels
    # above the world's origin.
    cut = Cut(size=(256, 256), zooms=4, down=256 - 12 * _SEA)
    folder = "tiles"

    def path(self, tile: Tile, depth: int) -> str:
        out = -tile.zoom
        x, y = tile.column << out, -(tile.row << out)
        zoomed = f"{'z' * out}_" if out else ""
        return f"tiles/island/surface/{x >> 5}_{y >> 5}/{zoomed}{x}_{y}.png"

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
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


class XyzForm(Form):
    """Plain tiles with a TileJSON. The map lies in the middle of a square of 32 x 32 deepest tiles."""

    renderer = "xyz"
    cut = Cut(size=(256, 256), zooms=4, right=16 * 256, down=16 * 256)
    folder = "tiles"
    page = "tiles.json"

    def path(self, tile: Tile, depth: int) -> str:
        return f"tiles/{5 + tile.zoom}/{tile.column}/{tile.row}.png"

    def files(self, depth: int, drawn_at: int, tiles: Tiles) -> dict[str, str]:
        description = {
            "tilejson": "3.0.0",
            "name": "The demo's island",
            "tiles": ["tiles/{z}/{x}/{y}.png"],
            "minzoom": 6 - depth,
            "maxzoom": 5,
            "bounds": [-180, -85.0511, 180, 85.0511],
        }
        return {"tiles.json": json.dumps(description)}


_ALL: Final[Sequence[Form]] = (
    OverviewerForm(),
    MapcrafterForm(),
    SquaremapForm(),
    Pl3xMapForm(),
    BlueMapForm(),
    UnminedForm(),
    DynmapForm(),
    XyzForm(),
)
FORMS: Final[Mapping[str, Form]] = {form.renderer: form for form in _ALL}
"""By the renderer's name."""
