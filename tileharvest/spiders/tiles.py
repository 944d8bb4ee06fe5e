"""The spiders of tiles, one for each renderer. They begin a harvest, ask for its tiles, and end it."""

from __future__ import annotations

import asyncio
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace
from scrapy import Spider, signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest

from tileharvest.errors import (
    AlreadyHarvestedError,
    BudgetError,
    MovedError,
    QueueError,
    TileHarvestError,
)
from tileharvest.harvest.settings import harvest_for
from tileharvest.history.site_files import SiteFile
from tileharvest.importers.published_tree import PublishedTree
from tileharvest.importers.repository import SILENCE
from tileharvest.maps.settings import data_folder
from tileharvest.politeness.probe import probe_politely
from tileharvest.politeness.rules import budget_of_run
from tileharvest.politeness.settings import rules_for
from tileharvest.politeness.waits import noted
from tileharvest.renderers.registry import RENDERERS, probe, renderer_named, with_indexes
from tileharvest.scheduler.crawl import as_error, cancel, crawl_of
from tileharvest.scheduler.scheduler import scheduler_of
from tileharvest.spiders.blocks import (
    ATTEMPT,
    BlockRequest,
    BlockResponse,
    BlockResult,
)
from tileharvest.spiders.fetch import fetch_with, probe_as_before
from tileharvest.spiders.log import write_printable_lines
from tileharvest.spiders.settings import behave, relax_garbage_collection, suit_tiles
from tileharvest.spiders.throttle import CrawlThrottle
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.outcomes import Outcome
from tileharvest.walk.walk import LATE, ON_WALK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.maps.description import MapDescription
    from tileharvest.renderers.site import Fetch, Site
    from tileharvest.scheduler.crawl import CrawlContext
    from tileharvest.tiles.block import Block
    from tileharvest.walk.decision import Decision
    from tileharvest.walk.walk import Asked

FETCH: Final = 1
"""Priority of what changed: the plus lane."""
LAST: Final = -1
"""Priority of what has failed and is asked again, and of what never changed on a layer of one zoom: the minus
lane."""

_STARTS: Final = 1024
"""The first blocks that may wait in memory. The queue has the others, of which a canvas has tens of
thousands, each a request of some 3 kB."""

_UNTIL: Final = f"({SILENCE} s without a word of git end it)"
"""The end of a wait for a git repository. Nobody knows when the wait ends if git goes on talking."""

_CONTROLS: Final = {"shutdown": "Ctrl-C or SIGTERM", "stopped": "tileharvest stop"}
"""What a person did to stop the crawl, by the reason that Scrapy or our scheduler gives."""

_WITHOUT_RESULT: Final = "asked twice, and nothing was found out about it"


class TileSpider(Spider):
    """Harvests one map: `-a map=NAME`, and if wanted `-a dry=1`, `-a day=2026-11-20`, `-a segment=run`,
    `-a fresh=1`, `-a stay=1`.

    A failure ends the crawl with one line in the log. `crawl` holds how it ended, for the command that ran
    it.
    """

    crawl: CrawlContext
    harvest: Harvest
    """Missing if the harvest was refused."""
    throttle: CrawlThrottle
    """Missing if the harvest was refused."""

    request_classes = (BlockRequest,)
    """The classes of requests that the queue may hold beside Scrapy's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._requested: dict[tuple[str, int, int, int], int] = {}
        """By block: the tiles that this process has asked for on the walk. Blocks may overlap where a walk
        goes sideways."""
        self._tree: PublishedTree | None = None
        """The tree that is read in place of the site's tiles, if the map is published through git."""
        self._completing: asyncio.Task[None] | None = None
        self._asked_late: dict[tuple[str, int, int, int], int] = {}
        """By block: the tiles that the walk had missed when they were last looked for."""
        self._site_files: dict[str, SiteFile] | None = None
        """The files that the site has sent. None if they are as the last harvest has kept them."""

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        """Returns what the map's site says about itself.

        If maps.toml names no renderer, that of the spider is tried first. Raises SiteError and
        ConfigurationError.
        """
        return await probe(description, fetch, renderer_named(self.name))

    async def with_indexes(self, site: Site, fetch: Fetch) -> Site:
        """Returns the site with its change indexes, if a walk may rest on them."""
        description = self.harvest.description
        is_of_use = description.change_index and description.walk == "auto" and not self.harvest.is_pushed
        return await with_indexes(site, fetch) if is_of_use else site

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        suit_tiles(settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        write_printable_lines(crawler)
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.crawl = crawl = crawl_of(crawler)
        crawl.arguments = kwargs
        if crawl.is_tool:
            # The tool wants one page, by the spider's settings. It harvests nothing.
            return spider
        try:
            harvest = harvest_for(crawler.settings, kwargs)
            rules = rules_for(crawler.settings, harvest.description)
        except TileHarvestError as error:
            crawl.end(error)
            return spider
        crawl.harvest = spider.harvest = harvest
        crawl.cost_meter = harvest.cost_meter
        behave(crawler.settings, rules)
        if harvest.description.max_tile_bytes is not None:
            most = harvest.description.most_tile_bytes
            crawler.settings.set("DOWNLOAD_MAXSIZE", most, priority="spider")
        harvest.limit(rules, data_folder(crawler.settings))
        spider.throttle = CrawlThrottle(crawl, rules, harvest.description, is_kept=kwargs.get("dry") != "1")
        relax_garbage_collection()
        crawler.signals.connect(spider.idle, signals.spider_idle)
        crawler.signals.connect(spider.failed, signals.spider_error)
        crawler.signals.connect(spider.failed, signals.item_error)
        crawler.signals.connect(spider.end, signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[BlockRequest]:
        """Probes the site, begins the harvest, and yields the requests with which the walks start. Each start
        in a segment yields them again; the scheduler drops those that were made."""
        self.crawl.beginning = asyncio.current_task()
        try:
            if self.crawl.harvest is not None and not self.crawl.is_ending:
                await self._begin()
                if self._tree is not None and not self.harvest.is_pushed:
                    with noted(self.crawl.waits, f"the tiles of the map's git repository {_UNTIL}"):
                        await self._tree.keep()
                    return
        except Exception as error:  # noqa: BLE001 - or the crawl would go on without a harvest
            self.crawl.end(as_error(error))
        finally:
            self.crawl.beginning = None
        if self.crawl.harvest is not None and self.harvest.is_open and self._tree is None:
            for number, (block, is_last) in enumerate(self.harvest.walks.first(), start=1):
                new = self._unrequested(block, ON_WALK)
                if new is not None:
                    yield self.ask(new, priority=LAST if is_last else 0)
                if number % _STARTS == 0 and (scheduler := scheduler_of(self.crawler)) is not None:
                    await scheduler.told()

    def ask(self, block: Block, asked: Asked = ON_WALK, priority: int = 0) -> BlockRequest:
        """Returns the request that asks whether tiles have changed."""
        layer = self.harvest.layers[block.layer].layer
        _, first = next(block.tiles())
        return BlockRequest.of(
            block,
            layer.addresses.url_of(first),
            asked=asked,
            method="HEAD",
            callback=self.answered,
            errback=self.failed,
            priority=priority,
        )

    def answered(self, response: BlockResponse) -> list[BlockRequest | BlockResult]:
        """Returns what follows from the answers to a block, and what was found there.

        First come the tiles that are fetched because they changed, then the rest of a block that was cut
        short, what has failed and is asked again, and the blocks below and beside. The result comes last: by
        then the queue has all that follows from it.
        """
        request, result = response.request, response.result
        assert isinstance(request, BlockRequest)
        assert result is not None
        following: list[BlockRequest | BlockResult] = []
        if result.gets:
            following.append(request.narrowed(result.gets, method="GET", priority=FETCH))
        if result.left:
            following.append(request.narrowed(result.left))
        if result.again:
            meta = {ATTEMPT: request.attempt, "not_before": time() + result.pause}
            following.append(request.narrowed(result.again, priority=LAST, meta=meta))
        following += self._below_and_beside(request, result)
        if result.found.outcomes:
            following.append(result)
        return following

    def failed(self, failure: Failure) -> None:
        """Ends the crawl if a block could not be judged or kept, because the history, the store or the queue
        has failed. The next run asks for the block again. Tiles without an answer do not come here.

        What a person has pushed and the map does not have only ends its lease. The log has said so."""
        error = failure.value
        assert error is not None
        request = getattr(failure, "request", None)
        if isinstance(error, IgnoreRequest) and isinstance(request, BlockRequest) and request.is_pushed:
            return
        self.crawl.end(as_error(error))

    def _below_and_beside(self, request: BlockRequest, result: BlockResult) -> list[BlockRequest]:
        """Returns the requests for the blocks below the tiles that are there, and for the tiles beside them.
        An unchanged tile says nothing about its neighbours, so a pruned walk asks for these as well.

        What follows from tiles that were left out is asked for again: a queue that was emptied, or a power
        cut, may have lost it."""
        harvest, block, asked = self.harvest, request.block, request.asked
        known, before, walk = request.known, request.left_out, harvest.layers[block.layer].walk
        there, skips = result.there, result.found.skips
        if before:
            there, skips = there | known.there & before, skips | known.skips & before
        if harvest.is_pushed or not there:
            return []
        wanted = [(one, asked.below) for one in walk.blocks_below(replace(block, mask=there & ~skips))]
        if walk.goes_sideways and block.zoom == walk.top:
            tiles = replace(block, mask=there).tiles()
            beside = [tile for _, one in tiles for tile in walk.pyramid.beside(one)]
            wanted += [(one, ON_WALK) for one in blocks_of(block.layer, beside)]
        requests = []
        for one, how in wanted:
            kept = harvest.walks.within_ground(one, asked)
            new = None if kept is None else self._unrequested(kept, how)
            if new is not None:
                requests.append(self.ask(new, how))
        return requests

    def _unrequested(self, block: Block, asked: Asked) -> Block | None:
        """Returns the tiles of a block that this process has not asked for on the walk before, or None if
        there are none. Tiles that are asked in another way are asked once more."""
        if asked != ON_WALK:
            return block
        before = self._requested.get(block.place, 0)
        self._requested[block.place] = before | block.mask
        return block.only(~before)

    def idle(self) -> None:
        """Ends the harvest when nothing is left to do. Tiles that were missed are asked for first."""
        if self.crawl.is_ending or not self.harvest.is_open:
            return
        if self._completing is None or self._completing.done():
            self._completing = asyncio.ensure_future(self._complete())
        raise DontCloseSpider

    async def end(self, reason: str) -> None:
        """Ends the harvest when the spider has closed, or leaves it to be continued."""
        if self.crawl.beginning is not None:
            # The site may have asked for long pauses.
            await cancel(self.crawl.beginning)
        if self._completing is not None:
            await asyncio.wait([self._completing])
        try:
            await self.throttle.close()
        except TileHarvestError as error:
            self.crawl.end(error)
        if not self.harvest.is_open:
            return
        try:
            try:
                await self._settle(reason)
            finally:
                await self.harvest.close()
        except TileHarvestError as error:
            self.crawl.end(error)

    # -- the beginning

    async def _begin(self) -> None:
        """Waits until the site may be asked, probes it, and opens the harvest.

        Checks that need no answer of the site come first, so that a run they end costs the site nothing.
        Raises TileHarvestError of every kind, and CancelledError if the crawl is about to end.
        """
        harvest, crawl = self.harvest, self.crawl
        assert crawl.rules is not None
        try:
            await harvest.expect_work()
        except AlreadyHarvestedError:
            scheduler = scheduler_of(self.crawler)
            # If no harvest is unfinished, only requests wait that a person has pushed or put back.
            waits = scheduler is not None and (await scheduler.counts()).left > 0
            if not waits or await harvest.progress() is not None:
                raise
            harvest.is_pushed = True
        harvest.check_room()
        rules, spent = crawl.rules, await harvest.spent()
        # A daily budget that is spent ends the run before it waits.
        budget = budget_of_run(harvest.description.name, rules.budget, rules.daily_budget, spent)
        await self.throttle.open(budget)
        site = await self._read_tree() or await self._probe_site()
        hosts = {layer.host for layer in site.layers}
        if len(hosts) == 1:
            self.throttle.map.host = hosts.pop()
        if site.renderer != (harvest.description.renderer or self.name):
            self.logger.warning(
                "the site is a map of %s: write renderer = \"%s\" for map '%s' into maps.toml, which spares"
                " it up to ten requests at each harvest",
                renderer_named(site.renderer).title,
                site.renderer,
                harvest.description.name,
            )
        for note in site.notes:
            self.logger.info("%s", note)
        crawl.refused = site.refused
        for line in site.refused:
            self.logger.error("%s; the other layers are harvested", line)
        await harvest.open(site, self._site_files)
        scheduler = scheduler_of(self.crawler)
        is_begun = scheduler is not None and not (harvest.continued or harvest.is_pushed)
        if scheduler is not None and is_begun and len(await scheduler.queue.workers() or ()) <= 1:
            # A harvest of the segment that found no map, or whose history was removed, has ended.
            await scheduler.queue.forget(scheduler.segment)
        self._tell(site)

    async def _probe_site(self) -> Site:
        description, rules = self.harvest.description, self.crawl.rules
        assert rules is not None
        (known, is_relied_on), read = await self.harvest.site_files(), dict[str, SiteFile]()
        fetch, relied_on = fetch_with(self.crawler, known, read), known if is_relied_on else {}
        probe = partial(probe_as_before, self.probe, self.with_indexes, relied_on, read)
        slow_down, robots = self.throttle.map.slow_down, self.crawl.robots
        site = await probe_politely(probe, description, fetch, robots, rules=rules, slow_down=slow_down)
        self._site_files = read
        return site

    async def _read_tree(self) -> Site | None:
        """Returns the site as the map's git repository shows it, or None if the map has no repository."""
        harvest, rules, settings = self.harvest, self.crawl.rules, self.crawler.settings
        repository = harvest.description.repository
        if repository is None:
            return None
        assert rules is not None
        folder = data_folder(settings) / "git" / "harvest" / harvest.description.name
        agent, check = f"git {rules.user_agents[0]}", self.throttle.check
        is_limited = bool(rules.budget.received_bytes or rules.daily_budget.received_bytes)
        self._tree = PublishedTree(harvest, is_limited=is_limited)
        with noted(self.crawl.waits, f"the map's git repository {_UNTIL}"):
            found = await self._tree.read(self.probe, repository, folder, agent, check)
        self._site_files = dict(found.files)
        return found.site

    def _tell(self, site: Site) -> None:
        harvest = self.harvest
        for name, decision in harvest.walks.decisions.layers.items():
            self.logger.info("layer %s: %s: %s", name, _walked(decision), decision.reason)
        self.logger.info(
            "%s the harvest of map '%s' for %s: %s",
            "continuing" if harvest.continued else "beginning",
            harvest.description.name,
            harvest.day,
            ", ".join(f"layer {layer.name} of depth {layer.depth}" for layer in site.layers),
        )

    # -- the end

    async def _complete(self) -> None:
        try:
            reason = await self._complete_or_go_on()
        except Exception as error:  # noqa: BLE001 - or the idle engine would call this again for ever
            scheduler = scheduler_of(self.crawler)
            # A queue that is closed has not failed: the crawl ends. Or the scheduler has said why.
            if scheduler is None or scheduler.is_open or not isinstance(error, QueueError):
                self.crawl.end(as_error(error))
        else:
            if reason is not None:
                self.crawl.end(reason)

    async def _complete_or_go_on(self) -> str | None:
        """Ends the harvest if nothing of it is left, or else asks for what was missed. Returns the reason to
        close the spider, or None if the crawl goes on. Raises MovedError, HistoryError and QueueError."""
        harvest, crawl, scheduler = self.harvest, self.crawl, scheduler_of(self.crawler)
        if await harvest.is_finished():
            crawl.counts, crawl.is_finished = await harvest.counts(), True
            return "finished"
        if scheduler is not None:
            left = await scheduler.counts()
            if sum(left.pending.values()) + left.leased:
                # Other workers are at it.
                return None
            if left.delayed:
                # What has failed waits for its next attempt.
                return "waiting"
        await self._fail_given_up()
        if missed := await self._missed():
            # Unless another worker has found them first.
            if scheduler is None or not (await scheduler.counts()).left:
                for request in missed:
                    self.crawler.engine.crawl(request)
            return None
        await harvest.expect_tiles()
        crawl.counts, crawl.is_finished = await harvest.finish(), True
        return "finished"

    async def _missed(self) -> list[BlockRequest]:
        """Returns the requests for tiles that were missed. A tile was missed if it is known and the walk did
        not reach it, or if it was skipped and an audit chooses it. Workers that look at the same time find
        the same blocks, and the queue keeps each of these once.

        This comes when no block is given up: tiles below a missed one would pass for vanished."""
        if self._tree is not None:
            await self._tree.keep_missed()
        unasked = [(block, LATE) for block in await self._unasked()]
        return [self.ask(block, how) for block, how in unasked or await self.harvest.audit()]

    async def _unasked(self) -> list[Block]:
        """Returns the known tiles that the walk did not reach. A tile that was among them before, and was
        asked since, counts as failed: it would be asked without an end."""
        before = self._asked_late
        while found := await self.harvest.unasked():
            self._asked_late = {block.place: block.mask for block in found}
            for block in found:
                if (again := block.only(before.get(block.place, 0))) is not None:
                    await self.harvest.keep_failed(again, _WITHOUT_RESULT)
            if missed := [part for one in found if (part := one.only(~before.get(one.place, 0)))]:
                return missed
        return []

    async def _fail_given_up(self) -> None:
        """Notes that tiles have failed whose blocks were given up, as each process that had leased them was
        killed. A kill in here leaves the blocks in the failure list."""
        scheduler = scheduler_of(self.crawler)
        if scheduler is None:
            return
        failures = [one for one in await scheduler.queue.failures() if one.segment == scheduler.segment]
        for failure in failures:
            request = scheduler.request_of(failure)
            if isinstance(request, BlockRequest):
                known = await self.harvest.look_up(request.block)
                without = request.block.only(~known.asked)
                if without is not None:
                    await self.harvest.keep_failed(without, failure.reason)
        await scheduler.queue.take_up([one.id for one in failures], None)

    async def _settle(self, reason: str) -> None:
        """Writes down the end of the harvest, or why this run of it ends, and logs the counts. Raises
        HistoryError."""
        harvest, crawl = self.harvest, self.crawl
        if isinstance(crawl.ending, MovedError):
            crawl.counts = await harvest.finish(crawl.ending.reason)
        elif crawl.is_finished:
            pass
        elif crawl.ending is None and await self._stayed_to_the_end():
            crawl.counts = await harvest.finish()
            crawl.is_finished = True
        else:
            await harvest.stop(_why(crawl.ending, reason))
            crawl.counts = await harvest.counts()
            self.logger.info("the harvest is not finished; run it again to continue")
        for outcome, tiles in crawl.counts.items():
            self.crawler.stats.set_value(f"harvest/outcome/{outcome}", tiles)
        if crawl.counts.get(Outcome.FAILED):
            crawl.failures = await harvest.why_failed()
        found = ", ".join(f"{outcome} {tiles}" for outcome, tiles in crawl.counts.items() if tiles)
        self.logger.info("outcomes of map '%s': %s", harvest.description.name, found or "none")

    async def _stayed_to_the_end(self) -> bool:
        """Returns whether a spider that waited for pushed requests (`-a stay=1`) stopped with none left."""
        stays = self.crawl.arguments.get("stay") == "1"
        # The queue is closed by now. The scheduler has counted what it has left.
        is_empty = self.crawler.stats.get_value("scheduler/left") == 0
        return stays and is_empty and not await self.harvest.unasked()


def _walked(decision: Decision) -> str:
    if decision.ground is not None:
        return "what its change index does not list is skipped"
    if decision.is_share:
        return "what exists is asked, and a share of the empty places"
    return "what lies below unchanged tiles is skipped" if decision.is_pruned else "every tile is asked"


def _why(ending: TileHarvestError | None, reason: str) -> str:
    """Returns in a few words why a run ended before its harvest."""
    if isinstance(ending, BudgetError):
        return ending.reason
    return _CONTROLS.get(reason, reason) if ending is None else ending.close_reason


def _spider_for(name: str) -> type[TileSpider]:
    """Returns the spider of a renderer. It differs from the others by its name alone."""
    said = f"Harvests a map of {RENDERERS[name].title}."
    members = {"name": name, "__module__": __name__, "__doc__": said}
    return type(f"{name.capitalize()}Spider", (TileSpider,), members)


SPIDERS: Final = {name: _spider_for(name) for name in RENDERERS}
"""The spider of each renderer."""
# Scrapy looks for spiders among the names of this module.
globals().update({spider.__name__: spider for spider in SPIDERS.values()})
