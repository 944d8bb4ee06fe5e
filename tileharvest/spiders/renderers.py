"""`scrapy crawl RENDERER -a map=NAME`: a spider for each renderer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileharvest.renderers.registry import RENDERERS
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


class XyzSpider(TileSpider):
    """Harvests plain tiles: XYZ, TMS, quadkeys, or what a TileJSON names."""

    name = "xyz"


class DynmapSpider(TileSpider):
    """Harvests a map of Dynmap."""

    name = "dynmap"


class SquaremapSpider(TileSpider):
    """Harvests a map of squaremap."""

    name = "squaremap"


class Pl3xMapSpider(TileSpider):
    """Harvests a map of Pl3xMap."""

    name = "pl3xmap"


class BlueMapSpider(TileSpider):
    """Harvests the images of low resolution of a BlueMap."""

    name = "bluemap"


_SPIDERS: Final[Mapping[str, type[TileSpider]]] = {
    spider.name: spider
    for spider in (
        OverviewerSpider,
        MapcrafterSpider,
        UnminedSpider,
        XyzSpider,
        DynmapSpider,
        SquaremapSpider,
        Pl3xMapSpider,
        BlueMapSpider,
    )
}


def _spider_for(name: str) -> type[TileSpider]:
    """Returns the spider of a renderer that another package brings."""
    return type(f"{name.capitalize()}Spider", (TileSpider,), {"name": name, "__module__": __name__})


_OF_PACKAGES: Final = {name: _spider_for(name) for name in RENDERERS if name not in _SPIDERS}
# Scrapy looks for spiders among the names of this module.
globals().update({spider.__name__: spider for spider in _OF_PACKAGES.values()})


def spider_of(description: MapDescription) -> type[TileSpider]:
    """Returns the spider that harvests the map.

    It is that of Overviewer, the usual one, where the renderer is only found out when the site is probed; and
    where there is no such renderer, which the spider then says.
    """
    return {**_OF_PACKAGES, **_SPIDERS}.get(description.renderer, OverviewerSpider)
