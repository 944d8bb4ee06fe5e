"""`scrapy crawl RENDERER -a map=NAME`: a spider for each renderer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileharvest.spiders.tiles import TileSpider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileharvest.maps.description import MapDescription


class OverviewerSpider(TileSpider):
    """Harvests a Minecraft-Overviewer map."""

    name = "overviewer"


class MapcrafterSpider(TileSpider):
    """Harvests a map of Mapcrafter."""

    name = "mapcrafter"


class UnminedSpider(TileSpider):
    """Harvests a map of uNmINeD."""

    name = "unmined"


_SPIDERS: Final[Mapping[str, type[TileSpider]]] = {
    spider.name: spider
    for spider in (
        OverviewerSpider,
        MapcrafterSpider,
        UnminedSpider,
    )
}


def spider_of(description: MapDescription) -> type[TileSpider]:
    """Returns the spider that harvests the map.

    It is that of Overviewer, the usual one, where the renderer is only found out when the site is probed; and
    where there is no such renderer, which the spider then says.
    """
    return _SPIDERS.get(description.renderer, OverviewerSpider)
