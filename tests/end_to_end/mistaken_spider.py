"""A spider with a mistake in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileharvest.spiders.tiles import TileSpider

if TYPE_CHECKING:
    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Site


class MistakenSpider(TileSpider):
    name = "mistaken"

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        raise ZeroDivisionError("a mistake")
