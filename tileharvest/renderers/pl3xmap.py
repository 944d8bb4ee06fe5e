"""Pl3xMap's sites: `tiles/settings.json` and the settings of each world.

Names follow Pl3xMap's own source (`UpdateSettingsData.java`, `ReversedZoomTileLayer.ts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import msgspec

from tileharvest.renderers.bounds import MOST_LAYERS, Name, Suffix, Whole, converted
from tileharvest.renderers.regions import SETTINGS_FILE, RegionRenderer, RegionSettings, RegionWorld

if TYPE_CHECKING:
    from tileharvest.renderers.site import ReadLayers


class _Style(msgspec.Struct):
    label: Name
    """Names its folder. Pl3xMap calls it a renderer."""


class _World(msgspec.Struct):
    name: Name
    renderers: Annotated[list[_Style], msgspec.Meta(max_length=MOST_LAYERS)] = []
    order: Whole = 0

    @property
    def forms(self) -> dict[str, str]:
        labels = [style.label for style in self.renderers]
        return {f"{self.name}/{label}": f"/{{zoom}}/{quote(label)}/{{x}}_{{y}}" for label in labels}


class _Settings(RegionSettings, rename="camel"):
    world_settings: Annotated[list[Any], msgspec.Meta(max_length=MOST_LAYERS)] | None = None
    format: Suffix = "png"

    def listed(self, layers: ReadLayers) -> list[RegionWorld] | None:
        """Each renderer of a world is a layer, such as `minecraft-overworld/basic`."""
        if self.world_settings is None:
            return None
        found = []
        for said in self.world_settings:
            with layers.reading(said.get("name") if isinstance(said, dict) else said):
                one = converted(said, _World)
                found.append(RegionWorld(one.name, one.forms, one.order, self.format))
        return found


class Pl3xMap(RegionRenderer):
    """Pl3xMap. It writes the tiles of a region in `TileImage.java`.

    Both settings files are written anew each second, and the first one names who is online. So their
    validators tell nothing, and they are read in full.
    """

    name = "pl3xmap"
    title = "Pl3xMap"
    sign = f"{SETTINGS_FILE} with 'worldSettings'"
    settings = _Settings
    step = -1

    def recognises(self, page: str) -> bool:
        # squaremap's page names it too, with an image's address in a comment.
        return 'content="Pl3xMap"' in page or "pl3xmap.js" in page
