"""Spiders with a mistake in them."""

from tileharvest.maps.description import MapDescription
from tileharvest.renderers.site import Fetch, Site
from tileharvest.spiders.tiles import TileSpider


class MistakenSpider(TileSpider):
    name = "mistaken"

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        raise ZeroDivisionError("a mistake")


class MistakenAtEndSpider(TileSpider):
    name = "overviewer"

    async def _complete_or_go_on(self) -> None:
        raise ZeroDivisionError("a mistake")
