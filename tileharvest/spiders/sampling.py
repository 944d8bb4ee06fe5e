"""Asks a sample of a map's tiles whether they are there and how large: what `scrapy plan` runs."""

from __future__ import annotations

import asyncio
from math import inf
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from scrapy import Request, Spider, signals

from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError
from tileharvest.harvest.layers import walk_over
from tileharvest.harvest.sample import Found, Sample, TooFewRequestsError
from tileharvest.politeness.probe import probe_politely
from tileharvest.renderers.overviewer import probe
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.fetch import fetch_with
from tileharvest.spiders.tiles import behave
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.verdict import GONE_STATUSES, HEAD_REFUSED, Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.sample import Estimate
    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.rates import Gap
    from tileharvest.politeness.courtesy import Courtesy
    from tileharvest.politeness.robots import Robots
    from tileharvest.renderers.site import SiteLayer
    from tileharvest.tiles.grid import Tile

USUAL_REQUESTS: Final = 200
"""What a sample may ask where nobody says otherwise; more where a map has so many layers that it must."""

_FAILING_SHARE: Final = 0.1
"""Of the tiles asked may fail: a harvest does not look below them, and neither does the sample."""
_any: Final = SystemRandom().random
"""For gaps; not the numbers by which the sample is chosen, which are the same again for the same seed."""
_FEW: Final = 10
"""Tiles, of which one may fail however few were asked so far."""


class Sampled(NamedTuple):
    """What a sample found."""

    estimate: Estimate
    """Of all layers together."""
    requests: int
    """That were made for it: the look at the site's configuration, robots.txt and redirects included."""
    looking: int
    """Those of them before the first one for a tile."""
    crawl_gap: Gap
    """Between two of them, as robots.txt wants it."""
    latency: float
    """Mean seconds from a question about a tile to its answer."""


class _NoAnswerError(Exception):
    """A question that got no usable answer."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} gives no usable answer ({reason})")


class _Layer(NamedTuple):
    layer: SiteLayer
    sample: Sample


class SamplingSpider(Spider):
    """Probes the site of a description and asks for a sample; afterwards either `sampled` or `ending` is set.

    Asks as slowly as a harvest does, and nothing twice. Nothing is kept.
    """

    name = "sampling"

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        # Nothing is queued, so nothing must be left behind.
        settings.set("SCHEDULER_QUEUE", "memory", priority="spider")
        # A repeat would not be among the requests that were allowed.
        settings.set("RETRY_TIMES", 0, priority="spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        behave(crawler.settings, spider.courtesy)
        crawler.signals.connect(spider.count, signals.request_reached_downloader)
        return spider

    def __init__(
        self,
        description: MapDescription,
        courtesy: Courtesy,
        gap: Gap,
        requests: int | None,
        random: Callable[[], float],
        **kwargs: Any,
    ) -> None:
        """At most so many requests are made; None: as many as usual. `gap` is that between two of them, as it
        is now. `random` gives numbers from 0 to 1."""
        super().__init__(**kwargs)
        self.description = description
        self.courtesy = courtesy
        self.robots: Robots | None = None
        """What the site's robots.txt allows, once it was read."""
        self.sampled: Sampled | None = None
        self.ending: TileHarvestError | None = None
        self._gap = gap
        self._on_the_way = asyncio.Semaphore(_at_once(courtesy))
        self._turn = asyncio.Lock()
        self._started = -inf
        """When the last request did, or a little later, on the event loop's clock."""
        self._allowed = requests
        self._random = random
        self._made = 0
        self._tiles = 0
        self._failures = 0
        self._rounds = 0
        """How often in a row an answer was waited for."""
        self._waited = 0.0
        """Seconds, in all of these."""

    async def start(self) -> AsyncIterator[Request]:
        try:
            self.sampled = await self._sample()
        except TileHarvestError as error:
            self.ending = error
        nothing: tuple[Request, ...] = ()
        for request in nothing:  # makes this the asynchronous generator that Scrapy expects
            yield request

    def count(self) -> None:
        """Scrapy's signal for each request that is made."""
        self._made += 1

    async def _sample(self) -> Sampled:
        site, self.robots = await probe_politely(
            probe,
            self.description,
            fetch_with(self.crawler),
            obeys=self.courtesy.robots,
            gap=self._gap,
        )
        crawl_of(self.crawler).robots = self.robots
        self._gap = self._gap.at_least(self.robots.gap)
        self._started = asyncio.get_running_loop().time()
        looking = self._made
        layers = [_Layer(layer, self._sample_of(layer)) for layer in site.layers]
        needed = [layer.sample.needed for layer in layers]
        allowed = self._allowed
        if allowed is None:
            allowed = max(USUAL_REQUESTS, looking + sum(needed))
        if allowed < looking + sum(needed):
            raise self._too_few(looking + sum(needed))
        estimates = []
        for place, layer in enumerate(layers):
            left = allowed - self._made - sum(needed[place + 1 :])
            even = (allowed - self._made) // (len(layers) - place)
            await self._draw(layer, self._made + max(needed[place], min(even, left)))
            estimates.append(layer.sample.estimate())
        first, *others = estimates
        return Sampled(
            sum(others, first), self._made, looking, self.robots.gap, self._waited / max(1, self._rounds)
        )

    def _sample_of(self, layer: SiteLayer) -> Sample:
        return Sample(walk_over(self.description, layer))

    async def _draw(self, layer: _Layer, allowed: int) -> None:
        """Complete the sample of a layer, with so many requests in all since the beginning."""
        clock = asyncio.get_running_loop().time
        made_before, tiles_before = self._made, self._tiles
        while not layer.sample.is_complete:
            made, tiles = self._made - made_before, self._tiles - tiles_before
            # A site may send each question elsewhere: then a tile costs several requests.
            budget = (allowed - self._made) * max(1, tiles) // max(1, made)
            try:
                drawn = layer.sample.draw(budget, self._random)
            except TooFewRequestsError as error:
                raise self._too_few(self._made + error.needed * max(1, made) // max(1, tiles)) from None
            began = clock()
            asking = (self._ask(layer.layer, tile) for tile in drawn)
            answers = await asyncio.gather(*asking, return_exceptions=True)
            self._waited += clock() - began
            self._rounds += -(-len(drawn) // _at_once(self.courtesy))
            self._tiles += len(drawn)
            layer.sample.take(dict(zip(drawn, map(self._found, answers), strict=True)))

    async def _ask(self, layer: SiteLayer, tile: Tile) -> Found:
        url = layer.tile_url(tile)
        request = Request(url, method="HEAD", meta={"verbatim_url": True, "download_slot": layer.host})
        assert self.crawler.engine is not None
        try:
            async with self._on_the_way:
                await self._wait()
                response = await self.crawler.engine.download_async(request)
        except TileHarvestError:
            raise
        # Whatever else download handlers and middlewares raise means the same here: no answer.
        except Exception as error:
            raise _NoAnswerError(url, str(error) or type(error).__name__) from error
        if response.status in HEAD_REFUSED:
            raise TileHarvestError(
                f"the host of map '{self.description.name}' refuses HEAD, and a sample would have to fetch"
                f" the tiles: nothing was planned; harvest it with a budget, and later plans go by that"
            )
        if response.status in GONE_STATUSES:
            return Found(Outcome.NOTHING)
        if response.status != 200:
            raise _NoAnswerError(url, Answer(response.status).phrase)
        return Found(Outcome.IGNORED, _length(response))

    async def _wait(self) -> None:
        """Until the gap after the request before has passed."""
        clock = asyncio.get_running_loop().time
        async with self._turn:
            await asyncio.sleep(max(0.0, self._started + self._gap.draw(_any()) - clock()))
            self._started = clock()

    def _found(self, answer: Found | BaseException) -> Found:
        if isinstance(answer, _NoAnswerError):
            self._failures += 1
            if self._failures > _FAILING_SHARE * max(_FEW, self._tiles):
                raise SiteError(f"{answer}, nor do others: nothing was planned; try again later")
            return Found(Outcome.FAILED)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _too_few(self, needed: int) -> ConfigurationError:
        return ConfigurationError(
            f"--requests {self._allowed} are too few for map '{self.description.name}':"
            f" write --requests {needed}, or more"
        )


def _at_once(courtesy: Courtesy) -> int:
    """Requests on the way at the same time."""
    return min(courtesy.concurrency, courtesy.host_concurrency or courtesy.concurrency)


def _length(response: Response) -> int | None:
    said = response.headers.get("Content-Length")
    return int(said) if said is not None and said.isdigit() else None
