"""Looks at a site without harvesting it: what `tileharvest add` and `tileharvest plan` run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from math import nan
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Request, Spider

from tileharvest.errors import SiteError, TileHarvestError
from tileharvest.harvest.plan import TILES, estimate, sample
from tileharvest.harvest.walks import walk_over
from tileharvest.maps.budgets import Budget
from tileharvest.politeness.probe import probe_politely
from tileharvest.renderers.registry import probe, renderer_named
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.fetch import answer_of, fetch_with
from tileharvest.spiders.log import write_printable_lines
from tileharvest.spiders.settings import behave, suit_tiles
from tileharvest.spiders.throttle import CrawlThrottle
from tileharvest.tiles.verdict import GONE_STATUSES, HEAD_REFUSED, Answer, judge_existence, unless_blank

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.plan import HarvestPlan
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.renderers.site import Site
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.layers import Layer

_FAILING_SHARE: Final = 0.1
"""The share of the asked tiles that may fail. The sample does not look below a failed tile, as a harvest does
not."""
_FEW: Final = 10
"""One tile may fail although fewer were asked so far."""


class SiteProbeSpider(Spider):
    """Probes the site of a description; afterwards either `site` or `ending` is set.

    If it `samples`, it also asks a sample of the tiles whether they are there and how large, at the map's
    rate and concurrency and nothing twice; afterwards either `plan` or `ending` is set. Nothing is kept.
    """

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
        behave(crawler.settings, spider.rules)
        if spider.samples:
            crawler.settings.set("RETRY_TIMES", 0, priority="spider")
        return spider

    def __init__(
        self, description: MapDescription, rules: Rules, *, samples: bool = False, **kwargs: Any
    ) -> None:
        # The class has no name: Scrapy would list it among the spiders that a person can crawl.
        super().__init__(name="site_probe", **kwargs)
        self.description = description
        # Each request waits for its turn with whoever else asks the host on this machine. Quiet hours without
        # a rate are for harvests, and here a person waits.
        self.rules = rules if rules.quiet_gap else replace(rules, quiet=())
        self.samples = samples
        self.site: Site | None = None
        self.ending: TileHarvestError | None = None
        self.plan: HarvestPlan | None = None
        self._tiles = 0
        """The number of tiles that were asked so far."""
        self.failures: list[str] = []
        """A sentence for each tile without a usable answer. Nothing is known of what lies below it."""

    async def start(self) -> AsyncIterator[Request]:
        description, rules, crawl = self.description, self.rules, crawl_of(self.crawler)
        throttle = CrawlThrottle(crawl, rules, description, is_kept=False)
        try:
            await throttle.open(Budget())
            fetch, slow_down = fetch_with(self.crawler), throttle.map.slow_down
            self.site = await probe_politely(
                probe, description, fetch, crawl.robots, rules=rules, slow_down=slow_down
            )
            if self.samples:
                self.plan = await self.sample(self.site)
        except TileHarvestError as error:
            self.ending = error
        finally:
            await throttle.close()
        nothing: tuple[Request, ...] = ()
        for request in nothing:  # makes this the asynchronous generator that Scrapy expects
            yield request

    @property
    def made(self) -> int:
        """The number of requests so far, those for the site's configuration and robots.txt included."""
        return crawl_of(self.crawler).cost_meter.requests

    async def sample(self, site: Site) -> HarvestPlan:
        """Asks for the sample. Each layer has an equal share of the tiles.

        Raises SiteError if too many tiles fail, and TileHarvestError if the site does not answer HEAD as it
        should.
        """
        if not site.answers_head:
            raise self._unplanned("does not answer HEAD as it should")
        looking, began = self.made, asyncio.get_running_loop().time()
        self._renderer = renderer_named(site.renderer)
        # The same map has the same sample. No secret depends on it.
        random = Random(self.description.name)  # noqa: S311
        walks = [walk_over(self.description, layer) for layer in site.layers]
        samples = []
        for place, (layer, walk) in enumerate(zip(site.layers, walks, strict=True)):
            # What a small layer does not need is for the layers that follow.
            most = (TILES - self._tiles) // (len(walks) - place)
            samples.append(await sample(walk, partial(self._sizes, layer), most, random))
        each = (asyncio.get_running_loop().time() - began) / max(1, self._tiles)
        plan = estimate(samples, looking=looking, each=each, at_once=self.description.first == "get")
        return plan._replace(is_exact=plan.is_exact and not self.failures)

    async def _sizes(self, layer: Layer, tiles: Sequence[Tile]) -> dict[Tile, float]:
        """Returns the size in bytes of each tile that is there. Raises SiteError if too many have failed."""
        self._tiles += len(tiles)
        sizes = await asyncio.gather(*(self._size(layer, tile) for tile in tiles), return_exceptions=True)
        found: dict[Tile, float] = {}
        for tile, size in zip(tiles, sizes, strict=True):
            if isinstance(size, float):
                found[tile] = size
            elif isinstance(size, BaseException):
                if isinstance(size, TileHarvestError) or not isinstance(size, Exception):
                    raise size
                why = str(size) or type(size).__name__
                self.failures.append(f"{layer.addresses.url_of(tile)} gives no usable answer ({why})")
        if len(self.failures) > _FAILING_SHARE * max(_FEW, self._tiles):
            raise SiteError(f"{self.failures[0]}, nor do others: nothing was planned; try again later")
        return found

    async def _size(self, layer: Layer, tile: Tile) -> float | None:
        """Returns a tile's size in bytes, NaN if the site does not say it, and None if there is no tile, or
        only a blank image.

        Raises ValueError for an answer that says nothing about the tile, and TileHarvestError if HEAD is
        refused or redirected.
        """
        answer = await self._answer(layer, tile, "HEAD")
        length = answer.length
        if answer.status in HEAD_REFUSED:
            raise self._unplanned("refuses HEAD")
        if 300 <= answer.status < 400:
            raise self._unplanned("redirects the requests for its tiles")
        if answer.status == HTTPStatus.OK and (
            self.description.blank or judge_existence(answer, by_head=True) is None
        ):
            answer = await self._answer(layer, tile, "GET")
            length = len(answer.body) or answer.length
        if answer.status in GONE_STATUSES:
            return None
        if answer.status != HTTPStatus.OK:
            raise ValueError(answer.phrase)
        return nan if length is None else float(length)

    async def _answer(self, layer: Layer, tile: Tile, method: str) -> Answer:
        """Returns the answer as the renderer understands it."""
        assert self.crawler.engine is not None
        meta = {"verbatim_url": True, "download_slot": layer.host, "dont_redirect": True}
        request = Request(layer.addresses.url_of(tile), method=method, meta=meta)
        answer = answer_of(await self.crawler.engine.download_async(request))
        return unless_blank(self._renderer.understood(answer), self.description.blank)

    def _unplanned(self, does: str) -> TileHarvestError:
        """Returns the error about a host of which no sample can be asked."""
        return TileHarvestError(
            f"the host of map '{self.description.name}' {does}, and a sample would cost too much: nothing was"
            " planned; harvest it with a budget, and later plans go by that"
        )
