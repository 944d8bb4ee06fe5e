"""Pl3xMap's sites: `tiles/settings.json` and the settings of each world.

Names follow Pl3xMap's own source (`UpdateSettingsData.java`, `ReversedZoomTileLayer.ts`).
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import msgspec

from tileharvest.renderers.bounds import MOST_LAYERS, Name, Suffix, Whole, converted
from tileharvest.renderers.regions import SETTINGS_FILE, RegionRenderer, RegionWorld, Worlds


class _Style(msgspec.Struct):
    label: Name
    """The name of its folder. Pl3xMap calls a style a renderer."""


class _World(msgspec.Struct):
    name: Name
    renderers: Annotated[list[_Style], msgspec.Meta(max_length=MOST_LAYERS)] = []
    order: Whole = 0


class _Settings(msgspec.Struct):
    worlds: Worlds | None = msgspec.field(name="worldSettings", default=None)
    format: Suffix = "png"


class Pl3xMap(RegionRenderer):
    """Pl3xMap. Its `TileImage.java` writes the tiles of a region.

    Pl3xMap writes both settings files anew each second, and the first one names who is online. So the
    validators of these files tell nothing, and the files are read in full each time.
    """

    name = "pl3xmap"
    title = "Pl3xMap"
    sign = f"{SETTINGS_FILE} with 'worldSettings'"
    settings = _Settings
    step = -1

    def recognises(self, page: str) -> bool:
        # squaremap's page names Pl3xMap, too, in a comment with the address of an image.
        return 'content="Pl3xMap"' in page or "pl3xmap.js" in page

    def world(self, said: Any, settings: _Settings) -> RegionWorld:
        """Each renderer of a world is a layer, such as `minecraft-overworld/basic`."""
        one = converted(said, _World)
        labels = [style.label for style in one.renderers]
        forms = {f"{one.name}/{label}": f"/{{zoom}}/{quote(label)}/{{x}}_{{y}}" for label in labels}
        return RegionWorld(one.name, forms, one.order, settings.format)
