"""Pl3xMap's sites: `tiles/settings.json` and the settings of each world.

Names follow Pl3xMap's own source (`UpdateSettingsData.java`, `ReversedZoomTileLayer.ts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.regions import (
    BLOCKS,
    REGION,
    SETTINGS_FILE,
    Place,
    RegionAddresses,
    endless_pyramid,
    fetch_settings,
    understood,
)
from tileharvest.renderers.site import Site, UnrecognisedError, kept_layers, require_layers
from tileharvest.tiles.layers import Layer

if TYPE_CHECKING:
    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.verdict import Answer


class _Style(msgspec.Struct):
    label: str
    """Names its folder. Pl3xMap calls it a renderer."""


class _World(msgspec.Struct):
    name: str
    renderers: list[_Style] = []
    order: int = 0

    @property
    def layers(self) -> list[str]:
        return [f"{self.name}/{style.label}" for style in self.renderers]


class _Settings(msgspec.Struct, rename="camel"):
    world_settings: list[_World] | None = None
    """None: another program has written the file."""
    format: str = "png"


class _Zoom(msgspec.Struct, rename="camel"):
    max_out: Annotated[int, msgspec.Meta(ge=0)]
    """The level of the coarsest tiles. Level 0 is the deepest."""


class _WorldSettings(msgspec.Struct):
    zoom: _Zoom
    spawn: Place = Place()
    center: Place = Place()


class Pl3xMap(Renderer):
    """Pl3xMap. When it saves a region it writes the tiles of all levels, the deepest first
    (`TileImage.java`), so no parent is older than a tile below it.

    Both settings files are written anew each second, and the first one names who is online. So their
    validators tell nothing, and they are read in full.
    """

    name = "pl3xmap"
    title = "Pl3xMap"
    sign = f"{SETTINGS_FILE} with 'worldSettings'"
    doubt = None

    def recognises(self, page: str) -> bool:
        # squaremap's page names it too, with an image's address in a comment.
        return 'content="Pl3xMap"' in page or "pl3xmap.js" in page

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the renderers of all worlds, each a layer such as `minecraft-overworld/basic`.

        It asks for the settings of those worlds alone of which the map keeps a layer. A world without
        settings of its own is none.
        """
        url = description.page + SETTINGS_FILE
        found = await fetch_settings(fetch, url, _Settings, self.title)
        settings, folder = found or (_Settings(), "")
        if settings.world_settings is None:
            raise UnrecognisedError(
                f"there is no {url} that names the worlds of Pl3xMap: is the address right, or has the map"
                " moved? put the right url into maps.toml"
            )
        worlds = sorted(settings.world_settings, key=lambda world: (world.order, world.name))
        require_layers(description, [name for world in worlds for name in world.layers])
        layers: list[Layer] = []
        for world in worlds:
            if not description.layers or not set(description.layers).isdisjoint(world.layers):
                world_folder = f"{folder}/{quote(world.name)}"
                own = await fetch_settings(fetch, f"{world_folder}/settings.json", _WorldSettings, self.title)
                if own is not None:
                    layers += _layers(world, own[0], world_folder, settings.format)
        return Site(self.name, kept_layers(description, layers, url))

    def understood(self, answer: Answer, tile: Tile) -> Answer:
        return understood(answer)


def _layers(world: _World, settings: _WorldSettings, folder: str, extension: str) -> list[Layer]:
    """Returns the layers of a world whose tiles lie in this folder. Raises SiteError."""
    depth, spawn = settings.zoom.max_out + 1, settings.spawn
    ending = "jpg" if extension == "jpeg" else extension
    try:
        pyramid = endless_pyramid(depth, [spawn, settings.center])
        return [
            Layer(
                name=name,
                pyramid=pyramid,
                image_extension=ending,
                addresses=RegionAddresses(
                    folder, depth, extension, subfolder=f"/{quote(style.label)}", deepest_is_0=True
                ),
                tile_size=(REGION, REGION),
                world=world.name,
                projection=BLOCKS,
                spawn=(spawn.x, round(BLOCKS.height), spawn.z),
            )
            for name, style in zip(world.layers, world.renderers, strict=True)
        ]
    except ValueError as error:
        raise SiteError(f"{folder}/settings.json: {error}") from None
