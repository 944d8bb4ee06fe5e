"""Asks a sample of a map's tiles whether they are there and how large: what `scrapy plan` runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from math import nan
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Request, signals

from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError
from tileharvest.harvest.plan import USUAL_REQUESTS
from tileharvest.harvest.sample import estimate, needed, sample
from tileharvest.harvest.walks import walk_over
from tileharvest.middlewares.diff import answer_of
from tileharvest.queue.requests import STATE, RequestState
from tileharvest.renderers.registry import renderer_named
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.site_probe import SiteProbeSpider
from tileharvest.spiders.tiles import behave
from tileharvest.tiles.verdict import GONE_STATUSES, HEAD_REFUSED, Answer, judge_existence, unless_blank

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from scrapy.crawler import Crawler

    from tileharvest.harvest.plan import HarvestPlan
    from tileharvest.harvest.sample import Level
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.renderers.site import Site
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.layers import Layer

_FAILING_SHARE: Final = 0.1
"""The share of the asked tiles that may fail. The sample does not look below a failed tile, as a harvest does
not."""
_FEW: Final = 10
"""One tile may fail although fewer than so many were asked so far."""


class SiteSampleSpider(SiteProbeSpider):
    """Probes the site and asks for a sample; afterwards either `plan` or `ending` is set.

    It keeps to the map's gap, concurrency and robots.txt, and asks nothing twice. Nothing is kept.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        # Each request waits for its turn at this pace, with whoever else asks the host on this machine.
        crawl_of(crawler).rules = spider.rules
        behave(crawler.settings, spider.rules)
        # A repeat would not be among the requests that were allowed.
        crawler.settings.set("RETRY_TIMES", 0, priority="spider")
        crawler.signals.connect(spider.count, signals.request_reached_downloader)
        return spider

    def __init__(
        self,
        description: MapDescription,
        rules: Rules,
        requests: int | None,
        random: Random,
        **kwargs: Any,
    ) -> None:
        """`requests` is the most that are made; None is the usual number. `random` chooses the sample."""
        at_once = min(rules.concurrency, rules.host_concurrency or rules.concurrency)
        super().__init__(description, replace(rules, concurrency=at_once), **kwargs)
        self._places = asyncio.Semaphore(at_once)
        """Scrapy would let all requests of one moment start: it counts those that it has begun to send."""
        self.plan: HarvestPlan | None = None
        self.made = 0
        """The number of requests so far, those for the site's configuration and robots.txt included."""
        self._allowed = requests
        self._random = random
        self._tiles = 0
        """The number of tiles that were asked so far."""
        self._each = 2 if description.blank else 1
        """The requests for each tile. A GET follows the HEAD if only the bytes tell whether it is blank."""
        self._granted = 0
        """The number of requests for tiles that were made or wait for their turn."""
        self.failures: list[str] = []
        """A sentence for each tile without a usable answer. Nothing is known of what lies below it."""

    async def probed(self, site: Site) -> None:
        politeness = crawl_of(self.crawler).politeness
        if politeness is not None:
            politeness.obey(self.robots.gap)
        self.plan = await self.sample(site)

    def _left(self, until: int) -> int:
        return (until - self.made) // self._each

    def count(self) -> None:
        """Counts a request that is made: Scrapy's signal calls it."""
        self.made += 1

    async def sample(self, site: Site) -> HarvestPlan:
        """Asks for the sample. Each layer has an equal share of the requests.

        Raises ConfigurationError if too few requests are allowed, SiteError if too many tiles fail, and
        TileHarvestError if the site does not answer HEAD as it should.
        """
        if not site.answers_head:
            raise self._unplanned("does not answer HEAD as it should")
        self._looking = looking = self.made
        self._renderer = renderer_named(site.renderer)
        walks = [walk_over(self.description, layer) for layer in site.layers]
        least = looking + self._each * len(walks) * max(map(needed, walks))
        self._most = self._allowed or max(USUAL_REQUESTS, least)
        if self._most < least:
            raise self._too_few(least)
        samples: list[list[Level]] = []
        began = asyncio.get_running_loop().time()
        for layer, walk in zip(site.layers, walks, strict=True):
            # Requests that a small layer does not need are for the layers that follow.
            until = self.made + (self._most - self.made) // (len(walks) - len(samples))
            ask, left = partial(self._sizes, layer), partial(self._left, until)
            at_once = self.description.first == "get"
            samples.append(await sample(walk, ask, left, self._random.random, at_once=at_once))
        took = asyncio.get_running_loop().time() - began
        plan = estimate(samples, looking=looking, each=took / self._tiles)
        return plan._replace(is_exact=plan.is_exact and not self.failures)

    async def _sizes(self, layer: Layer, tiles: Sequence[Tile]) -> dict[Tile, float]:
        """Returns the size in bytes of each tile that is there, as `sample` wants them.

        Raises SiteError if too many have failed.
        """
        self._tiles += len(tiles)
        sizes = await asyncio.gather(*(self._size(layer, tile) for tile in tiles), return_exceptions=True)
        found: dict[Tile, float] = {}
        for tile, size in zip(tiles, sizes, strict=True):
            if isinstance(size, TileHarvestError) or not isinstance(size, (float, Exception, NoneType)):
                raise size
            if isinstance(size, float):
                found[tile] = size
            elif size is not None:
                why = str(size) or type(size).__name__
                self.failures.append(f"{layer.addresses.url_of(tile)} gives no usable answer ({why})")
        if len(self.failures) > _FAILING_SHARE * max(_FEW, self._tiles):
            raise SiteError(f"{self.failures[0]}, nor do others: nothing was planned; try again later")
        return found

    async def _size(self, layer: Layer, tile: Tile) -> float | None:
        """Returns a tile's size in bytes, less than 0 for a blank image, and None if there is no tile.

        Raises ValueError for an answer that tells nothing of the tile, and TileHarvestError if HEAD is
        refused or redirected, or if no request is left.
        """
        answer, _ = await self._answer(layer, tile, "HEAD")
        if answer.status in HEAD_REFUSED:
            raise self._unplanned("refuses HEAD")
        if 300 <= answer.status < 400:
            raise self._unplanned("redirects the requests for its tiles")
        received = 0
        if answer.status == HTTPStatus.OK and (
            self.description.blank or judge_existence(answer, by_head=True) == "GET"
        ):
            self._each = 2
            answer, received = await self._answer(layer, tile, "GET")
        if answer.status in GONE_STATUSES:
            return -float(received) if received else None
        if answer.status != HTTPStatus.OK:
            raise ValueError(answer.phrase)
        length = received or answer.length
        return nan if length is None else float(length)

    async def _answer(self, layer: Layer, tile: Tile, method: str) -> tuple[Answer, int]:
        """Returns the answer as the renderer understands it, and the bytes that came."""
        assert self.crawler.engine is not None
        if self._looking + self._granted >= self._most:
            raise self._too_few(2 * self._most)
        self._granted += 1
        state = RequestState(is_aside=True)
        meta = {"verbatim_url": True, "download_slot": layer.host, "dont_redirect": True, STATE: state}
        request = Request(layer.addresses.url_of(tile), method=method, meta=meta)
        async with self._places:
            said = answer_of(await self.crawler.engine.download_async(request))
        understood = unless_blank(self._renderer.understood(said, tile), self.description.blank)
        return understood, len(said.body)

    def _too_few(self, enough: int) -> ConfigurationError:
        return ConfigurationError(
            f"--requests {self._most} are too few for map '{self.description.name}':"
            f" write --requests {enough}, or more"
        )

    def _unplanned(self, does: str) -> TileHarvestError:
        """Returns the error about a host of which no sample can be asked."""
        return TileHarvestError(
            f"the host of map '{self.description.name}' {does}, and a sample would cost more than was"
            f" allowed: nothing was planned; harvest it with a budget, and later plans go by that"
        )
