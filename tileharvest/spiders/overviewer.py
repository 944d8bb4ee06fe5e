"""`scrapy crawl overviewer -a map=NAME`: harvest a Minecraft-Overviewer map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.renderers.overviewer import Fetch, probe
from tileharvest.spiders.tiles import TileSpider

if TYPE_CHECKING:
    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Site


class OverviewerSpider(TileSpider):
    """Harvests a Minecraft-Overviewer map."""

    name = "overviewer"

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        return await probe(description, fetch)
