"""The middleware with an engine whose answers the test gives, on a clock that jumps."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadFailedError, IgnoreRequest
from scrapy.http import Response

from tests.middlewares.making import run_jumping
from tileharvest.errors import QueueError, SiteError
from tileharvest.middlewares.outage import OutageMiddleware
from tileharvest.politeness.outages import OutageLimits
from tileharvest.politeness.reasons import Reason
from tileharvest.queue.requests import STATE, RequestState
from tileharvest.scheduler.crawl import Crawl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HOST = "map.example.net"
PAGE = f"http://{HOST}/"
TILE = f"http://{HOST}/world-day/0.png"
LIMITS = OutageLimits(failures=3, pause=1.0, longest_pause=8.0, patience=30.0)

UP, DOWN = Response(PAGE), DownloadFailedError("reset")


class Rig:
    """A crawl of which only the engine's download, the reasons to wait and the spider's end are there."""

    def __init__(
        self, *answers: Response | Exception, shared: Callable[[str, float], Awaitable[bool]] | None = None
    ) -> None:
        """`answers` to probes, the last one for ever. `shared` is how several workers agree who probes."""
        self.reasons: set[Reason] = set()
        self.probes: list[tuple[float, str, str]] = []
        """Seconds since the test began, method and address."""
        self.closed: list[str] = []
        self.spacings: list[float] = []
        """The paces to which the crawl was slowed down."""
        self._answers = list(answers)
        self.slot = SimpleNamespace(closing=None)
        crawler: Any = Crawler(Spider)
        crawler.spider = Spider("stub")
        crawler.engine = SimpleNamespace(
            download_async=self._probed, close_spider_async=self._close, _slot=self.slot
        )
        politeness: Any = SimpleNamespace(
            reasons=self.reasons,
            hold=self.reasons.add,
            let_go=self.reasons.discard,
            claim_probe=shared or always,
            slow_down=self.spacings.append,
            cut_short=lambda: None,
        )
        self.crawl = Crawl(crawler)
        self.crawl.politeness = politeness
        self.crawl._opened()
        self.middleware = OutageMiddleware(
            self.crawl, limits=LIMITS, exceptions=(DownloadFailedError,), page=PAGE
        )

    async def _probed(self, request: Request) -> Response:
        self.probes.append((asyncio.get_running_loop().time(), request.method, request.url))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _close(self, reason: str) -> None:
        self.closed.append(reason)

    def fail(self, times: int = 1, request: Request | None = None) -> list[Request | None]:
        """What becomes of requests that get no answer."""
        asked = leased() if request is None else request
        return [self.middleware.process_exception(asked, DownloadFailedError("reset")) for _ in range(times)]

    @property
    def gave_up(self) -> list[Exception]:
        return [] if self.crawl.ending is None else [self.crawl.ending]

    @property
    def times(self) -> list[float]:
        return [when for when, *_ in self.probes]


async def always(host: str, seconds: float) -> bool:
    return True


def leased(url: str = TILE, **meta: Any) -> Request:
    return Request(url, method="HEAD", meta={"download_slot": HOST, STATE: RequestState(attempt=1), **meta})


def run(test: Callable[[], Awaitable[None]]) -> None:
    run_jumping(test())


def test_a_host_that_is_down_is_probed_at_growing_pauses_until_it_answers() -> None:
    rig = Rig(DOWN, DOWN, DOWN, DOWN, UP)

    async def test() -> None:
        rig.fail(3)
        assert rig.reasons == {Reason.DOWN}
        await asyncio.sleep(22)
        assert rig.reasons == {Reason.DOWN}
        await asyncio.sleep(10)
        assert not rig.reasons

    run(test)
    assert rig.times == pytest.approx([1, 3, 7, 15, 23])
    assert {(method, url) for _, method, url in rig.probes} == {("HEAD", PAGE)}
    assert rig.gave_up == []


def test_a_host_that_answers_head_with_a_body_is_probed_by_get() -> None:
    rig = Rig(UP)
    harvest: Any = SimpleNamespace(answers_head=False)
    rig.crawl.harvest = harvest

    async def test() -> None:
        rig.fail(3)
        await asyncio.sleep(2)

    run(test)
    assert {(method, url) for _, method, url in rig.probes} == {("GET", PAGE)}


def test_it_says_so_once_when_the_host_goes_down_and_once_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(DOWN, DOWN, UP)

    async def test() -> None:
        rig.fail(3)
        await asyncio.sleep(20)

    with caplog.at_level(logging.INFO):
        run(test)
    down, up = caplog.records
    assert (down.levelname, up.levelname) == ("WARNING", "INFO")
    assert f"{HOST} does not answer (reset)" in down.getMessage()
    assert "in 2 s and then after pauses of up to 8 s" in down.getMessage()
    assert f"{HOST} answers again after 7 s" in up.getMessage()


def test_one_that_stays_down_ends_the_harvest_when_patience_ends() -> None:
    rig = Rig(Response(PAGE, status=502))

    async def test() -> None:
        rig.fail(3)
        await asyncio.sleep(100)

    run(test)
    assert rig.times == pytest.approx([1, 3, 7, 15, 23, 30])
    (error,) = rig.gave_up
    assert isinstance(error, SiteError)
    assert "for 30 s (502 Bad Gateway): everything that was found is kept; run it again" in str(error)
    assert rig.closed == ["unreachable"]
    assert rig.reasons == {Reason.DOWN}


def test_what_fails_counts_until_the_host_is_known_to_be_down_and_goes_back_as_it_was_afterwards() -> None:
    rig = Rig(DOWN, DOWN, UP)

    async def test() -> None:
        assert rig.fail(5) == [None] * 5
        await asyncio.sleep(2)
        (again,) = rig.fail(1, leased(layer="world-day", retry_times=3))
        assert again is not None
        assert (again.url, again.method, again.priority, again.dont_filter) == (TILE, "HEAD", 0, True)
        assert again.meta["retry_times"] == 3
        assert "not_before" not in again.meta
        await asyncio.sleep(10)
        assert rig.fail(1) == [None]

    run(test)


def test_a_host_that_answers_probes_though_tiles_fail_is_up_and_doubted_half_as_soon(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(UP)

    async def test() -> None:
        for failures in (3, 6):
            assert rig.fail(failures - 1) == [None] * (failures - 1)
            assert not rig.reasons
            rig.fail(1)
            assert rig.reasons
            await asyncio.sleep(2)
            assert not rig.reasons

    with caplog.at_level(logging.INFO):
        run(test)
    assert caplog.records == []


@pytest.mark.parametrize("status", [200, 304, 404, 429, 501])
def test_any_answer_begins_the_row_of_failures_anew(status: int) -> None:
    rig = Rig(UP)

    async def test() -> None:
        for _ in range(2):
            rig.fail(2)
            response = Response(TILE, status=status)
            assert rig.middleware.process_response(leased(), response) is response
        assert not rig.reasons

    run(test)


@pytest.mark.parametrize(
    ("status", "headers", "is_failure"),
    [(500, {}, True), (502, {}, True), (503, {"Retry-After": "5"}, False), (521, {}, True)],
)
def test_a_servers_failure_is_one_unless_it_says_when_to_come_back(
    status: int, headers: dict[str, str], is_failure: bool
) -> None:
    rig = Rig(DOWN)

    async def test() -> None:
        for _ in range(3):
            rig.middleware.process_response(leased(), Response(TILE, status=status, headers=headers))
        assert bool(rig.reasons) is is_failure

    run(test)


REFUSED = Response(TILE, status=403)


def refuse(rig: Rig, times: int) -> list[Any]:
    """What becomes of requests that are answered 403, after one that was fine."""
    rig.middleware.process_response(leased(PAGE), UP)
    return [rig.middleware.process_response(leased(), REFUSED) for _ in range(times)]


def test_a_single_403_is_the_answer_and_those_that_follow_are_asked_once_more() -> None:
    rig = Rig(UP)

    async def test() -> None:
        first, second = refuse(rig, 2)
        assert first is REFUSED
        assert isinstance(second, Request)
        rig.middleware.process_response(leased(PAGE), UP)
        assert [rig.middleware.process_response(second, REFUSED) for _ in range(2)] == [REFUSED] * 2

    run(test)


def test_403_is_the_answer_of_a_host_that_has_answered_nothing_well() -> None:
    rig = Rig(UP)
    assert {rig.middleware.process_response(leased(), REFUSED) for _ in range(9)} == {REFUSED}
    assert not rig.reasons


def test_many_403_are_a_limit_if_what_was_fine_is_refused_too() -> None:
    rig = Rig(REFUSED, REFUSED, REFUSED, UP)

    async def test() -> None:
        assert isinstance(refuse(rig, 3)[-1], Request)
        assert rig.reasons == {Reason.DOWN}
        await asyncio.sleep(20)
        assert not rig.reasons

    run(test)
    assert rig.probes == [(pytest.approx(when), "HEAD", PAGE) for when in (0, 1, 3, 7)]
    assert len(rig.spacings) == 1


def test_many_403_are_no_limit_if_what_was_fine_still_is() -> None:
    rig = Rig(UP)

    async def test() -> None:
        refuse(rig, 3)
        await asyncio.sleep(1)
        assert set(refuse(rig, 5)) == {REFUSED}

    run(test)
    assert (len(rig.probes), rig.spacings) == (1, [])


def test_the_pause_is_what_the_host_asks_for_with_its_403() -> None:
    rig = Rig(Response(PAGE, status=403, headers={"Retry-After": "5"}), UP)

    async def test() -> None:
        refuse(rig, 3)
        await asyncio.sleep(20)

    run(test)
    assert rig.times == pytest.approx([0, 5])


def test_a_host_that_a_slower_pace_does_not_help_is_given_up_with_what_to_write() -> None:
    rig = Rig(REFUSED)

    async def test() -> None:
        refuse(rig, 3)
        await asyncio.sleep(100)

    run(test)
    (error,) = rig.gave_up
    assert isinstance(error, SiteError)
    assert "write it as requests_per_second" in str(error)


def test_the_last_address_that_was_answered_well_is_probed() -> None:
    rig = Rig(UP)
    good, sent_elsewhere = f"http://{HOST}/good.png", f"http://{HOST}/other.png"

    async def test() -> None:
        rig.middleware.process_response(leased(good), Response(good))
        rig.middleware.process_response(leased(TILE), Response(TILE, status=404))
        redirected = leased(sent_elsewhere, redirect_urls=[TILE])
        rig.middleware.process_response(redirected, Response(sent_elsewhere))
        rig.fail(3)
        await asyncio.sleep(2)

    run(test)
    assert rig.probes == [(pytest.approx(1), "HEAD", good)]


def test_of_a_host_that_has_no_page_what_failed_is_probed() -> None:
    rig = Rig(UP)
    url = "http://tiles.example.net/world-day/0.png"

    async def test() -> None:
        rig.fail(3, leased(url, download_slot="tiles.example.net"))
        await asyncio.sleep(2)

    run(test)
    assert [where for *_, where in rig.probes] == [url]


def test_of_several_workers_one_probes_at_a_time() -> None:
    claims: list[tuple[str, float]] = []

    async def claim(host: str, seconds: float) -> bool:
        claims.append((host, seconds))
        return len(claims) != 2

    rig = Rig(DOWN, UP, shared=claim)

    async def test() -> None:
        rig.fail(3)
        await asyncio.sleep(20)

    run(test)
    assert claims == [(HOST, pytest.approx(0.9 * pause)) for pause in (2, 4, 8)]
    assert rig.times == pytest.approx([1, 7])


def test_while_nobody_is_to_ask_for_anything_there_are_no_probes() -> None:
    rig = Rig(DOWN)

    async def test() -> None:
        rig.fail(3)
        rig.reasons.add(Reason.PAUSED)
        await asyncio.sleep(1000)
        assert (rig.probes, rig.gave_up) == ([], [])
        rig.reasons.discard(Reason.PAUSED)
        await asyncio.sleep(9)
        assert len(rig.probes) == 1
        assert rig.gave_up == []

    run(test)


def test_requests_may_start_when_the_last_of_two_hosts_is_back() -> None:
    rig = Rig(UP, DOWN, UP)

    async def test() -> None:
        rig.fail(3)
        await asyncio.sleep(0.5)
        rig.fail(3, leased(download_slot="tiles.example.net"))
        await asyncio.sleep(1.1)
        assert len(rig.probes) == 2
        assert rig.reasons
        await asyncio.sleep(3)
        assert not rig.reasons

    run(test)


@pytest.mark.parametrize(
    "error", [QueueError("the queue does not answer"), ZeroDivisionError("a mistake")], ids=["queue", "bug"]
)
def test_a_probe_that_cannot_be_made_ends_the_harvest_instead_of_hanging_it(error: Exception) -> None:
    async def claim(host: str, seconds: float) -> bool:
        raise error

    rig = Rig(UP, shared=claim)

    async def test() -> None:
        rig.fail(3)
        await asyncio.sleep(2)

    run(test)
    assert len(rig.gave_up) == 1
    assert str(error) in str(rig.gave_up[0])
    assert rig.closed == ["error"]


def test_what_the_scheduler_has_not_offered_does_not_count() -> None:
    rig = Rig(DOWN)

    async def test() -> None:
        probing = Request(PAGE, meta={"download_slot": HOST})
        assert rig.fail(10, probing) == [None] * 10
        rig.middleware.process_response(probing, Response(PAGE, status=500))
        assert not rig.reasons

    run(test)


def test_what_is_no_failure_of_the_host_does_not_count() -> None:
    rig = Rig(DOWN)

    async def test() -> None:
        for _ in range(10):
            assert rig.middleware.process_exception(leased(), IgnoreRequest("robots.txt forbids it")) is None
        assert not rig.reasons

    run(test)


def test_under_another_scheduler_nothing_is_done() -> None:
    rig = Rig(DOWN)
    rig.crawl.politeness = None

    async def test() -> None:
        assert rig.fail(10) == [None] * 10
        await asyncio.sleep(20)

    run(test)
    assert rig.probes == []


def test_a_queue_that_is_closed_while_a_probe_is_due_is_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    async def closed(host: str, seconds: float) -> bool:
        rig.slot.closing = asyncio.Event()
        raise RuntimeError("the queue is not open")

    rig = Rig(DOWN, shared=closed)

    async def test() -> None:
        rig.fail(3)
        await asyncio.sleep(2)

    run(test)
    assert rig.gave_up == []
    assert "mistake" not in caplog.text


def test_probing_ends_with_the_spider() -> None:
    rig = Rig(DOWN)

    async def test() -> None:
        rig.fail(3)
        await asyncio.sleep(2)
        await rig.middleware.close()
        await asyncio.sleep(100)

    run(test)
    assert rig.times == pytest.approx([1])
