"""The spider of tiles, which begins a harvest, asks for its tiles, and ends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace
from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response

from tileharvest.errors import (
    AlreadyHarvestedError,
    BudgetError,
    ConfigurationError,
    EmptyMapError,
    HistoryError,
    MovedError,
    QueueError,
    StoreError,
    TileHarvestError,
)
from tileharvest.harvest.settings import harvest_for
from tileharvest.harvest.walks import located
from tileharvest.history.site_files import SiteFile
from tileharvest.importers.published_tree import PublishedTree
from tileharvest.importers.repository import SILENCE
from tileharvest.maps.settings import data_folder
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.politeness.probe import probe_politely
from tileharvest.politeness.settings import rules_for
from tileharvest.politeness.waits import noted
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.requests import FAILURE, NEAR, PUSHED, STATE, RequestState, question_of, state_of
from tileharvest.queue.sentences import is_unanswered
from tileharvest.renderers.registry import probe, renderer_named, with_indexes
from tileharvest.scheduler.crawl import crawl_of, relax_garbage_collection
from tileharvest.scheduler.engine import process_in_turn
from tileharvest.scheduler.scheduler import scheduler_of
from tileharvest.scheduler.spider import HeldSpider
from tileharvest.spiders.amendments import Amendments
from tileharvest.spiders.fetch import expect_near, fetch_with, probe_as_before
from tileharvest.spiders.queued_tiles import fetched_zooms, queued_tiles
from tileharvest.spiders.settings import suit_tiles
from tileharvest.store.settings import open_store_for_reading
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.questions import LATE, ON_WALK, TileQuestion
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.verdict import with_attempts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.queue.port import Failure as GivenUp
    from tileharvest.renderers.site import Fetch, Site
    from tileharvest.scheduler.crawl import Crawl
    from tileharvest.scheduler.fleet import Fleet
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.questions import Asked
    from tileharvest.walk.decision import Decision

_UNCHANGED: Final = (Outcome.IGNORED, Outcome.NOT_MODIFIED)
"""Outcomes of a pushed tile below which nothing is asked: the segment's complete harvest has asked there."""

CHECKS: Final = 0
"""Priority of the lane for checks: normal."""

_OURS: Final = (HistoryError, StoreError, QueueError)
"""Failures of history, store and queue. The site is not to blame for them, so that they fail no tile."""

_UNTIL: Final = f"({SILENCE} s without a word of git end it)"
"""The end of a wait for a git repository. Nobody knows when the wait ends if git goes on talking."""

_ORDERS: Final = {"shutdown": "Ctrl-C or SIGTERM", "stopped": "tileharvest stop"}
"""What a person did to stop the crawl, by the reason that Scrapy or our scheduler gives."""

_WITHOUT_RESULT: Final = "asked twice, and nothing was found out about it"

_SENT_ELSEWHERE: Final = frozenset(
    {"redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons", NEAR}
)
"""The keys of meta that only a redirected request has."""


class TileSpider(Spider, HeldSpider):
    """Harvests one map: `-a map=NAME`, and if wanted `-a dry=1`, `-a day=2026-11-20`, `-a segment=run`,
    `-a fresh=1`, `-a stay=1`.

    A failure ends the crawl with one line in the log. `crawl` holds how it ended, for the command that ran
    it.
    """

    crawl: Crawl
    harvest: Harvest
    """Missing if the harvest was refused."""
    holds_scheduler = True
    """The site must be probed before a tile has an address."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._work: Fleet | None = None
        """The scheduler's fleet. None until requests are offered, and under another scheduler than ours."""
        self._tree: PublishedTree | None = None
        """The tree that is read in place of the site's tiles, if the map is published through git."""
        self._completing: asyncio.Task[None] | None = None
        self._ending_layers: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        """The task that reads maps.toml again when it changes."""
        self._asked_late: set[tuple[str, Tile]] = set()
        """The tiles that the walk had missed when they were last looked for."""
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
        # A git repository tells of every tile by itself.
        may_tell = description.change_index and description.repository is None
        is_of_use = may_tell and description.walk == "auto" and not self.harvest.is_pushed
        return await with_indexes(site, fetch) if is_of_use else site

    @property
    def is_usual(self) -> bool:
        """Whether no class of a project's own asks for tiles, prepares them or hears of their answers."""
        own = type(self)
        return (
            own.ask is TileSpider.ask
            and own.prepared is TileSpider.prepared
            and own.answered is TileSpider.answered
        )

    @classmethod
    def check(cls, description: MapDescription) -> None:
        """Raises ConfigurationError for a map that maps.toml says is of another renderer."""
        if description.renderer not in ("", cls.name):
            named = renderer_named(description.renderer).name
            raise ConfigurationError(
                f"map '{description.name}' has renderer = \"{named}\" in maps.toml, and not {cls.name}: write"
                f" scrapy crawl {named} -a map={description.name}"
            )

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        suit_tiles(settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.crawl = crawl = crawl_of(crawler)
        crawl.arguments = kwargs
        if crawl.is_tool:
            # The tool wants one page, by the spider's settings. It harvests nothing.
            spider.holds_scheduler = False
            return spider
        try:
            harvest = harvest_for(crawler.settings, kwargs)
            cls.check(harvest.description)
            rules = rules_for(crawler.settings, harvest.description)
        except TileHarvestError as error:
            crawl.end(error)
            return spider
        crawl.harvest = spider.harvest = harvest
        crawl.rules = rules
        behave(crawler.settings, rules)
        if harvest.description.max_tile_bytes is not None:
            most = harvest.description.most_tile_bytes
            crawler.settings.set("DOWNLOAD_MAXSIZE", most, priority="spider")
        harvest.limit(rules, data_folder(crawler.settings))
        relax_garbage_collection(crawler.settings)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        crawler.signals.connect(spider.end, signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Probes the site, begins the harvest, and yields the requests with which the walks start."""
        process_in_turn(self.crawler.engine)
        self.crawl.beginning = asyncio.current_task()
        is_first = False
        try:
            if self.crawl.harvest is not None and not self.crawl.is_ending:
                await self._begin()
                is_first = await self._offer()
                if self._tree is not None and not self.harvest.is_pushed:
                    with noted(self.crawl.waits, f"the tiles of the map's git repository {_UNTIL}"):
                        await self._tree.keep()
                    if self.harvest.doubted:
                        await self._end_layers(sorted(self.harvest.doubted))
        except TileHarvestError as error:
            self.crawl.end(error)
        except Exception as error:
            self.logger.error("a mistake in the program stopped the harvest", exc_info=error)
            mistake = f"the harvest stopped before it began ({error!r}); nothing was changed: report this"
            self.crawl.end(TileHarvestError(mistake))
        finally:
            self.crawl.beginning = None
        if not is_first:
            return
        if self._tree is not None:
            self._seeded()
            return
        for layer, tile in self.harvest.first():
            yield self.ask(layer, tile)
        self._seeded()

    def _seeded(self) -> None:
        """Tells the fleet that all requests with which the walks start are enqueued."""
        if self._work is not None:
            self._work.seeded()

    def prepared(self, request: Request, segment: str) -> Request | None:
        """Returns a request that has waited, with the address that the site now has for its tile: that
        changes with the map's depth. Returns None for a request of an earlier segment, as the present walk
        asks for its tile itself."""
        if segment == PUSHED:
            asked = self.again(request, surely=True)
            if asked is not None:
                state_of(asked).attempt = state_of(request).attempt
            return asked
        if segment != self.harvest.segment.name:
            return None
        return self._addressed(request)

    def again(self, request: Request, *, surely: bool = False) -> Request | None:
        """Returns a request of an earlier segment as the present walk would ask it, so that its tile is asked
        once. Returns None if the site has no such tile."""
        found = self._addressed(request)
        if found is None:
            return None
        question = _question(found)
        layer, tile = question.place
        asked = replace(question.asked.below, late=surely)
        return self.ask(self.harvest.layers[layer].layer, tile, asked, surely=surely)

    def ask(self, layer: Layer, tile: Tile, asked: Asked = ON_WALK, *, surely: bool = False) -> Request:
        """Returns the request that asks whether a tile has changed; `surely`, even if it was asked before. A
        tile that is asked `surely` may be known since, so a HEAD asks."""
        question = TileQuestion(layer.name, tile, asked)
        is_fetched = not surely and tile.zoom in fetched_zooms(self.harvest, layer.name)
        return Request(
            layer.addresses.url_of(tile),
            method="GET" if is_fetched else "HEAD",
            callback=self.answered,
            errback=self.failed,
            dont_filter=surely,
            priority=CHECKS,
            # The address was made valid once for the whole layer.
            meta={"verbatim_url": True, "download_slot": layer.host, STATE: RequestState(question)},
        )

    def answered(self, response: Response) -> Iterator[TileResult | Request]:
        """Yields the requests for the tiles below, and the result that the diff middleware has put into the
        request's state."""
        assert response.request is not None
        state: RequestState = response.request.meta[STATE]
        result, question = state.result, state.question
        assert result is not None
        assert question is not None
        if result.outcome is Outcome.FAILED:
            response.request.meta[FAILURE] = result.reason
        # The tiles below come first. If they came after the result they would wait until it is durable.
        layer = self.harvest.layers[result.layer].layer
        for tile, asked in self.after(result, question.asked, known=state.known):
            yield self.ask(layer, tile, asked)
        if result.is_recorded:
            yield result

    def after(self, result: TileResult, asked: Asked, *, known: bool) -> list[tuple[Tile, Asked]]:
        """Returns the tiles that are asked because of a result, and how each is asked. `asked` says how the
        result's own tile was asked, and `known` what `RequestState.known` says of it."""
        harvest, layer = self.harvest, result.layer
        if harvest.doubted:
            self._look_for_ends()
        if layer in harvest.endless:
            return []
        walk, walks = harvest.layers[layer].walk, harvest.walks
        following: list[tuple[Tile, Asked]] = []
        is_asked_below = harvest.is_pushed and result.outcome in _UNCHANGED
        if not (result.step.skips or is_asked_below):
            below = walk.below(result.tile, result.outcome, known=known)
            if below:
                asked_below = asked.below
                following += [(child, asked_below) for child in walks.to_ask(layer, below, asked)]
        if walk.goes_sideways and not harvest.is_pushed:
            beside = walk.beside(result.tile, result.outcome, known=known)
            following += [(tile, ON_WALK) for tile in walks.to_ask(layer, beside, asked)]
        return following

    async def failed(self, failure: Failure) -> AsyncIterator[TileResult | Request]:
        """Yields a `fail` for a request that got no answer, and the requests that follow a failed tile.

        If the history, the store or the queue has failed, that ends the crawl, and the next one asks for the
        tile again.
        """
        try:
            if isinstance(failure.value, _OURS):
                raise failure.value
            result = await self._failure_of(failure)
        except _OURS as error:
            self.crawl.end(error)
            return
        for step in result:
            yield step

    async def _failure_of(self, failure: Failure) -> Iterator[TileResult | Request]:
        request: Request = failure.request  # type: ignore[attr-defined]
        state = state_of(request)
        layer, tile = _question(request).place
        assert failure.value is not None
        attempts = request.meta.get("retry_times", 0) + 1
        reason = with_attempts(no_answer_in_words(failure.value), attempts)
        state.result = TileResult(layer, tile, Outcome.FAILED, reason=reason)
        state.known = await self.harvest.knows_below(layer, tile)
        return self.answered(Response(request.url, request=request))

    def idle(self) -> None:
        """Ends the harvest when nothing is left to do. Tiles that were missed are asked for first."""
        if self.crawl.is_ending or not self.harvest.is_open:
            return
        if self._completing is None or self._completing.done():
            self._completing = asyncio.ensure_future(self._complete())
        raise DontCloseSpider

    async def settled(self) -> None:
        """Returns when the beginning was cancelled, and every task that completes the harvest is done."""
        if self.crawl.beginning is not None:
            # The site may have asked for long pauses.
            await cancel(self.crawl.beginning)
        if self._watching is not None:
            await cancel(self._watching)
        if self._ending_layers is not None:
            await asyncio.wait([self._ending_layers])
        if self._completing is not None:
            await asyncio.wait([self._completing])

    async def end(self, reason: str) -> None:
        """Ends the harvest when the spider has closed, or leaves it to be continued."""
        await self.settled()
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
            if scheduler is None or not await scheduler.has_due() or await harvest.is_any_unfinished():
                raise
            harvest.is_pushed = True
        await self._be_allowed()
        site = await self._read_tree() or await self._probe_site()
        if crawl.politeness is not None:
            crawl.politeness.obey(crawl.robots.gap)
            hosts = {layer.host for layer in site.layers}
            if len(hosts) == 1:
                await crawl.politeness.ask_at(*hosts)
        if site.renderer != (harvest.description.renderer or self.name):
            self.logger.warning(
                "the site is a map of %s: write renderer = \"%s\" for map '%s' into maps.toml, which spares"
                " it two requests at each harvest",
                renderer_named(site.renderer).title,
                site.renderer,
                harvest.description.name,
            )
        if site.probed:
            self.logger.info("the site has no configuration: depths were found by asking for tiles")
        for note in site.notes:
            self.logger.info("%s", note)
        crawl.refused = site.refused
        for line in site.refused:
            self.logger.error("%s; the other layers are harvested", line)
        await harvest.open(site, self._site_files)
        self._tell(site)

    async def _probe_site(self) -> Site:
        description, rules = self.harvest.description, self.crawl.rules
        assert rules is not None
        (known, is_relied_on), read = await self.harvest.site_files(), dict[str, SiteFile]()
        fetch = fetch_with(self.crawler, description.host, known, read)

        async def probe(description: MapDescription, fetch: Fetch) -> Site:
            return await probe_as_before(
                self.probe, self.with_indexes, description, fetch, known, read, is_relied_on=is_relied_on
            )

        site, self.crawl.robots = await probe_politely(
            probe, description, fetch, obeys=rules.robots, waits=self.crawl.waits
        )
        await expect_near(site, description.host)
        kept = {url: file for url, file in read.items() if file.is_worth_keeping}
        self._site_files = None if kept == known else kept
        return site

    async def _read_tree(self) -> Site | None:
        """Returns the site as the map's git repository shows it, or None if the map has no repository."""
        harvest, rules, settings = self.harvest, self.crawl.rules, self.crawler.settings
        repository = harvest.description.repository
        if repository is None:
            return None
        assert rules is not None
        folder = data_folder(settings) / "git" / "harvest" / harvest.description.name
        store = open_store_for_reading(settings)
        politeness, agent = self.crawl.politeness, f"git {rules.user_agents[0]}"
        check = (lambda: None) if politeness is None else politeness.check
        is_limited = bool(rules.budget.received_bytes or rules.daily_budget.received_bytes)
        self._tree = PublishedTree(harvest, repository, folder, store, agent, check, is_limited=is_limited)
        with noted(self.crawl.waits, f"the map's git repository {_UNTIL}"):
            site = await self._tree.read(self.probe)
        self._site_files = dict(self._tree.files)
        return site

    async def _be_allowed(self) -> None:
        """Waits until the site may be asked, and finds out how much may be asked of it."""
        harvest, politeness = self.harvest, self.crawl.politeness
        harvest.check_room()
        amendments = Amendments(self.crawler.settings, self.crawl, await harvest.spent())
        self._watching = asyncio.ensure_future(amendments.watch())
        # A daily budget that is spent ends the run before it waits. An amendment that comes while it waits
        # counts below.
        amendments.budget()
        if politeness is not None:
            await politeness.may_go_on()
            await politeness.allow(amendments.budget())

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

    async def _offer(self) -> bool:
        """Lets requests be offered. Returns whether this worker makes the ones with which the walks start."""
        scheduler, harvest = scheduler_of(self.crawler), self.harvest
        if scheduler is None:
            return True
        way = queued_tiles(self.crawler, scheduler, self.after) if self.is_usual else None
        if way is not None:
            scheduler.shorten(way)
        self._work = await scheduler.release(harvest.identity, continued=harvest.continued)
        await self._read_ends()
        return self._work is not None and self._work.is_first

    def _addressed(self, request: Request) -> Request | None:
        """Returns the request for the same tile at its present address. Returns None if the site has no such
        tile, which the log says, or if the walk over its layer was ended."""
        state, layers = state_of(request), self.harvest.layers
        if state.question is not None and state.question.layer in self.harvest.endless:
            return None
        try:
            state.question, url = located(layers, state.question or TileQuestion(), request.url)
        except LookupError as error:
            self.logger.error("%s", error)
            return None
        request.meta["download_slot"] = layers[state.question.layer].layer.host
        # The address from which a redirected request comes is the first one.
        first = request.meta.get("redirect_urls", (request.url,))[0]
        return request if url == first else self._unsent(request, url)

    @staticmethod
    def _unsent(request: Request, url: str) -> Request:
        meta = {name: value for name, value in request.meta.items() if name not in _SENT_ELSEWHERE}
        return request.replace(url=url, meta=meta)

    # -- layers without an end

    def _look_for_ends(self) -> None:
        """Begins to end the walks over layers that seem to go on for ever."""
        doubted = self.harvest.doubted.keys() - self.harvest.endless.keys()
        if doubted and (self._ending_layers is None or self._ending_layers.done()):
            self._ending_layers = asyncio.ensure_future(self._end_layers(sorted(doubted)))

    async def _end_layers(self, names: list[str]) -> None:
        """Ends the walks over these layers. The queue is told first: no worker must call a harvest complete
        of which a part was not walked."""
        harvest = self.harvest
        try:
            for name in names:
                if self._work is not None:
                    await self._work.note(*harvest.remark_of_end(name))
        except QueueError as error:
            self.crawl.end(error)
            return
        for name in names:
            harvest.endless[name] = harvest.doubted[name]
            self.logger.info("%s", harvest.doubted[name])
        self._drop_the_endless()

    async def _read_ends(self) -> None:
        """Learns from the queue which walks were ended, by this process or another one. Raises QueueError."""
        if self._work is None:
            return
        self.harvest.learn_of_ends(await self._work.notes())
        self._drop_the_endless()

    def _drop_the_endless(self) -> None:
        scheduler = scheduler_of(self.crawler)
        if self.harvest.endless and scheduler is not None:
            scheduler.ask_spider()

    # -- the end

    async def _complete(self) -> None:
        try:
            counts = await self._counts_at_end()
        except TileHarvestError as error:
            self.crawl.end(error)
            return
        except Exception as error:
            # Without an end the engine, which finds nothing to do, would call this again for ever.
            self.logger.error("a mistake in the program stopped the harvest", exc_info=error)
            mistake = f"the harvest stopped at its end ({error!r}); what was recorded is kept: report this"
            self.crawl.end(TileHarvestError(mistake))
            return
        if counts is not None:
            self.crawl.counts, self.crawl.is_finished = counts, True
            self.crawl.end("finished")
        elif self._work is not None and self._work.has_only_later:
            self.crawl.end("waiting")

    async def _counts_at_end(self) -> dict[Outcome, int] | None:
        """Returns the exact counts of the harvest if it has ended, or None if it goes on. Raises MovedError,
        HistoryError and QueueError."""
        harvest, work = self.harvest, self._work
        if (work is not None and work.is_ended) or await harvest.is_finished():
            harvest.ended_here = False
            counts = await harvest.counts()
        else:
            # Tiles of a layer whose walk was ended are not missing.
            await self._read_ends()
            if await self._ask_for_the_missed() or not await self._may_end():
                return None
            await self._read_ends()
            if harvest.endless:
                raise harvest.endless_error()
            await harvest.expect_tiles()
            counts = await harvest.finish()
        if work is not None:
            await work.ended()
        return counts

    async def _may_end(self) -> bool:
        """Returns whether this worker ends the harvest, and nothing is left to be asked.

        A shared queue looks for expired leases when it is asked. It may give requests up then that were still
        leased when the failure list was last read, so the list is read once more.
        """
        work = self._work
        if work is None:
            return True
        return await work.may_end() and not self._enqueue(await self._unanswered(work))

    def _enqueue(self, requests: list[Request]) -> bool:
        """Enqueues requests. Returns whether there are any."""
        for request in requests:
            self.crawler.engine.crawl(request)
        return bool(requests)

    async def _ask_for_the_missed(self) -> bool:
        """Asks for tiles that were missed, and returns whether there were any. A tile was missed if its
        request was given up without an answer, if it is known and the walk did not reach it, or if it was
        skipped and an audit chooses it."""
        missed = [] if self._work is None else await self._unanswered(self._work)
        if not missed:
            # This comes only now: tiles below a missed one would pass for vanished.
            if self._tree is not None:
                await self._tree.keep_missed()
            missed = [self.ask(*one, LATE, surely=True) for one in await self._unasked()]
        if not missed:
            missed = [self.ask(*one, surely=True) for one in await self.harvest.audit()]
        return self._enqueue(missed)

    async def _unasked(self) -> list[tuple[Layer, Tile]]:
        """Returns the known tiles that the walk did not reach. A tile that was among them before, and was
        asked since, counts as failed: it would be asked without an end."""
        before = self._asked_late
        while found := await self.harvest.unasked():
            self._asked_late = {(layer.name, tile) for layer, tile in found}
            for place in self._asked_late & before:
                await self.harvest.keep(TileResult(*place, Outcome.FAILED, reason=_WITHOUT_RESULT))
            if missed := [(layer, tile) for layer, tile in found if (layer.name, tile) not in before]:
                return missed
        return []

    async def _unanswered(self, work: Fleet) -> list[Request]:
        """Returns new requests for tiles that were given up, as each process that had leased them was killed.

        Most of these requests were never sent, so each is tried once more. This includes tiles that have a
        result: the process that recorded it may have been killed before it enqueued the tiles below. If a
        tile is given up again, the tiles below it are asked as after any failure. If it has no result by
        then, it has failed."""
        given_up: dict[tuple[str, Tile], list[tuple[GivenUp, Request]]] = {}
        for failure, request in await work.given_up():
            # A tile may have several: each worker that lost the lease of its HEAD may have enqueued a GET.
            given_up.setdefault(_question(request).place, []).append((failure, request))
        missed = []
        answered = await self.harvest.answered(given_up)
        without = await self.harvest.without_result(given_up)
        for place in (*answered, *without):
            # The last one is the second try, if there was one.
            *others, (failure, request) = sorted(given_up[place], key=lambda one: _question(one[1]).once_more)
            for other, _ in others:
                work.take_up(other)
            if place in answered:
                work.take_up(failure)
                if not is_unanswered(failure.reason):
                    # The site had not answered, and has answered another attempt since.
                    continue
            if _question(request).once_more:
                result = TileResult(*place, Outcome.FAILED, reason=failure.reason)
                known = await self.harvest.knows_below(*place)
                layer = self.harvest.layers[result.layer].layer
                # Without this all that is known below the tile would pass for vanished.
                below = self.after(result, _question(request).asked, known=known)
                missed += [self.ask(layer, *one) for one in below]
                if place not in answered:
                    await self.harvest.keep(result)
            elif (again := self.again(request, surely=True)) is not None:
                question = _question(again)
                # It is asked like a request whose lease was lost less often.
                asked = replace(question.asked, late=False, again=True)
                state_of(again).question = replace(question, asked=asked, once_more=True)
                if place not in answered:
                    work.take_up(failure)
                missed.append(again)
        return missed

    async def _settle(self, reason: str) -> None:
        """Writes down the end of the harvest, or why this run of it ends, and logs the counts. Raises
        HistoryError."""
        harvest, crawl = self.harvest, self.crawl
        if isinstance(crawl.ending, (MovedError, EmptyMapError)):
            crawl.counts = await harvest.abandon("moved" if isinstance(crawl.ending, MovedError) else "empty")
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
        scheduler = scheduler_of(self.crawler)
        if self.crawl.arguments.get("stay") != "1" or scheduler is None or not scheduler.left_nothing:
            return False
        return not await self.harvest.unasked()


def _question(request: Request) -> TileQuestion:
    question = question_of(request)
    assert question is not None
    return question


def _walked(decision: Decision) -> str:
    if decision.ground is not None:
        return "what its change index does not tell of is skipped"
    return "what lies below unchanged tiles is skipped" if decision.is_pruned else "every tile is asked"


def _why(ending: TileHarvestError | None, reason: str) -> str:
    """Returns in a few words why a run ended before its harvest."""
    if isinstance(ending, BudgetError):
        return ending.reason
    return _ORDERS.get(reason, reason) if ending is None else ending.close_reason


def behave(settings: BaseSettings, rules: Rules) -> None:
    """Sets Scrapy's own settings by the rules of the map's owner. The scheduler keeps to the others."""
    for setting in ("CONCURRENT_REQUESTS", "CONCURRENT_REQUESTS_PER_DOMAIN"):
        settings.set(setting, rules.concurrency, priority="spider")
    settings.set("AUTOTHROTTLE_ENABLED", rules.autothrottle, priority="spider")
    settings.set("USER_AGENT", rules.user_agents[0], priority="spider")
    settings.set("USER_AGENTS", rules.user_agents, priority="spider")
