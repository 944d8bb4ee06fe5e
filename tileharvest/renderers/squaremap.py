"""squaremap's sites: `tiles/settings.json` and the settings of each world.

Names follow squaremap's own source (`UpdateWorldData.java`, `LayerControl.js`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from tileharvest.renderers.bounds import MOST_LAYERS, Name, Whole, converted
from tileharvest.renderers.regions import SETTINGS_FILE, RegionRenderer, RegionSettings, RegionWorld

if TYPE_CHECKING:
    from tileharvest.renderers.site import ReadLayers


class _World(msgspec.Struct):
    name: Name
    order: Whole = 0


class _Settings(RegionSettings):
    worlds: Annotated[list[Any], msgspec.Meta(max_length=MOST_LAYERS)] | None = None

    def listed(self, layers: ReadLayers) -> list[RegionWorld] | None:
        """Each world is a layer, such as `minecraft_overworld`."""
        if self.worlds is None:
            return None
        found = []
        for said in self.worlds:
            with layers.reading(said.get("name") if isinstance(said, dict) else said):
                one = converted(said, _World)
                found.append(RegionWorld(one.name, {one.name: "/{zoom}/{x}_{y}"}, one.order))
        return found


class Squaremap(RegionRenderer):
    """squaremap. It writes the tiles of a region in `Image.java`."""

    name = "squaremap"
    title = "squaremap"
    sign = f"{SETTINGS_FILE} with 'worlds'"
    settings = _Settings
    step = 1

    def recognises(self, page: str) -> bool:
        # Pl3xMap's page names it too, among others, but as SquareMap.
        return any(sign in page for sign in ('content="squaremap"', "jpenilla/squaremap", "/Squaremap.js"))
