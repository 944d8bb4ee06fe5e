"""When tiles may go the short way, and what they enqueue."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from protego import Protego
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from twisted.python.failure import Failure

from tests.middlewares.making import DEEPEST, HOST, LAYER, SITE, added, opened, remember
from tileharvest.errors import HistoryError, QueueError, StoreError, TileHarvestError
from tileharvest.middlewares.traffic import TrafficMiddleware
from tileharvest.pipelines import HistoryPipeline
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.robots import Robots
from tileharvest.queue.codec import decode, encode_own
from tileharvest.queue.port import Lease
from tileharvest.scheduler.blocks import QueuedTile
from tileharvest.scheduler.crawl import crawl_of, forget
from tileharvest.scheduler.request_writer import RequestWriter
from tileharvest.spiders.renderers import spider_of
from tileharvest.spiders.tiles import TileSpider
from tileharvest.spiders.unchanged import queued_head, unchanged_tiles
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.questions import LATE, ON_WALK, Asked, TileQuestion
from tileharvest.tiles.results import TileResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

TILE = Tile(0, -3, 3)


class WatchingMiddleware(TrafficMiddleware):
    """A middleware of a project's own."""


class WatchingPipeline(HistoryPipeline):
    """A pipeline of a project's own."""


QUEUE: Any = None
"""Nothing is enqueued in these tests."""
CLEAN = {"LOG_LEVEL": "INFO", "TWISTED_REACTOR_ENABLED": False}


@asynccontextmanager
async def crawled(
    folder: Path, known: Iterable[Tile] = (TILE,), **settings: Any
) -> AsyncIterator[tuple[TileSpider, Crawler]]:
    """A spider with its engine, whose harvest is open. Some tiles are known of the day before."""
    of_project = Settings()
    of_project.setmodule("tileharvest.settings")
    of_project.update({**CLEAN, **settings}, priority="cmdline")
    crawler = Crawler(spider_of("overviewer"), of_project)
    await remember(folder, *map(added, known))
    async with opened(folder) as harvest:
        crawl_of(crawler).harvest = harvest
        crawler._apply_settings()
        spider = TileSpider("overviewer")
        spider.crawler, spider.crawl, spider.harvest = crawler, crawl_of(crawler), harvest
        crawler.spider = spider
        crawler.engine = crawler._create_engine()
        try:
            yield spider, crawler
        finally:
            forget(crawler)


def test_what_is_enqueued_is_what_the_spider_asks_and_is_taken(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            way = unchanged_tiles(spider, QUEUE)
            assert way is not None
            for asked in (ON_WALK, LATE, Asked(in_full=True)):
                usual = RequestWriter(spider).write(spider.ask(SITE.layers[0], TILE, asked))
                queued = queued_head(SITE.layers[0], TileQuestion(LAYER, TILE, asked))
                assert decode(encode_own(queued)) == decode(usual)
                assert way.takes(Lease(1, 1, usual, "day", 0), decode(usual), is_begun=True)
                second = Lease(1, 2, usual, "day", 0)
                assert not way.takes(second, decode(usual), is_begun=True), "its second attempt"

    asyncio.run(run())


@pytest.mark.parametrize(
    "change",
    [
        {"method": "GET"},
        {"headers": {"A": "b"}},
        {"meta": {"proxy": "http://127.0.0.1:1"}},
        {"url": "ftp://a/"},
    ],
    ids=str,
)
def test_a_tile_with_anything_of_its_own_is_not_taken(tmp_path: Path, change: dict[str, Any]) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            way = unchanged_tiles(spider, QUEUE)
            assert way is not None
            request = spider.ask(SITE.layers[0], TILE)
            change["meta"] = request.meta | change.get("meta", {})
            body = RequestWriter(spider).write(request.replace(**change))
            assert not way.takes(Lease(1, 1, body, "day", 0), decode(body), is_begun=True)

    asyncio.run(run())


def test_of_another_run_only_what_the_site_still_wants_so_is_taken(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, _):
            way, harvest = unchanged_tiles(spider, QUEUE), spider.harvest
            assert way is not None
            queued = queued_head(SITE.layers[0], TileQuestion(LAYER, TILE))
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
        {"ITEM_PIPELINES": {f"{__name__}.WatchingPipeline": 400}},
        {"FEEDS": {"tiles.jsonl": {"format": "jsonlines"}}},
        {"LOG_LEVEL": "DEBUG"},
    ],
    ids=["a middleware more", "a middleware less", "a pipeline", "a feed", "the log names each tile"],
)
def test_where_a_project_looks_at_each_tile_none_goes_the_short_way(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async def run() -> None:
        async with crawled(tmp_path, **settings) as (spider, _):
            assert unchanged_tiles(spider, QUEUE) is None

    asyncio.run(run())


def test_where_somebody_listens_to_items_no_tile_goes_the_short_way(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path) as (spider, crawler):
            assert unchanged_tiles(spider, QUEUE) is not None
            crawler.signals.connect(run, signals.item_scraped)
            assert unchanged_tiles(spider, QUEUE) is None

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
            spider.crawl.politeness = SimpleNamespace(reasons=set(reasons))  # type: ignore[assignment]
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
            for tile in reached:
                await spider.harvest.keep(TileResult(LAYER, tile, Outcome.IGNORED))
            assert [tile for _, tile in await spider._unasked()] == [missed]
            assert await spider._unasked() == []
            assert (await spider.harvest.counts())[Outcome.FAILED] == 1

    asyncio.run(run())


def asked_now(spider: TileSpider) -> bool:
    """Whether the known tile may be asked the short way."""
    way = unchanged_tiles(spider, QUEUE)
    assert way is not None
    queued = queued_head(SITE.layers[0], TileQuestion(LAYER, TILE))
    return way.may_ask(QueuedTile(Lease(1, 1, b"", "day", 0), queued))
