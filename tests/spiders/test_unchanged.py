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
from tileharvest.middlewares.traffic import TrafficMiddleware
from tileharvest.pipelines import HistoryPipeline
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.robots import Robots
from tileharvest.queue.codec import decode, encode_own
from tileharvest.queue.port import Lease
from tileharvest.queue.requests import question_of, state_of
from tileharvest.scheduler.blocks import QueuedTile
from tileharvest.scheduler.crawl import crawl_of, forget
from tileharvest.scheduler.fingerprint import SegmentFingerprinter
from tileharvest.scheduler.request_writer import RequestWriter
from tileharvest.spiders.download import Head
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

    from scrapy import Request

    from tileharvest.queue.codec import QueuedRequest
    from tileharvest.spiders.unchanged import UnchangedTiles

TILE = Tile(0, -3, 3)


class WatchingMiddleware(TrafficMiddleware):
    """A middleware of a project's own."""


class WatchingPipeline(HistoryPipeline):
    """A pipeline of a project's own."""


class OtherFingerprinter(SegmentFingerprinter):
    """A rule of a project's own."""


class PreparingSpider(TileSpider):
    """Has something to say of each request that has waited."""

    def prepared(self, request: Request, segment: str) -> Request | None:
        return super().prepared(request, segment)


class ListedQueue:
    """The scheduler, as far as the short way knows it. It lists what is enqueued."""

    def __init__(self) -> None:
        self.asked: list[Tile] = []

    def entries_of(self, tiles: Iterable[QueuedRequest]) -> list[Tile]:
        return [tile.question.place[1] for tile in tiles if tile.question is not None]

    def enqueue_entries(self, entries: Iterable[Tile]) -> None:
        self.asked += entries


class BrokenQueue(ListedQueue):
    """Can write none of what is to be enqueued."""

    def entries_of(self, tiles: Iterable[QueuedRequest]) -> list[Tile]:
        raise ValueError(f"{list(tiles)} have no canonical form")


QUEUE: Any = None
"""Nothing is enqueued in most of these tests."""
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
        {"REQUEST_FINGERPRINTER_CLASS": f"{__name__}.OtherFingerprinter"},
    ],
    ids=[
        "a middleware more",
        "a middleware less",
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
            assert unchanged_tiles(spider, QUEUE) is None

    asyncio.run(run())


def test_where_a_spider_of_a_projects_own_prepares_requests_no_tile_goes_the_short_way(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with crawled(tmp_path, spider_class=PreparingSpider) as (spider, _):
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
            engine: Any = SimpleNamespace(crawl=asked.append)
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


def test_all_failures_of_a_tile_that_has_a_result_leave_the_failure_list(tmp_path: Path) -> None:
    """Each worker that lost the lease of a HEAD may have enqueued a GET, and all of them may be given up."""

    async def run() -> None:
        async with crawled(tmp_path, [TILE]) as (spider, _):
            await spider.harvest.keep(TileResult(LAYER, TILE, Outcome.IGNORED))
            failures = {
                f"{number} of {tile}": spider.ask(SITE.layers[0], tile)
                for number in range(3)
                for tile in (TILE, ABOVE)
            }

            class Work:
                async def given_up(self) -> list[Any]:
                    return list(failures.items())

                def take_up(self, failure: str) -> None:
                    del failures[failure]

            work: Any = Work()
            asked = await spider._unanswered(work)
            assert [question_of(one).place for one in asked] == [(LAYER, ABOVE)]
            assert failures == {}

    asyncio.run(run())


# Asked, judged and kept


class Host:
    """A host that gives the same answer to each HEAD."""

    def __init__(self, answer: Head | Exception) -> None:
        self._answer = answer

    async def head(self, url: str) -> Head:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


SAME = Head(200, [(b"etag", ETAG.encode())])
ABOVE = TILE.parent()


def way_of(spider: TileSpider, queue: Any, answer: Head | Exception = SAME) -> UnchangedTiles:
    way = unchanged_tiles(spider, queue)
    assert way is not None
    way._handlers = {"http": Host(answer)}  # type: ignore[dict-item]
    return way


def tile_of(place: Tile) -> QueuedTile:
    return QueuedTile(Lease(1, 1, b"", "day", 0), queued_head(SITE.layers[0], TileQuestion(LAYER, place)))


def test_an_unchanged_tile_is_kept_and_what_is_below_it_is_asked(tmp_path: Path) -> None:
    async def run() -> None:
        queue, tile = ListedQueue(), tile_of(ABOVE)
        async with crawled(tmp_path, [ABOVE]) as (spider, _):
            way, harvest = way_of(spider, queue), spider.harvest
            transaction = way.keep(tile, await way.ask(tile))
            assert transaction is not None
            assert sorted(queue.asked) == sorted(one for one in DEEPEST if one.parent() == ABOVE)
            assert harvest.tally == {}, "it is not durable yet"
            harvest.hurry()
            assert way.kept([tile], await transaction)
            assert harvest.tally == await harvest.counts() == {Outcome.IGNORED: 1}
            assert harvest.traffic.spared_bytes == image_of(drawn(str(ABOVE))).size

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [Head(200, [(b"etag", b'"another"')]), Head(404, []), Head(405, []), Head(500, []), ConnectionError()],
    ids=["changed", "vanished", "HEAD refused", "broken", "no answer"],
)
def test_every_other_answer_is_left_to_a_request_as_it_came(tmp_path: Path, answer: Head | Exception) -> None:
    async def run() -> None:
        queue, tile = ListedQueue(), tile_of(TILE)
        async with crawled(tmp_path) as (spider, _):
            way = way_of(spider, queue, answer)
            found = await way.ask(tile)
            assert found is answer
            assert way.keep(tile, found) is None
            assert (tile.result, queue.asked, await spider.harvest.counts()) == (None, [], {})
            given = way.response(spider.ask(SITE.layers[0], TILE), found)
            if isinstance(answer, Head):
                assert not isinstance(given, Exception)
                assert (given.status, given.url) == (answer.status, tile.url)
                assert given.headers.get("ETag") == dict(answer.headers).get(b"etag")
            else:
                assert given is answer
            is_refused = isinstance(answer, Head) and answer.status == 405
            assert way.may_ask(tile) is not is_refused

    asyncio.run(run())


def test_where_what_is_below_cannot_be_enqueued_nothing_is_kept(tmp_path: Path) -> None:
    async def run() -> None:
        tile = tile_of(ABOVE)
        async with crawled(tmp_path, [ABOVE]) as (spider, _):
            way = way_of(spider, BrokenQueue())
            answer = await way.ask(tile)
            with pytest.raises(ValueError, match="canonical"):
                way.keep(tile, answer)
            assert (tile.result, await spider.harvest.counts()) == (None, {})
            assert spider.harvest.traffic.spared_bytes == 0

    asyncio.run(run())


@pytest.mark.parametrize("failure", [HistoryError("the disk is full"), RuntimeError("a mistake")], ids=repr)
def test_results_that_could_not_be_kept_end_the_crawl_whatever_the_failure_is(
    tmp_path: Path, failure: Exception
) -> None:
    async def run() -> None:
        tile = tile_of(TILE)
        async with crawled(tmp_path) as (spider, _):
            way = way_of(spider, ListedQueue())
            assert way.keep(tile, await way.ask(tile)) is not None
            assert not way.kept([tile], failure)
            assert str(failure) in str(spider.crawl.ending)
            assert spider.harvest.tally == {}

    asyncio.run(run())


def test_of_a_zoom_that_is_not_kept_no_versions_are_looked_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with crawled(tmp_path, zooms=(0, 0)) as (spider, _):
            way, harvest = way_of(spider, ListedQueue()), spider.harvest
            for place in (ABOVE, TILE):
                await way.ask(tile_of(place))
                assert harvest.walks.marks.at_hand(LAYER, place)[0]
            assert [harvest.versions.at_hand(LAYER, place)[0] for place in (ABOVE, TILE)] == [False, True]

    asyncio.run(run())


def asked_now(spider: TileSpider) -> bool:
    """Whether the known tile may be asked the short way."""
    way = unchanged_tiles(spider, QUEUE)
    assert way is not None
    queued = queued_head(SITE.layers[0], TileQuestion(LAYER, TILE))
    return way.may_ask(QueuedTile(Lease(1, 1, b"", "day", 0), queued))
