"""MinedMap's sites: `data/info.json` names every tile (`metadata_writer.rs` of its source)."""

import msgspec

from tileharvest.maps.template import Template
from tileharvest.renderers.addresses import TemplateAddresses
from tileharvest.renderers.port import Renderer
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import ListedTiles, Pyramid


class Mipmap(msgspec.Struct):
    regions: dict[int, list[int]]  # by row the columns of its tiles


class Info(msgspec.Struct):
    mipmaps: list[Mipmap]  # the deepest zoom first
    spawn: dict[str, int]


class MinedMap(Renderer):
    name = "minedmap"
    title = "MinedMap"
    files = ("data/info.json",)
    doubt = "it leaves the time of a parent whose bytes stay as it was"  # `fs.rs`

    async def layers(self, found, description, fetch):
        info = msgspec.json.decode(found.body, type=Info)
        depth = len(info.mipmaps)
        rows = [(-n, *row) for n, mipmap in enumerate(info.mipmaps) for row in mipmap.regions.items()]
        tiles = ListedTiles(Tile.at(zoom, column, row) for zoom, row, columns in rows for column in columns)
        template = Template(f"{found.folder}map/{{z}}/r.{{x}}.{{y}}.png")
        layer = Layer(
            name="map",
            pyramid=Pyramid.listed(depth, tiles),
            image_extension="png",
            addresses=TemplateAddresses(template, depth, step=-1),
            tile_size=(512, 512),
            projection=Projection.from_above(512),
            spawn=(info.spawn["x"], 64, info.spawn["z"]),
        )
        return [layer]
