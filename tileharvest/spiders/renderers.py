"""`scrapy crawl RENDERER -a map=NAME`: a spider for each renderer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileharvest.renderers.registry import RENDERERS, USUAL
from tileharvest.spiders.tiles import TileSpider

if TYPE_CHECKING:
    from collections.abc import Mapping


def _spider_for(name: str) -> type[TileSpider]:
    """Returns the spider of a renderer. It differs from the others by its name alone."""
    said = f"Harvests a map of {RENDERERS[name].title}."
    members = {"name": name, "__module__": __name__, "__doc__": said}
    return type(f"{name.capitalize()}Spider", (TileSpider,), members)


_SPIDERS: Final[Mapping[str, type[TileSpider]]] = {name: _spider_for(name) for name in RENDERERS}
# Scrapy looks for spiders among the names of this module.
globals().update({spider.__name__: spider for spider in _SPIDERS.values()})


def spider_of(renderer: str) -> type[TileSpider]:
    """Returns the spider that harvests maps of a renderer.

    If there is no such renderer, or if it is not known before the site is probed, that is the spider of the
    usual renderer. The spider then says what is wrong.
    """
    return _SPIDERS.get(renderer, _SPIDERS[USUAL.name])
