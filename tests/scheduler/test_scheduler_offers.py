"""What a spider wants to ask is offered when it may be, and is never lost in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace as replaced
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response

from tests.middlewares.making import run_jumping
from tests.queue.polite_memory import comes_true
from tests.scheduler.driving import QueueAtOnce
from tests.scheduler.worker_side import WatchedQueue
from tileharvest.history.costs import Traffic
from tileharvest.politeness.reasons import Reason
from tileharvest.queue.codec import decode
from tileharvest.queue.polite_queue import PoliteQueue
from tileharvest.queue.port import Changes, Failure
from tileharvest.queue.requests import DELAY, FAILURE, NOT_BEFORE, state_of
from tileharvest.queue.shared_states import StateFile
from tileharvest.scheduler.blocks import QueuedTile
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.scheduler import Scheduler
from tileharvest.scheduler.settings import Scheduling
from tileharvest.scheduler.spider import HeldSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tileharvest.queue.codec import QueuedRequest
    from tileharvest.queue.port import Lease

DAY = "2026-11-21"


class Stub(Spider, HeldSpider):
    name = "stub"

    def parse(self, response: Any, **others: Any) -> None: ...


class Offered:
    """A scheduler over a queue in memory, for an engine that the test plays."""

    def __init__(self) -> None:
        self.queue: Any = WatchedQueue()
        self.answers = 0
        self.in_flight: set[str] = set()
        self.counted: Counter[str] = Counter()
        self.spider = Stub()
        polite = PoliteQueue(
            self.queue, StateFile(), "world", Traffic(), clock=lambda: 0.0, random=lambda: 0.5
        )
        crawler: Any = Crawler(Stub)
        crawler.spider, crawler.stats = self.spider, self
        crawler.request_fingerprinter = SimpleNamespace(fingerprint=lambda request: request.url.encode())
        self.crawl = crawl_of(crawler)
        slot = SimpleNamespace(inprogress=set(), nextcall=SimpleNamespace(schedule=self.wake), closing=None)
        crawler.engine = SimpleNamespace(_slot=slot, downloader=SimpleNamespace(active=self.in_flight))
        self.scheduler = Scheduler(crawler, scheduling(polite))

    async def open(self) -> None:
        await self.scheduler._open()
        self.scheduler._engine.attach(self.scheduler._crawler.engine)

    def inc_value(self, name: str, count: int) -> None:
        self.counted[name] += count

    def wake(self) -> None:
        self.answers += 1

    def push(self, *names: str, delay: float | list[float] | None = None) -> None:
        meta = {} if delay is None else {DELAY: delay}
        for name in names:
            assert self.scheduler.enqueue_request(Request(f"http://map.example.net/{name}", meta=dict(meta)))

    async def hear(self) -> None:
        """Wait until the queue has answered once more, and taken in what was pushed."""
        before = self.answers
        await comes_true(lambda: self.answers > before)

    def set_value(self, name: str, value: Any) -> None:
        """Counts at the end are not looked at."""


def scheduling(queue: Any) -> Scheduling:
    return Scheduling(
        name="world",
        queue=queue,
        shared=None,
        is_history_local=True,
        segment=DAY,
        resolver=None,
        local_time=lambda: datetime(2026, 11, 21, tzinfo=UTC),
        clock=lambda: 0.0,
        ahead=8,
        block_size=1,
        lease_seconds=100.0,
        linger=0.1,
        segments_kept=1,
        close_when_waiting=None,
        stay=False,
        fresh=False,
        filters=True,
        is_tool=False,
    )


@asynccontextmanager
async def offered(*names: str, **meta: Any) -> AsyncIterator[Offered]:
    async with offered_by(Offered()) as one:
        if names:
            one.push(*names, **meta)
            await one.hear()
        yield one


@asynccontextmanager
async def offered_by(one: Offered) -> AsyncIterator[Offered]:
    await one.open()
    one.scheduler._start()
    await one.hear()
    yield one
    await one.scheduler._close()


async def left(one: Offered) -> list[tuple[str, int]]:
    """What the next run would be offered after this one has stopped, and which attempt that would be."""
    await one.scheduler._close()
    await one.queue.open(0.0)
    leases = (await QueueAtOnce.exchange(one.queue, Changes(), 9, 0.0)).leases
    return [(one.scheduler._writer.read(lease.body, 1).url[-1], lease.attempt) for lease in leases]


def test_nothing_is_offered_before_the_start() -> None:
    async def test() -> None:
        one = Offered()
        await one.open()
        one.push("a")
        assert one.scheduler.next_request() is None
        assert one.scheduler.has_pending_requests()

    run_jumping(test())


def test_who_has_its_share_in_flight_is_offered_no_more() -> None:
    async def test() -> None:
        async with offered() as one:
            one.queue.adds = {"share": 1}
            one.push("a", "b")
            await one.hear()
            assert one.scheduler.next_request() is not None
            one.in_flight.add("a")
            assert one.scheduler.next_request() is None
            one.in_flight.clear()
            assert one.scheduler.next_request() is not None

    run_jumping(test())


def test_a_share_holds_until_an_answer_tells_of_another() -> None:
    async def test() -> None:
        async with offered() as one:
            one.in_flight.add("another")
            for share, is_offered in ((1, False), (None, False), (2, True), (None, True)):
                one.queue.adds = {} if share is None else {"share": share}
                one.push(str(share), f"again {share} {is_offered}")
                await one.hear()
                assert (one.scheduler.next_request() is not None) is is_offered

    run_jumping(test())


def test_a_request_whose_turn_has_not_come_is_offered_when_it_has() -> None:
    async def test() -> None:
        async with offered("a", "b", delay=30) as one:
            assert one.scheduler.next_request().url.endswith("a")
            assert one.scheduler.next_request() is None
            assert one.scheduler.next_request() is None
            assert one.scheduler.has_pending_requests()
            await asyncio.sleep(30)
            assert one.scheduler.next_request().url.endswith("b")

    run_jumping(test())


def test_a_request_that_was_taken_and_waits_counts_in_what_a_budget_has_left() -> None:
    """Else the queue would lease another request in its place."""

    async def test() -> None:
        async with offered("a", "b", delay=30) as one:
            assert one.scheduler.next_request().url.endswith("a")
            assert one.scheduler.next_request() is None
            one.push("c")
            await one.hear()
            assert one.queue.told[-1].ahead == 1

    run_jumping(test())


def test_each_request_starts_so_long_after_the_one_before_it_as_it_asks_itself() -> None:
    async def test() -> None:
        async with offered() as one:
            delays = [None, 0.2, [0.1, 0.3], None] * 2
            for number, delay in enumerate(delays):
                one.push(str(number), delay=delay)
            await one.hear()
            loop = asyncio.get_running_loop()
            starts: list[tuple[str, float]] = []
            while len(starts) < len(delays):
                request = one.scheduler.next_request()
                if request is None:
                    await asyncio.sleep(0.01)
                else:
                    starts.append((request.url[-1], loop.time()))
            assert [name for name, _ in starts] == [str(number) for number in range(len(delays))]
            gaps = [after - before for (_, before), (_, after) in pairwise(starts)]
            for gap, delay in zip(gaps, delays[1:], strict=True):
                least, most = delay if isinstance(delay, list) else [delay or 0.0] * 2
                # It was looked for every 10 ms.
                assert least - 1e-6 <= gap <= most + 0.01 + 1e-6

    run_jumping(test())


def test_what_waits_for_its_turn_goes_back_unstarted_at_the_end() -> None:
    async def test() -> None:
        async with offered("a", "b", "c", delay=30) as one:
            first = one.scheduler.next_request()
            assert one.scheduler.next_request() is None
            one.scheduler._completed(first)
            assert await left(one) == [("b", 1), ("c", 1)]

    run_jumping(test())


def test_what_is_not_surely_kept_is_offered_again_in_a_later_run_as_another_attempt() -> None:
    """The requests that it led to may have been made, so the later run must not take it for the first."""

    async def test() -> None:
        async with offered("a", "b") as one:
            for is_kept in (False, True):
                one.crawl.is_all_kept = is_kept
                one.scheduler._completed(one.scheduler.next_request())
            assert await left(one) == [("a", 2)]

    run_jumping(test())


@pytest.mark.parametrize("is_kept", [False, True])
def test_tiles_of_a_block_that_have_no_kept_result_are_offered_again_as_another_attempt(
    is_kept: bool,
) -> None:
    async def test() -> None:
        async with offered("a", "b") as one:
            leases = one.scheduler.worker.next_leases(2)
            first, second = (QueuedTile(lease, decode(lease.body)) for lease in leases)
            one.crawl.is_all_kept = is_kept
            one.scheduler.through(first)
            one.scheduler.cut_off(second)
            assert await left(one) == ([("b", 2)] if is_kept else [("a", 2), ("b", 2)])

    run_jumping(test())


def test_what_a_block_leaves_is_offered_before_all_else_with_its_answer() -> None:
    """It has started, so that neither a pause nor a limit is asked once more."""

    async def test() -> None:
        async with offered("a", "b", "c") as one:
            (lease,) = one.scheduler.worker.next_leases(1)
            requests = one.scheduler._scheduling.queue.traffic.requests
            one.scheduler._politeness.hold(Reason.PAUSED)
            tile, answer = QueuedTile(lease, decode(lease.body)), ConnectionError()
            one.scheduler.leave(tile, answer)
            assert one.scheduler.has_pending_requests()
            assert one.scheduler.next_tiles(1) == [], "the engine needs the connection"
            request = one.scheduler.next_request()
            assert request is not None
            assert (request.url[-1], state_of(request).answer) == ("a", answer)
            assert one.scheduler._scheduling.queue.traffic.requests == requests
            assert one.scheduler.next_request() is None, "of the others none may start"
            one.scheduler._completed(request)
            assert await left(one) == [("b", 1), ("c", 1)]

    run_jumping(test())


class TakesTiles:
    """A short way that takes requests whose addresses end with a digit."""

    def takes(self, lease: Lease, queued: QueuedRequest, *, is_begun: bool) -> bool:
        return queued.url[-1].isdigit()


def names(tiles: list[QueuedTile]) -> list[str]:
    return [tile.queued.url[-1] for tile in tiles]


def test_blocks_that_go_on_get_tiles_up_to_a_request_that_is_none_of_a_block() -> None:
    async def test() -> None:
        async with offered("1", "2", "a", "3", "4") as one:
            way: Any = TakesTiles()
            one.scheduler._way = way
            assert names(one.scheduler.next_tiles(4)) == ["1", "2"]
            assert one.scheduler.next_tiles(4) == [], "a request waits that goes before the others"
            request = one.scheduler.next_request()
            assert request is not None
            assert request.url[-1] == "a"
            assert names(one.scheduler.next_tiles(1)) == ["3"]
            assert await left(one) == [(name, 1 + (name in "123a")) for name in "12a34"]

    run_jumping(test())


def test_tiles_that_are_to_start_apart_are_not_returned_together_however_long_it_takes_to_read_them() -> None:
    async def test() -> None:
        async with offered("1", "2", "3") as one:
            way: Any = TakesTiles()
            one.scheduler._way, worker, looks = way, one.scheduler.worker, count()
            worker.keep_apart(1.0)
            worker._clock = lambda: float(next(looks))
            assert names(one.scheduler.next_tiles(3)) == ["1"]
            assert names(one.scheduler.next_tiles(3)) == ["2"]

    run_jumping(test())


def test_a_tile_waits_whose_cost_is_not_recorded_yet() -> None:
    async def test() -> None:
        async with offered("1", "2", "3") as one:
            way: Any = TakesTiles()
            one.scheduler._way, traffic = way, one.scheduler._scheduling.queue.traffic
            traffic.requests = -14
            traffic.count_ahead(list)
            traffic.take()
            traffic.recorded()
            traffic.requests = 0
            assert names(one.scheduler.next_tiles(3)) == ["1", "2"]
            assert one.scheduler.next_tiles(1) == []
            assert one.scheduler.next_request() is None
            traffic.settle()
            assert names(one.scheduler.next_tiles(3)) == ["3"]

    run_jumping(test())


@pytest.mark.parametrize("what", ["a connection", "a cost"])
def test_the_queue_is_not_asked_while_a_tile_waits_that_was_leased_ahead(what: str) -> None:
    """With one lease ahead it would be asked without an end, as each answer wakes the engine."""

    async def test() -> None:
        one = Offered()
        one.scheduler.worker._ahead = one.scheduler.worker._most_ahead = 1
        async with offered_by(one):
            way: Any = TakesTiles()
            one.scheduler._way, traffic = way, one.scheduler._scheduling.queue.traffic
            one.push("1", "2")
            await one.hear()
            told = len(one.queue.told)
            if what == "a cost":
                traffic.count_ahead(list)
            with one.scheduler._politeness.delayed(60.0) if what == "a connection" else nullcontext():
                for _ in range(20):
                    assert one.scheduler.next_request() is None
                    await asyncio.sleep(0)
            assert len(one.queue.told) == told
            traffic.settle()
            assert names(one.scheduler.next_tiles(2)) == ["1"]
            await one.hear()
            assert names(one.scheduler.next_tiles(2)) == ["2"]

    run_jumping(test())


@asynccontextmanager
async def paced(*names: str, gap: float = 30.0) -> AsyncIterator[tuple[Offered, QueuedTile]]:
    """Requests of which one starts every so many seconds. The first of them has started just now."""
    one = Offered()
    one.scheduler.worker._clock = asyncio.get_running_loop().time
    async with offered_by(one):
        one.scheduler.worker.keep_apart(gap)
        one.push(*names)
        await one.hear()
        (lease,) = one.scheduler.worker.next_leases(1)
        yield one, QueuedTile(lease, decode(lease.body))


def test_a_block_waits_for_the_next_start_and_the_engine_is_not_asked() -> None:
    async def test() -> None:
        async with paced("a", "b") as (one, _):
            clock = asyncio.get_running_loop().time
            began, asked = clock(), one.answers
            assert one.scheduler.next_tiles(1) == []
            assert await one.scheduler.until_start()
            assert clock() == pytest.approx(began + 30.0)
            assert one.answers == asked
            assert len(one.scheduler.worker.next_leases(9)) == 1

    run_jumping(test())


def test_the_engine_is_asked_for_the_others_when_several_may_start_after_a_rest() -> None:
    async def test() -> None:
        async with paced("a", "b", "c", gap=0.0) as (one, _):
            one.queue.adds = {"rests_until": asyncio.get_running_loop().time() + 30.0}
            one.scheduler.worker.look_again()
            await one.hear()
            assert one.scheduler.next_tiles(1) == []
            asked = one.answers
            assert await one.scheduler.until_start()
            assert one.answers == asked + 1
            assert len(one.scheduler.worker.next_leases(9)) == 2

    run_jumping(test())


def test_one_block_at_a_time_waits_for_a_start() -> None:
    async def test() -> None:
        async with paced("a", "b") as (one, _):
            waiting = asyncio.ensure_future(one.scheduler.until_start())
            await asyncio.sleep(0)
            assert not await one.scheduler.until_start()
            assert not waiting.done()
            one.scheduler.wake()
            assert await waiting

    run_jumping(test())


def test_no_block_waits_if_nothing_is_leased() -> None:
    async def test() -> None:
        async with paced("a") as (one, _):
            assert not await one.scheduler.until_start()

    run_jumping(test())


@pytest.mark.parametrize("what", ["a pause", "the end", "a tile that was left", "less of a share"])
def test_a_block_that_waits_is_over_at_once_when_nothing_of_it_may_start(what: str) -> None:
    async def test() -> None:
        async with paced("a", "b") as (one, tile):
            began = asyncio.get_running_loop().time()
            waiting = asyncio.ensure_future(one.scheduler.until_start())
            await asyncio.sleep(0)
            if what == "a pause":
                one.scheduler._politeness.hold(Reason.PAUSED)
            elif what == "the end":
                one.scheduler._politeness.cut_short()
            elif what == "a tile that was left":
                one.scheduler.leave(tile)
            else:
                one.in_flight |= {"this block", "another one"}
                one.queue.adds = {"share": 1}
                one.scheduler.worker.look_again()
            assert await waiting
            assert one.scheduler.next_tiles(1) == []
            assert not await one.scheduler.until_start()
            assert asyncio.get_running_loop().time() < began + 1.0

    run_jumping(test())


def test_what_a_block_has_left_at_the_end_is_offered_again_as_another_attempt() -> None:
    async def test() -> None:
        async with offered("a", "b") as one:
            (lease,) = one.scheduler.worker.next_leases(1)
            one.scheduler.leave(QueuedTile(lease, decode(lease.body)))
            assert await left(one) == [("a", 2), ("b", 1)]

    run_jumping(test())


def test_bytes_that_came_for_what_a_block_has_left_count_at_the_end() -> None:
    """No middleware counts them any more. Those of an answer that the engine was given count there."""

    async def test() -> None:
        async with offered("a", "b", "c") as one:
            for size in (5, 70, None):
                (lease,) = one.scheduler.worker.next_leases(1)
                tile = QueuedTile(lease, decode(lease.body))
                answer = ConnectionError() if size is None else Response(tile.queued.url, body=bytes(size))
                one.scheduler.leave(tile, answer)
            given = one.scheduler.next_request()
            assert given is not None
            one.scheduler._completed(given)
            assert one.crawl.traffic.received_bytes == 0
            assert await left(one) == [("b", 2), ("c", 2)]
            assert one.crawl.traffic.received_bytes == 70

    run_jumping(test())


def test_a_tile_that_is_left_and_cannot_be_read_has_failed() -> None:
    async def test() -> None:
        async with offered("a", "b") as one:
            (lease,) = one.scheduler.worker.next_leases(1)
            queued = replaced(decode(lease.body), callback="no_such_method")
            one.scheduler.leave(QueuedTile(lease, queued))
            request = one.scheduler.next_request()
            assert request is not None
            assert request.url[-1] == "b"
            assert await left(one) == [("b", 2)]

    run_jumping(test())


def test_what_failed_is_in_the_failure_list_with_its_reason() -> None:
    async def test() -> None:
        async with offered("a") as one:
            request = one.scheduler.next_request()
            request.meta[FAILURE] = "503 Service Unavailable"
            one.scheduler._completed(request)
            assert await left(one) == []
            assert [failure.reason for failure in await one.queue.failures()] == ["503 Service Unavailable"]

    run_jumping(test())


def test_a_request_that_was_not_offered_ends_without_a_trace() -> None:
    async def test() -> None:
        async with offered("a") as one:
            one.scheduler._completed(Request("http://map.example.net/other"))
            assert await left(one) == [("a", 1)]

    run_jumping(test())


def test_politeness_hears_of_each_end() -> None:
    async def test() -> None:
        async with offered("a") as one:
            ended: list[Any] = []
            one.scheduler._politeness.over = ended.append  # type: ignore[method-assign]
            request = one.scheduler.next_request()
            for _ in range(2):
                one.scheduler._completed(request)
            assert ended == [request]

    run_jumping(test())


@pytest.mark.parametrize(("is_first", "retried"), [(True, 1), (False, 0)])
def test_of_several_workers_only_the_first_takes_up_what_failed_before(is_first: bool, retried: int) -> None:
    async def test() -> None:
        one = Offered()
        await one.open()
        body = one.scheduler._writer.write(Request("http://map.example.net/a"))
        one.scheduler._failed_before = [Failure(1, body, "2026-11-20", 0, 3, "503", 0.0)]
        one.scheduler._start(is_first=is_first)
        await one.hear()
        assert one.counted["scheduler/retried_failures"] == retried

    run_jumping(test())


@pytest.mark.parametrize(
    ("method", "filters", "offered_again"), [("GET", True, 1), ("GET", False, 2), ("POST", True, 2)]
)
def test_what_failed_twice_is_offered_as_often_as_its_spider_could_have_asked(
    method: str, filters: bool, offered_again: int
) -> None:
    async def test() -> None:
        one = Offered()
        one.scheduler._scheduling = replace(one.scheduler._scheduling, filters=filters)
        await one.open()
        body = one.scheduler._writer.write(Request("http://map.example.net/a", method=method))
        one.scheduler._failed_before = [Failure(n, body, "2026-11-20", 0, 3, "503", 0.0) for n in (1, 2)]
        one.scheduler._start()
        await one.hear()
        assert len(await left(one)) == offered_again

    run_jumping(test())


def test_a_mistaken_order_of_a_tool_is_dropped_as_any_other() -> None:
    async def test() -> None:
        one = Offered()
        one.scheduler._scheduling = replace(one.scheduler._scheduling, is_tool=True)
        async with offered_by(one):
            request = Request("http://map.example.net/a", meta={NOT_BEFORE: "soon"})
            assert not one.scheduler.enqueue_request(request)
            assert one.counted["scheduler/dropped/mistaken"] == 1

    run_jumping(test())


def test_start_urls_are_kept_until_what_waits_in_memory_is_through() -> None:
    async def test() -> None:
        async with offered() as one:
            settled: list[bool] = []
            one.scheduler._start_urls = SimpleNamespace(settle=lambda: settled.append(True))  # type: ignore[assignment]
            nameless = Request("http://map.example.net/nameless", callback=lambda response: None)
            assert one.scheduler.enqueue_request(nameless)
            one.push("a")
            await one.hear()
            assert one.scheduler.next_request() is nameless
            one.push("b")
            await one.hear()
            assert settled == []
            one.scheduler._completed(nameless)
            one.push("c")
            await one.hear()
            assert settled == [True]

    run_jumping(test())


def test_start_urls_of_which_something_was_lost_with_the_memory_are_kept() -> None:
    async def test() -> None:
        settled: list[bool] = []
        async with offered() as one:
            one.scheduler._start_urls = SimpleNamespace(settle=lambda: settled.append(True))  # type: ignore[assignment]
            one.scheduler.enqueue_request(Request("http://map.example.net/", callback=lambda response: None))
        assert settled == []

    run_jumping(test())
