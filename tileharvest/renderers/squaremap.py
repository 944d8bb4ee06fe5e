"""squaremap's sites: `tiles/settings.json` and the settings of each world.

Names follow squaremap's own source (`UpdateWorldData.java`, `LayerControl.js`).
"""

from __future__ import annotations

import msgspec

from tileharvest.renderers.regions import SETTINGS_FILE, RegionRenderer, RegionSettings, RegionWorld


class _World(msgspec.Struct):
    name: str
    order: int = 0


class _Settings(RegionSettings):
    worlds: list[_World] | None = None

    def listed(self) -> list[RegionWorld] | None:
        """Each world is a layer, such as `minecraft_overworld`."""
        if self.worlds is None:
            return None
        return [RegionWorld(one.name, {one.name: "/{zoom}/{x}_{y}"}, one.order) for one in self.worlds]


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
