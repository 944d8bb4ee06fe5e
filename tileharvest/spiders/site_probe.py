"""Looks at a site without harvesting it: what `scrapy add` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider

from tileharvest.errors import TileHarvestError
from tileharvest.maps.overviewer import probe
from tileharvest.spiders.fetching import fetch_with

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.site import Site


class SiteProbeSpider(Spider):
    """Probes the site of a description; afterwards either `site` or `ending` is set."""

    name = "site_probe"

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        # Nothing is queued, so nothing must be left behind.
        settings.set("SCHEDULER_QUEUE", "memory", priority="spider")

    def __init__(self, description: MapDescription, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.description = description
        self.site: Site | None = None
        self.ending: TileHarvestError | None = None

    async def start(self) -> AsyncIterator[Request]:
        try:
            self.site = await probe(self.description, fetch_with(self.crawler))
        except TileHarvestError as error:
            self.ending = error
        nothing: tuple[Request, ...] = ()
        for request in nothing:  # makes this the asynchronous generator that Scrapy expects
            yield request
