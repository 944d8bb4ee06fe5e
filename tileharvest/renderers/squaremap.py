"""squaremap's sites: `tiles/settings.json` and the settings of each world.

Names follow squaremap's own source (`UpdateWorldData.java`, `LayerControl.js`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from tileharvest.renderers.bounds import Name, Whole, converted
from tileharvest.renderers.regions import SETTINGS_FILE, RegionRenderer, RegionWorld, Worlds


class _World(msgspec.Struct):
    name: Name
    order: Whole = 0


class _Settings(msgspec.Struct):
    worlds: Worlds | None = None


class Squaremap(RegionRenderer):
    """squaremap. Its `Image.java` writes the tiles of a region."""

    name = "squaremap"
    title = "squaremap"
    sign = f"{SETTINGS_FILE} with 'worlds'"
    settings = _Settings
    step = 1

    def recognises(self, page: str) -> bool:
        # Pl3xMap's page names squaremap, too, among other programs, but writes it SquareMap.
        return any(sign in page for sign in ('content="squaremap"', "jpenilla/squaremap", "/Squaremap.js"))

    def world(self, said: Any, settings: _Settings) -> RegionWorld:
        """Each world is a layer, such as `minecraft_overworld`."""
        one = converted(said, _World)
        return RegionWorld(one.name, {one.name: "/{zoom}/{x}_{y}"}, one.order)
