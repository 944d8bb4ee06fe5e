"""Pl3xMap's sites: `tiles/settings.json` and the settings of each world.

Names follow Pl3xMap's own source (`UpdateSettingsData.java`, `ReversedZoomTileLayer.ts`).
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from tileharvest.renderers.regions import SETTINGS_FILE, RegionRenderer, RegionSettings, RegionWorld


class _Style(msgspec.Struct):
    label: str
    """Names its folder. Pl3xMap calls it a renderer."""


class _World(msgspec.Struct):
    name: str
    renderers: list[_Style] = []
    order: int = 0

    @property
    def forms(self) -> dict[str, str]:
        labels = [style.label for style in self.renderers]
        return {f"{self.name}/{label}": f"/{{zoom}}/{quote(label)}/{{x}}_{{y}}" for label in labels}


class _Settings(RegionSettings, rename="camel"):
    world_settings: list[_World] | None = None
    format: str = "png"

    def listed(self) -> list[RegionWorld] | None:
        """Each renderer of a world is a layer, such as `minecraft-overworld/basic`."""
        if self.world_settings is None:
            return None
        return [RegionWorld(one.name, one.forms, one.order, self.format) for one in self.world_settings]


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
