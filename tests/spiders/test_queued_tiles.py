"""Which tiles go the short way, what they enqueue, and what is left to Scrapy's engine."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import copy_context
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from protego import Protego
from scrapy import signals
from scrapy.core.scraper import Slot
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from twisted.python.failure import Failure

from tests.middlewares.making import (
    DEEPEST,
    ETAG,
    HOST,
    LAYER,
    SITE,
    added,
    drawn,
    image_of,
    opened,
    remember,
)
from tileharvest.errors import HistoryError, QueueError, StoreError, TileHarvestError
from tileharvest.history.known import block_of
from tileharvest.maps.rates import NO_GAP, Gap
from tileharvest.middlewares.traffic import TrafficMiddleware
from tileharvest.pipelines import HistoryPipeline
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.robots import Robots
from tileharvest.queue.codec import decode, encode_own
from tileharvest.queue.port import Lease
from tileharvest.queue.requests import question_of, state_of
from tileharvest.queue.sentences import WORKER_ENDED
from tileharvest.scheduler.blocks import Block, QueuedTile
from tileharvest.scheduler.crawl import crawl_of, forget
from tileharvest.scheduler.fingerprint import SegmentFingerprinter
from tileharvest.scheduler.request_writer import RequestWriter
from tileharvest.scheduler.scheduler import Scheduler
from tileharvest.spiders.download import Reply, TileDownloadHandler
from tileharvest.spiders.log import WHOSE
from tileharvest.spiders.queued_tiles import queued_tile, queued_tiles
from tileharvest.spiders.renderers import spider_of
from tileharvest.spiders.tiles import TileSpider
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.questions import LATE, ON_WALK, Asked, TileQuestion
from tileharvest.tiles.results import TileResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

    from scrapy import Request
    from scrapy.http import Response

    from tileharvest.queue.codec import QueuedRequest
    from tileharvest.spiders.queued_tiles import QueuedTiles

TILE = Tile(0, -3, 3)
ABOVE = TILE.parent()


class WatchingMiddleware(TrafficMiddleware):
    """A middleware of a project's own."""


class WatchingSpiderMiddleware:
    """A spider middleware of a project's own."""


class WatchingPipeline(HistoryPipeline):
    """A pipeline of a project's own."""


class OtherHandler(TileDownloadHandler):
    """A download handler of a project's own."""


class OtherFingerprinter(SegmentFingerprinter):
    """A rule of a project's own."""


class PreparingSpider(TileSpider):
    """Has something to say of each request that has waited."""

    def prepared(self, request: Request, segment: str) -> Request | None:
        return super().prepared(request, segment)


class AskingSpider(TileSpider):
    """Has something to add to each request."""

    def ask(self, *what: Any, **how: Any) -> Request:
        return super().ask(*what, **how)


class AnsweredSpider(TileSpider):
    """Looks at each answer."""

    def answered(self, response: Response) -> Iterator[TileResult | Request]:
        return super().answered(response)


class Shortened(Scheduler):
    """A scheduler that lists the short ways that it is told of, and offers nothing."""

    def __init__(self) -> None:
        self.ways: list[Any] = []

    def shorten(self, way: Any) -> None:
        self.ways.append(way)

    async def release(self, harvest: str, *, continued: bool) -> None:
        return None


class Listed:
    """The scheduler, as far as the short way knows it. It lists what it is told."""

    block_size = 64

    def __init__(self, *following: QueuedTile) -> None:
        self.asked: list[tuple[str, Tile, int]] = []
        """Method, tile and priority of what is enqueued."""
        self.events: list[tuple[str, Tile]] = []
        self.answers: list[Any] = []
        """What tiles are left with."""
        self.following = list(following)
        """The further tiles of the block."""
        self.awaited: list[QueuedTile] = []
        """The tiles of the block whose starts come later, one after the other."""

    def entries_of(self, tiles: Iterable[QueuedRequest]) -> list[tuple[str, Tile, int]]:
        return [
            (one.method, one.question.place[1], one.priority) for one in tiles if one.question is not None
        ]

    def enqueue_entries(self, entries: Iterable[tuple[str, Tile, int]]) -> None:
        self.asked += entries

    def next_tiles(self, most: int) -> list[QueuedTile]:
        tiles, self.following = self.following[:most], self.following[most:]
        return tiles

    async def until_start(self) -> bool:
        if not self.awaited:
            return False
        self.following.append(self.awaited.pop(0))
        return True

    def leave(self, tile: QueuedTile, answer: Any = None) -> None:
        self._note("left", tile)
        self.answers.append(answer)

    def through(self, *tiles: QueuedTile) -> None:
        for tile in tiles:
            self._note("through", tile)

    def cut_off(self, *tiles: QueuedTile) -> None:
        for tile in tiles:
            self._note("cut off", tile)

    def _note(self, what: str, tile: QueuedTile) -> None:
        assert tile.queued.question is not None
        self.events.append((what, tile.queued.question.place[1]))


class LeasedLate(Listed):
    """Has the tiles of a block only after it has said that none may start. Nobody is told of them."""

    def __init__(self, *following: QueuedTile) -> None:
        super().__init__()
        self.late = list(following)

    def next_tiles(self, most: int) -> list[QueuedTile]:
        tiles = super().next_tiles(most)
        if not tiles:
            self.following, self.late = self.late, []
        return tiles

    async def until_start(self) -> bool:
        assert not self.following, "a block would wait without an end"
        return await super().until_start()


class Broken(Listed):
    """Can write none of what is to be enqueued."""

    def entries_of(self, tiles: Iterable[QueuedRequest]) -> list[Any]:
        raise ValueError(f"{list(tiles)} have no canonical form")


CLEAN = {"LOG_LEVEL": "INFO", "TWISTED_REACTOR_ENABLED": False}


@asynccontextmanager
async def crawled(
    folder: Path,
    known: Iterable[Tile] = (TILE,),
    spider_class: type[TileSpider] = TileSpider,
    zooms: tuple[int, int] | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[TileSpider, Crawler]]:
    """A spider with its engine, whose harvest is open. Some tiles are known of the day before."""
    of_project = Settings()
    of_project.setmodule("tileharvest.settings")
    of_project.update({**CLEAN, **settings}, priority="cmdline")
    crawler = Crawler(spider_of("overviewer"), of_project)
    await remember(folder, *map(added, known))
    async with opened(folder, zooms=zooms) as harvest:
        crawl_of(crawler).harvest = harvest
        crawler._apply_settings()
        spider = spider_class("overviewer")
        spider.crawler, spider.crawl, spider.harvest = crawler, crawl_of(crawler), harvest
        crawler.spider = spider
        crawler.engine = engine = crawler._create_engine()
        engine.running, engine._slot = True, SimpleNamespace(closing=None)  # type: ignore[assignment]
        engine.scraper.slot = Slot()
        try:
            yield spider, crawler
        finally:
            forget(crawler)


def test_what_is_enqueued_is_what_the_spider_asks_and_is_taken(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            way = way_of(spider)
            assert way is not None
            for asked in (ON_WALK, LATE, Asked(in_full=True)):
                usual = RequestWriter(spider).write(spider.ask(SITE.layers[0], TILE, asked))
                queued = queued_tile(SITE.layers[0], TileQuestion(LAYER, TILE, asked), "HEAD")
                assert decode(encode_own(queued)) == decode(usual)
                assert way.takes(Lease(1, 1, usual, "day", 0), decode(usual), is_begun=True)
                second = Lease(1, 2, usual, "day", 0)
                assert not way.takes(second, decode(usual), is_begun=True), "its second attempt"

    asyncio.run(run())


@pytest.mark.parametrize(
    "change",
    [
        {"method": "POST"},
        {"headers": {"A": "b"}},
        {"meta": {"proxy": "http://127.0.0.1:1"}},
        {"url": "ftp://a/"},
    ],
    ids=str,
)
def test_a_tile_with_anything_of_its_own_is_not_taken(tmp_path: Path, change: dict[str, Any]) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            way = way_of(spider)
            assert way is not None
            request = spider.ask(SITE.layers[0], TILE)
            change["meta"] = request.meta | change.get("meta", {})
            body = RequestWriter(spider).write(request.replace(**change))
            assert not way.takes(Lease(1, 1, body, "day", 0), decode(body), is_begun=True)

    asyncio.run(run())


def test_of_another_run_only_what_the_site_still_wants_so_is_taken(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            way, harvest = way_of(spider), spider.harvest
            assert way is not None
            queued = queued_tile(SITE.layers[0], TileQuestion(LAYER, TILE), "HEAD")
            moved = replace(queued, url=f"http://{HOST}/{LAYER}/1/0/0.png")
            ours = Lease(1, 1, b"", harvest.segment.name, 0)
            assert way.takes(ours, queued, is_begun=False)
            assert not way.takes(ours, moved, is_begun=False), "the map has grown"
            assert not way.takes(Lease(1, 1, b"", "", 0), queued, is_begun=False), "a person has pushed it"
            harvest.endless[LAYER] = "its walk was ended"
            assert not way.takes(ours, queued, is_begun=False)

    asyncio.run(run())


@pytest.mark.parametrize(
    "settings",
    [
        {"DOWNLOADER_MIDDLEWARES": {f"{__name__}.WatchingMiddleware": 995}},
        {"DOWNLOADER_MIDDLEWARES": {"tileharvest.middlewares.outage.OutageMiddleware": None}},
        {"DOWNLOADER_MIDDLEWARES": {"tileharvest.middlewares.outage.OutageMiddleware": 1}},
        {"DOWNLOAD_HANDLERS": {"https": f"{__name__}.OtherHandler"}},
        {"SPIDER_MIDDLEWARES": {f"{__name__}.WatchingSpiderMiddleware": 500}},
        {"ITEM_PIPELINES": {f"{__name__}.WatchingPipeline": 400}},
        {"FEEDS": {"tiles.jsonl": {"format": "jsonlines"}}},
        {"LOG_LEVEL": "DEBUG"},
        {"REQUEST_FINGERPRINTER_CLASS": f"{__name__}.OtherFingerprinter"},
    ],
    ids=[
        "a middleware more",
        "a middleware less",
        "another middleware before ours",
        "another download handler",
        "a spider middleware",
        "a pipeline",
        "a feed",
        "the log names each tile",
        "another fingerprint",
    ],
)
def test_where_a_project_looks_at_each_tile_none_goes_the_short_way(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async def run() -> None:
        async with crawled(tmp_path, **settings) as (spider, _):
            assert way_of(spider) is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("spider_class", "is_short"),
    [(TileSpider, True), (PreparingSpider, False), (AskingSpider, False), (AnsweredSpider, False)],
)
def test_where_a_spider_of_a_projects_own_looks_at_requests_no_tile_goes_the_short_way(
    tmp_path: Path, spider_class: type[TileSpider], is_short: bool
) -> None:
    async def run() -> None:
        async with crawled(tmp_path, spider_class=spider_class) as (spider, crawler):
            crawler.engine._slot.scheduler = scheduler = Shortened()
            await spider._offer()
            assert bool(scheduler.ways) is is_short

    asyncio.run(run())


def test_where_somebody_listens_to_items_no_tile_goes_the_short_way(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, crawler):
            assert way_of(spider) is not None
            crawler.signals.connect(run, signals.item_scraped)
            assert way_of(spider) is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("reasons", "may"),
    [((), True), ((Reason.SPENT,), True), ((Reason.PAUSED,), False), ((Reason.SPENT, Reason.DOWN), False)],
)
def test_it_asks_for_nothing_while_requests_are_held_back(
    tmp_path: Path, reasons: tuple[Reason, ...], may: bool
) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            held: Any = SimpleNamespace(reasons=set(reasons), is_elsewhere=lambda host: False)
            spider.crawl.politeness = held
            assert asked_now(spider) is may

    asyncio.run(run())


def test_it_asks_for_nothing_that_robots_txt_forbids(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            for path, may in (("/world-night", True), (f"/{LAYER}/0", False)):
                rules = Protego.parse(f"User-agent: *\nDisallow: {path}")
                spider.crawl.robots = Robots(rules={f"http://{HOST}": rules})
                assert asked_now(spider) is may

    asyncio.run(run())


@pytest.mark.parametrize("kind", [HistoryError, StoreError, QueueError])
def test_what_is_not_the_sites_failure_ends_the_crawl_and_fails_no_tile(
    tmp_path: Path, kind: type[TileHarvestError]
) -> None:
    """It comes from a middleware, which reads the history and may put an image into the store again."""

    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            request, error = spider.ask(SITE.layers[0], TILE), kind("the disk is full; run again")
            failure: Any = Failure(error)  # type: ignore[no-untyped-call]
            failure.request = request
            assert [one async for one in spider.failed(failure)] == []
            assert spider.crawl.ending is error

    asyncio.run(run())


def test_a_tile_that_was_missed_is_asked_once_more_and_has_failed_then(tmp_path: Path) -> None:
    """Whatever has kept it without a result might do so without an end."""

    async def run() -> None:
        missed, *reached = DEEPEST
        async with crawled(tmp_path, DEEPEST) as (spider, _):
            # Each that is kept by itself waits for others, for up to four seconds.
            await asyncio.gather(
                *(spider.harvest.keep(TileResult(LAYER, tile, Outcome.IGNORED)) for tile in reached)
            )
            assert [tile for _, tile in await spider._unasked()] == [missed]
            assert await spider._unasked() == []
            assert (await spider.harvest.counts())[Outcome.FAILED] == 1

    asyncio.run(run())


def test_below_a_tile_that_was_given_up_twice_the_walk_goes_on(tmp_path: Path) -> None:
    """Else what is known there would be taken for vanished, and the map for moved."""

    async def run() -> None:
        async with crawled(tmp_path, [TILE]) as (spider, _):
            given_up = spider.ask(SITE.layers[0], ABOVE)
            state_of(given_up).question = TileQuestion(LAYER, ABOVE, once_more=True)

            class Work:
                async def given_up(self) -> list[Any]:
                    reason = "its worker ended 5 times while it was under way"
                    return [(SimpleNamespace(reason=reason), given_up)]

            work: Any = Work()
            asked = {
                question.place for one in await spider._unanswered(work) if (question := question_of(one))
            }
            assert asked == {(LAYER, tile) for tile in SITE.layers[0].pyramid.children(ABOVE)}
            assert (await spider.harvest.counts())[Outcome.FAILED] == 1
            assert await spider._unanswered(work) == []

    asyncio.run(run())


def test_a_tile_that_is_given_up_when_the_last_leases_expire_is_asked_once_more(tmp_path: Path) -> None:
    """A shared queue looks for expired leases when it is asked whether the work is over."""

    async def run() -> None:
        async with crawled(tmp_path, [TILE]) as (spider, crawler):
            await spider.harvest.keep(TileResult(LAYER, TILE, Outcome.IGNORED))
            leased, asked, failures = spider.ask(SITE.layers[0], ABOVE), list[Any](), list[Any]()
            engine: Any = SimpleNamespace(crawl=asked.append, scheduler=None)
            crawler.engine = engine

            class Work:
                is_ended = False

                async def may_end(self) -> bool:
                    failures.append((SimpleNamespace(reason="its worker ended 5 times"), leased))
                    return True

                async def given_up(self) -> list[Any]:
                    return failures

                def take_up(self, failure: object) -> None:
                    failures.clear()

                async def notes(self) -> dict[str, str]:
                    return {}

                async def ended(self) -> None: ...

            work: Any = Work()
            spider._work = work
            assert await spider._counts_at_end() is None
            assert [question_of(one).place for one in asked] == [(LAYER, ABOVE)]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("reason", "asked"),
    [(WORKER_ENDED.format(attempts=5), [TILE, ABOVE]), ("503 Service Unavailable (5 attempts)", [ABOVE])],
    ids=["its worker was killed", "the site has not answered"],
)
def test_a_tile_with_a_result_is_asked_once_more_if_its_workers_were_killed(
    tmp_path: Path, reason: str, asked: list[Tile]
) -> None:
    """The process that recorded the result may have been killed before it enqueued the tiles below. A tile
    may have several failures, as each worker that lost the lease of a HEAD may have enqueued a GET."""

    async def run() -> None:
        async with crawled(tmp_path, [TILE]) as (spider, _):
            await spider.harvest.keep(TileResult(LAYER, TILE, Outcome.IGNORED))
            failures = [
                (SimpleNamespace(reason=reason), spider.ask(SITE.layers[0], tile))
                for tile in (TILE, ABOVE) * 3
            ]

            class Work:
                async def given_up(self) -> list[Any]:
                    return failures

                def take_up(self, failure: object) -> None:
                    failures[:] = [one for one in failures if one[0] is not failure]

            work: Any = Work()
            found = [question_of(one) for one in await spider._unanswered(work)]
            assert [(one.place, one.once_more) for one in found if one] == [
                ((LAYER, tile), True) for tile in asked
            ]
            assert failures == []

    asyncio.run(run())


def test_below_a_tile_with_a_result_that_was_given_up_twice_the_walk_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path, [TILE]) as (spider, _):
            await spider.harvest.keep(TileResult(LAYER, ABOVE, Outcome.IGNORED))
            again = spider.ask(SITE.layers[0], ABOVE)
            state_of(again).question = TileQuestion(LAYER, ABOVE, once_more=True)
            failures: list[Any] = [(SimpleNamespace(reason=WORKER_ENDED.format(attempts=5)), again)]

            class Work:
                async def given_up(self) -> list[Any]:
                    return failures

                def take_up(self, failure: object) -> None:
                    failures.clear()

            work: Any = Work()
            found = {
                question.place for one in await spider._unanswered(work) if (question := question_of(one))
            }
            assert found == {(LAYER, tile) for tile in SITE.layers[0].pyramid.children(ABOVE)}
            assert failures == []
            assert (await spider.harvest.counts())[Outcome.IGNORED] == 1

    asyncio.run(run())


# Asked, judged and kept


class Host:
    """A host that gives the same answer to each request."""

    def __init__(self, answer: Reply | BaseException) -> None:
        self._answer = answer

    def ask(self, method: str, url: str, answered: Callable[[Reply | BaseException], None]) -> None:
        asyncio.get_running_loop().call_soon(answered, self._answer)


SAME = Reply(200, [(b"etag", ETAG.encode())])
OTHER = Reply(200, [(b"etag", b'"another"')])


def way_of(
    spider: TileSpider, scheduler: Any = None, answer: Reply | BaseException | None = None
) -> QueuedTiles | None:
    way = queued_tiles(spider.crawler, scheduler, spider.after)
    if way is not None and answer is not None:
        way._handlers = {"http": Host(answer)}  # type: ignore[dict-item]
    return way


def tile_of(place: Tile, method: str = "HEAD", asked: Asked = ON_WALK) -> QueuedTile:
    question = TileQuestion(LAYER, place, asked)
    return QueuedTile(Lease(1, 1, b"", "day", 0), queued_tile(SITE.layers[0], question, method))


async def asked_in_a_block(
    spider: TileSpider, scheduler: Listed, first: QueuedTile, answer: Reply | BaseException
) -> Block:
    """A block that has asked for its tiles, all of which were answered so."""
    way = way_of(spider, scheduler, answer)
    assert way is not None
    block = Block(first, way)
    response = await way.ask_all(block)
    assert (response.url, response.body) == (first.queued.url, b"")
    return block


async def kept(spider: TileSpider, block: Block) -> None:
    """Returns when all tiles of the block are kept, of which nobody waits for others."""
    while block.under_way:
        spider.harvest.hurry()
        await asyncio.wait(block.under_way, timeout=0.01)
    assert spider.crawler.engine.scraper.slot.active_size == 0


def test_tiles_are_taken_in_for_their_own_map_whoever_tells_of_the_answer(tmp_path: Path) -> None:
    """The connections are shared, so another map's crawl may tell of the answer."""
    whose: list[str | None] = []

    class Noting(Listed):
        def enqueue_entries(self, entries: Iterable[tuple[str, Tile, int]]) -> None:
            whose.append(WHOSE.get())
            super().enqueue_entries(entries)

    async def run() -> None:
        async with crawled(tmp_path, [TILE]) as (spider, _):
            WHOSE.set("mine")
            way, another = way_of(spider, Noting(), SAME), copy_context()
            assert way is not None
            another.run(WHOSE.set, "another")
            asking = asyncio.get_running_loop().create_task(
                way.ask_all(Block(tile_of(ABOVE), way)), context=another
            )
            await asking

    asyncio.run(run())
    assert whose == ["mine"]


def test_an_unchanged_tile_is_kept_and_what_is_below_it_is_asked(tmp_path: Path) -> None:
    async def run() -> None:
        scheduler = Listed()
        async with crawled(tmp_path, [ABOVE]) as (spider, _):
            block = await asked_in_a_block(spider, scheduler, tile_of(ABOVE), SAME)
            below = sorted(("HEAD", one, 0) for one in DEEPEST if one.parent() == ABOVE)
            assert sorted(scheduler.asked) == below
            harvest = spider.harvest
            assert (harvest.tally, scheduler.events) == ({}, []), "it is not durable yet"
            assert spider.crawler.engine.scraper.slot.active_size > 0
            await kept(spider, block)
            assert scheduler.events == [("through", ABOVE)]
            assert harvest.tally == await harvest.counts() == {Outcome.IGNORED: 1}
            assert harvest.traffic.spared_bytes == image_of(drawn(str(ABOVE))).size

    asyncio.run(run())


def test_tiles_follow_each_other_in_a_block_until_none_may_start_or_it_is_full(tmp_path: Path) -> None:
    async def run() -> None:
        first, *others = map(tile_of, DEEPEST)
        scheduler = Listed(*others)
        scheduler.block_size = 10
        async with crawled(tmp_path, DEEPEST) as (spider, crawler):
            block = await asked_in_a_block(spider, scheduler, first, SAME)
            await kept(spider, block)
            assert [tile for _, tile in scheduler.events] == list(DEEPEST[:10])
            crawler.engine.paused = True
            await asked_in_a_block(spider, scheduler, scheduler.following[0], SAME)
            assert len(scheduler.following) == len(DEEPEST) - 10, "no tile follows while the engine pauses"

    asyncio.run(run())


def test_a_block_goes_on_with_tiles_whose_starts_come_later(tmp_path: Path) -> None:
    async def run() -> None:
        first, *others = map(tile_of, DEEPEST)
        scheduler = Listed(others[0])
        scheduler.awaited = others[1:]
        async with crawled(tmp_path, DEEPEST) as (spider, crawler):
            block = await asked_in_a_block(spider, scheduler, first, SAME)
            await kept(spider, block)
            assert [tile for _, tile in scheduler.events] == list(DEEPEST)
            scheduler.awaited = list(others)
            crawler.engine.paused = True
            await asked_in_a_block(spider, scheduler, first, SAME)
            assert scheduler.awaited == others, "no tile is waited for while the engine pauses"

    asyncio.run(run())


def test_a_block_looks_for_leases_that_have_come_before_it_waits_for_a_start(tmp_path: Path) -> None:
    async def run() -> None:
        first, second, *_ = map(tile_of, DEEPEST)
        scheduler = LeasedLate(second)
        async with crawled(tmp_path, DEEPEST) as (spider, _):
            await kept(spider, await asked_in_a_block(spider, scheduler, first, SAME))
        assert {tile for _, tile in scheduler.events} == set(DEEPEST[:2])

    asyncio.run(run())


def test_a_changed_tile_is_asked_by_get_before_others(tmp_path: Path) -> None:
    async def run() -> None:
        scheduler = Listed()
        async with crawled(tmp_path) as (spider, _):
            await asked_in_a_block(spider, scheduler, tile_of(TILE), OTHER)
            assert scheduler.asked == [("GET", TILE, 1)]
            assert scheduler.events == [("through", TILE)]
            assert await spider.harvest.counts() == {}

    asyncio.run(run())


@pytest.mark.parametrize("known", [True, False])
def test_an_image_is_stored_and_recorded_before_its_tile_is_through(tmp_path: Path, *, known: bool) -> None:
    async def run() -> None:
        scheduler, body = Listed(), drawn("new")
        async with crawled(tmp_path, [ABOVE] if known else []) as (spider, _):
            reply = Reply(200, [(b"etag", b'"another"')], body)
            block = await asked_in_a_block(spider, scheduler, tile_of(ABOVE, "GET"), reply)
            method = "HEAD" if known else "GET"
            assert {(how, priority) for how, _, priority in scheduler.asked} == {(method, 0)}
            assert scheduler.events == []
            assert spider.crawler.engine.scraper.slot.active_size >= 8 * 1024 + len(body), "it takes memory"
            await kept(spider, block)
            assert scheduler.events == [("through", ABOVE)]
            outcome = Outcome.UPDATED if known else Outcome.ADDED
            assert await spider.harvest.counts() == {outcome: 1}
            assert spider.harvest.traffic.received_bytes == len(body)
            assert (tmp_path / "tiles" / image_of(body).file_name[:2] / image_of(body).file_name).exists()

    asyncio.run(run())


@pytest.mark.parametrize("failure", [HistoryError("the disk is full"), RuntimeError("a mistake")], ids=repr)
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_results_that_could_not_be_kept_end_the_crawl_whatever_the_failure_is(
    tmp_path: Path, method: str, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        scheduler = Listed()
        async with crawled(tmp_path) as (spider, _):

            async def fail(result: TileResult) -> None:
                raise failure

            if method == "GET":
                monkeypatch.setattr(spider.harvest, "keep", fail)
            else:
                done = asyncio.get_running_loop().create_future()
                done.set_result(failure)
                monkeypatch.setattr(spider.harvest, "keep_unchanged", lambda _: done)
            reply = SAME if method == "HEAD" else Reply(200, [], drawn("new"))
            block = await asked_in_a_block(spider, scheduler, tile_of(TILE, method), reply)
            await kept(spider, block)
            assert scheduler.events == [("cut off", TILE)]
            assert str(failure) in str(spider.crawl.ending)
            assert spider.harvest.tally == {}

    asyncio.run(run())


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_word_that_an_unknown_tile_is_not_there_is_kept(tmp_path: Path, method: str, status: int) -> None:
    async def run() -> None:
        scheduler = Listed()
        async with crawled(tmp_path, []) as (spider, _):
            block = await asked_in_a_block(spider, scheduler, tile_of(ABOVE, method), Reply(status, []))
            await kept(spider, block)
            assert (scheduler.events, scheduler.asked) == ([("through", ABOVE)], [])
            assert await spider.harvest.counts() == {Outcome.NOTHING: 1}

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [Reply(404, []), Reply(405, []), Reply(500, []), ConnectionError()],
    ids=["vanished", "HEAD refused", "broken", "no answer"],
)
def test_every_other_answer_is_left_to_a_request_as_it_came(
    tmp_path: Path, answer: Reply | Exception
) -> None:
    async def run() -> None:
        scheduler, tile = Listed(), tile_of(TILE)
        async with crawled(tmp_path) as (spider, _):
            await asked_in_a_block(spider, scheduler, tile, answer)
            assert (scheduler.asked, await spider.harvest.counts()) == ([], {})
            assert scheduler.events == [("left", TILE)]
            (given,) = scheduler.answers
            if isinstance(answer, Reply):
                assert (given.status, given.url) == (answer.status, tile.queued.url)
            else:
                assert given is answer
            is_refused = isinstance(answer, Reply) and answer.status == 405
            assert asked_now(spider) is not is_refused

    asyncio.run(run())


@pytest.mark.parametrize(
    "reply", [Reply(200, [], b"no image"), Reply(200, [], b""), Reply(304, [])], ids=["text", "empty", "304"]
)
def test_an_answer_to_get_that_brings_no_image_is_left_with_its_body(tmp_path: Path, reply: Reply) -> None:
    async def run() -> None:
        scheduler = Listed()
        async with crawled(tmp_path) as (spider, _):
            await asked_in_a_block(spider, scheduler, tile_of(TILE, "GET"), reply)
            assert scheduler.events == [("left", TILE)]
            assert scheduler.answers[0].body == reply.body
            assert spider.harvest.traffic.received_bytes == 0, "the middleware counts it"

    asyncio.run(run())


class StrangeReply(Reply):
    """A reply whose headers Scrapy can make no response of. Python 3.13 fails so at
    `Content-Disposition: attachment; filename="http://[/"`."""

    def response(self, method: str, url: str) -> Response:
        raise ValueError("Invalid IPv6 URL")


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_reply_that_makes_no_response_fails_its_tile_and_the_block_goes_on(
    tmp_path: Path, method: str
) -> None:
    async def run() -> None:
        scheduler = Listed(tile_of(DEEPEST[1], method))
        async with crawled(tmp_path) as (spider, _):
            await asked_in_a_block(spider, scheduler, tile_of(TILE, method), StrangeReply(500, []))
            assert scheduler.events == [("left", TILE), ("left", DEEPEST[1])]
            assert [str(answer) for answer in scheduler.answers] == ["Invalid IPv6 URL"] * 2

    asyncio.run(run())


def test_a_tile_that_may_not_be_asked_any_more_is_left_without_an_answer(tmp_path: Path) -> None:
    async def run() -> None:
        scheduler = Listed(tile_of(DEEPEST[1]))
        async with crawled(tmp_path) as (spider, _):
            held: Any = SimpleNamespace(reasons={Reason.PAUSED}, is_elsewhere=lambda host: False)
            spider.crawl.politeness = held
            await asked_in_a_block(spider, scheduler, tile_of(TILE), SAME)
            assert (scheduler.events, scheduler.answers) == ([("left", TILE)], [None])
            assert len(scheduler.following) == 1, "no tile follows"

    asyncio.run(run())


def test_a_tile_whose_wait_is_cut_short_is_not_through(tmp_path: Path) -> None:
    async def run() -> None:
        scheduler = Listed()
        async with crawled(tmp_path) as (spider, _):
            with pytest.raises(asyncio.CancelledError):
                await asked_in_a_block(spider, scheduler, tile_of(TILE), asyncio.CancelledError())
            assert scheduler.events == [("cut off", TILE)]

    asyncio.run(run())


def test_a_mistake_after_tiles_were_taken_together_cuts_each_of_them_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else their leases would be held until the end of the crawl, which would wait for them."""

    async def run() -> None:
        first, second, third, fourth = map(tile_of, DEEPEST[:4])
        scheduler = Listed(third, fourth)
        async with crawled(tmp_path, DEEPEST) as (spider, _):
            way, known, looks = way_of(spider, scheduler, SAME), spider.harvest.walks.known, count(1)
            assert way is not None
            fetch = known.fetch

            def fail_at_third(*what: Any) -> Any:
                if next(looks) == 3:
                    raise RuntimeError("a mistake")
                return fetch(*what)

            monkeypatch.setattr(known, "fetch", fail_at_third)
            blocks = [Block(tile, way) for tile in (first, second)]
            ends = await asyncio.gather(*map(way.ask_all, blocks), return_exceptions=True)
            assert list(map(repr, ends)) == ["RuntimeError('a mistake')"] * 2
            assert scheduler.events == [("cut off", DEEPEST[2]), ("cut off", DEEPEST[3])]
            for block in blocks:
                await kept(spider, block)

    asyncio.run(run())


def test_if_what_is_below_cannot_be_enqueued_nothing_is_kept(tmp_path: Path) -> None:
    async def run() -> None:
        scheduler = Broken()
        async with crawled(tmp_path, [ABOVE]) as (spider, _):
            await asked_in_a_block(spider, scheduler, tile_of(ABOVE), SAME)
            assert scheduler.events == [("left", ABOVE)]
            assert await spider.harvest.counts() == {}
            assert spider.harvest.traffic.spared_bytes == 0

    asyncio.run(run())


def test_of_a_zoom_that_is_not_kept_no_version_counts(tmp_path: Path) -> None:
    """The zoom may have been kept before. One look-up brings the version and the mark of a tile."""

    async def run() -> None:
        async with crawled(tmp_path, [ABOVE, TILE], zooms=(0, 0)) as (spider, _):
            way, known = way_of(spider, Listed(), SAME), spider.harvest.walks.known
            assert way is not None
            for place, counts in ((ABOVE, False), (TILE, True)):
                block = Block(tile_of(place), way)
                await way.ask_all(block)
                versions, _ = known.at_hand(block_of(LAYER, place)) or ({}, {})
                assert (place.zoom, place.x, place.y) in versions
                assert bool(block.first.spared_bytes) is counts

    asyncio.run(run())


def test_if_images_are_to_be_stored_one_by_one_none_goes_the_short_way(tmp_path: Path) -> None:
    """The pipeline keeps the pauses between them."""

    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            for gap, may in ((NO_GAP, True), (Gap.of(1.0), False)):
                spider.crawl.rules = SimpleNamespace(store_gap=gap)  # type: ignore[assignment]
                assert asked_now(spider, "GET") is may
                assert asked_now(spider)

    asyncio.run(run())


def asked_now(spider: TileSpider, method: str = "HEAD") -> bool:
    """Whether the known tile may be asked the short way."""
    way = way_of(spider)
    assert way is not None
    tile = tile_of(TILE, method)
    return way._still_takes(tile)
