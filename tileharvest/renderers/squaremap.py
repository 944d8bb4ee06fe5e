"""squaremap's sites: `tiles/settings.json` and the settings of each world.

Names follow squaremap's own source (`UpdateWorldData.java`, `LayerControl.js`).
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


class _World(msgspec.Struct):
    name: str
    order: int = 0


class _Settings(msgspec.Struct):
    worlds: list[_World] | None = None
    """None: another program has written the file."""


class _Zoom(msgspec.Struct):
    max: Annotated[int, msgspec.Meta(ge=0)]
    """The level of the deepest tiles. Level 0 is the coarsest."""


class _WorldSettings(msgspec.Struct):
    zoom: _Zoom
    spawn: Place = Place()


class Squaremap(Renderer):
    """squaremap. When it saves a region it writes the tiles of all levels, the deepest first (`Image.java`),
    so no parent is older than a tile below it."""

    name = "squaremap"
    title = "squaremap"
    sign = f"{SETTINGS_FILE} with 'worlds'"
    doubt = None

    def recognises(self, page: str) -> bool:
        # Pl3xMap's page names it too, among others, but as SquareMap.
        return any(sign in page for sign in ('content="squaremap"', "jpenilla/squaremap", "/Squaremap.js"))

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns the worlds, each a layer such as `minecraft_overworld`.

        It asks for the settings of those worlds alone that the map keeps. A world without settings of its own
        is none.
        """
        url = description.page + SETTINGS_FILE
        found = await fetch_settings(fetch, url, _Settings, self.title)
        settings, folder = found or (_Settings(), "")
        if settings.worlds is None:
            raise UnrecognisedError(
                f"there is no {url} that names the worlds of squaremap: is the address right, or has the map"
                " moved? put the right url into maps.toml"
            )
        worlds = sorted(settings.worlds, key=lambda world: (world.order, world.name))
        names = [world.name for world in worlds]
        require_layers(description, names)
        layers = []
        for name in names:
            if not description.layers or name in description.layers:
                world_folder = f"{folder}/{quote(name)}"
                own = await fetch_settings(fetch, f"{world_folder}/settings.json", _WorldSettings, self.title)
                if own is not None:
                    layers.append(_layer(name, own[0], world_folder))
        return Site(self.name, kept_layers(description, layers, url))

    def understood(self, answer: Answer, tile: Tile) -> Answer:
        return understood(answer)


def _layer(name: str, settings: _WorldSettings, folder: str) -> Layer:
    """Returns the layer of a world whose tiles lie in this folder. Raises SiteError."""
    depth, spawn = settings.zoom.max + 1, settings.spawn
    try:
        return Layer(
            name=name,
            pyramid=endless_pyramid(depth, [spawn]),
            image_extension="png",
            addresses=RegionAddresses(folder, depth, "png"),
            tile_size=(REGION, REGION),
            world=name,
            projection=BLOCKS,
            spawn=(spawn.x, round(BLOCKS.height), spawn.z),
        )
    except ValueError as error:
        raise SiteError(f"{folder}/settings.json: {error}") from None
