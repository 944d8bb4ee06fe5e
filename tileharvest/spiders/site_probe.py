"""Looks at a site without harvesting it: what `tileharvest add` runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider

from tileharvest.errors import TileHarvestError
from tileharvest.maps.budgets import Budget
from tileharvest.politeness.probe import probe_politely
from tileharvest.politeness.robots import Robots
from tileharvest.renderers.registry import probe
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.fetch import expect_near, fetch_with
from tileharvest.spiders.log import write_printable_lines
from tileharvest.spiders.settings import suit_tiles
from tileharvest.spiders.throttle import CrawlThrottle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.renderers.site import Site


class SiteProbeSpider(Spider):
    """Probes the site of a description; afterwards either `site` or `ending` is set."""

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        suit_tiles(settings)
        # Nothing is queued, so nothing must be left behind.
        settings.set("SCHEDULER_QUEUE", "memory", priority="spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        write_printable_lines(crawler)
        spider = super().from_crawler(crawler, *args, **kwargs)
        # Not weaker: the contact is added to what the command line says.
        crawler.settings.set("USER_AGENT", spider.rules.user_agents[0], priority="cmdline")
        # Each request waits for its turn with whoever else asks the host on this machine. Quiet hours are for
        # harvests, and here a person waits.
        crawl_of(crawler).rules = replace(spider.rules, quiet=())
        return spider

    def __init__(self, description: MapDescription, rules: Rules, **kwargs: Any) -> None:
        # The class has no name: Scrapy would list it among the spiders that a person can crawl.
        super().__init__(name="site_probe", **kwargs)
        self.description = description
        self.rules = rules
        self.site: Site | None = None
        self.robots = Robots()
        """What the site's robots.txt allows, once it was read."""
        self.ending: TileHarvestError | None = None

    async def probed(self, site: Site) -> None:
        """Asks more of a site that was probed. Raises TileHarvestError."""

    async def start(self) -> AsyncIterator[Request]:
        self.throttle = CrawlThrottle(
            crawl_of(self.crawler),
            self.crawler.settings,
            replace(self.rules, quiet=()),
            self.description.name,
            self.description.zone_info,
            is_kept=False,
        )
        try:
            await self.throttle.open(Budget())
            self.site, self.robots = await probe_politely(
                probe,
                self.description,
                fetch_with(self.crawler, self.description.host),
                slow_down=self.throttle.map.slow_down,
                obeys=self.rules.robots,
            )
            await expect_near(self.site, self.description.host)
            await self.probed(self.site)
        except TileHarvestError as error:
            self.ending = error
        finally:
            await self.throttle.close()
        nothing: tuple[Request, ...] = ()
        for request in nothing:  # makes this the asynchronous generator that Scrapy expects
            yield request
