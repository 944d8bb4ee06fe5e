"""MinedMap's sites: `data/info.json` names every tile (`metadata_writer.rs` of its source)."""

import re
from typing import NamedTuple

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.site import Site, UnrecognisedError, fetch_config, kept_layers
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.projection import Projection
from tileharvest.tiles.pyramid import Pyramid


class Mipmap(msgspec.Struct):
    regions: dict[int, list[int]]  # by row the columns of its tiles


class Info(msgspec.Struct):
    mipmaps: list[Mipmap]  # the deepest zoom first
    spawn: dict[str, int]


class Drawn(frozenset):
    def at(self, zoom):
        return sorted(tile for tile in self if tile.zoom == zoom)


class Addresses(NamedTuple):
    folder: str

    def url_of(self, tile):
        return f"{self.folder}/{-tile.zoom}/r.{tile.column}.{tile.row}.png"

    def tile_of(self, url):
        path = url.partition("?")[0]
        found = re.fullmatch(r"/(\d\d?)/r\.(-?\d+)\.(-?\d+)\.png", path.removeprefix(self.folder))
        tile = Tile.at(-int(found[1]), int(found[2]), int(found[3])) if found else None
        return tile if tile and self.url_of(tile) == path else None


class MinedMap(Renderer):
    name = "minedmap"
    title = "MinedMap"
    sign = "data/info.json"
    doubt = "it leaves the time of a parent whose bytes stay as it was"  # `fs.rs`

    def recognises(self, page):
        return "MinedMap.js" in page

    async def probe(self, description, fetch):
        url = description.page + self.sign
        answer = await fetch_config(fetch, url)
        if answer is None:
            raise UnrecognisedError(f"there is no {url}: is the address right, or has the map moved?")
        try:
            info = msgspec.json.decode(answer.body, type=Info)
            rows = [(-n, *row) for n, mipmap in enumerate(info.mipmaps) for row in mipmap.regions.items()]
            tiles = Drawn(Tile.at(zoom, column, row) for zoom, row, columns in rows for column in columns)
            pyramid = Pyramid.listed(len(info.mipmaps), tiles)
            spawn = info.spawn["x"], 64, info.spawn["z"]
        except (msgspec.DecodeError, LookupError, ValueError) as error:
            raise SiteError(f"{url} is not as MinedMap writes it: {error}") from None
        layer = Layer(
            name="map",
            pyramid=pyramid,
            image_extension="png",
            addresses=Addresses(f"{description.page}data/map"),
            tile_size=(512, 512),
            projection=Projection((1 / 256, 0, 0, 0), (0, 0, -1 / 256, 0)),  # 512 blocks are 2 grid units
            spawn=spawn,
        )
        return Site(self.name, kept_layers(description, [layer], url))
