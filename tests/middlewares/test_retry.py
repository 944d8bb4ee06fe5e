from __future__ import annotations

import asyncio
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.settings import Settings

from tests.middlewares.making import NOW, run_jumping
from tileharvest import settings as project_settings
from tileharvest.middlewares.retry import PatientRetryMiddleware
from tileharvest.queue.requests import FAILURE, NOT_BEFORE, STATE, RequestState
from tileharvest.scheduler.crawl import Crawl

if TYPE_CHECKING:
    from collections.abc import Awaitable

URL = "http://map.example.net/world-day/0.png"
LONGEST = 600.0


def middleware(base: float = 1.0) -> PatientRetryMiddleware:
    return PatientRetryMiddleware(
        Crawl(Crawler(Spider)),
        repeats=4,
        base=base,
        longest=LONGEST,
        exceptions=(DownloadFailedError,),
        now=lambda: NOW,
    )


def head(url: str = URL, host: str = "map.example.net", **meta: Any) -> Request:
    return Request(url, method="HEAD", meta={"download_slot": host, **meta})


def answer(status: int, retry_after: str | None = None) -> Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Response(URL, status=status, headers=headers)


async def result(value: Any) -> Any:
    """As Scrapy takes what a middleware returns: awaited where it can be."""
    return await value if hasattr(value, "__await__") else value


async def seconds(waiting: Awaitable[Any] | Any) -> float:
    """How long it takes."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    await result(waiting)
    return loop.time() - start


@pytest.mark.parametrize("status", [200, 204, 301, 304, 400, 401, 403, 404, 405, 410, 501])
def test_an_answer_that_asking_again_would_not_change_passes(status: int) -> None:
    response = answer(status)
    assert middleware().process_response(head(), response) is response


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 520, 524])
def test_a_failure_that_may_pass_is_asked_again_in_the_lane_for_repeats(status: int) -> None:
    request = head(asked="for")
    again = run_jumping(result(middleware().process_response(request, answer(status))))
    assert (again.url, again.method, again.priority, again.dont_filter) == (URL, "HEAD", -1, True)
    assert again.meta == {**request.meta, "retry_times": 1}


def test_the_request_that_failed_is_not_changed() -> None:
    request = head()
    run_jumping(result(middleware().process_response(request, answer(500))))
    assert "retry_times" not in request.meta


def test_pauses_double_and_the_fifth_answer_is_the_last() -> None:
    async def run() -> tuple[list[float], Any]:
        tested, request, pauses = middleware(base=1.0), head(), []
        loop = asyncio.get_running_loop()
        while isinstance(request, Request):
            start = loop.time()
            request = await result(tested.process_response(request, answer(500)))
            pauses.append(loop.time() - start)
        return pauses, request

    pauses, last = run_jumping(run())
    assert pauses == pytest.approx([1, 2, 4, 8, 0])
    assert last.status == 500


def test_exceptions_and_answers_share_the_attempts() -> None:
    async def run() -> Any:
        tested, request = middleware(), head()
        for _ in range(2):
            request = await result(tested.process_response(request, answer(503)))
            request = await tested.process_exception(request, DownloadFailedError())
        assert request.meta["retry_times"] == 4
        return await tested.process_exception(request, DownloadFailedError())

    assert run_jumping(run()) is None


@pytest.mark.parametrize(
    "exception",
    [
        CannotResolveHostError("no such name"),
        DownloadConnectionRefusedError("refused"),
        DownloadFailedError("reset"),
        DownloadTimeoutError("30 s"),
        ResponseDataLossError("cut off"),
        ConnectionResetError(),
    ],
    ids=lambda exception: type(exception).__name__,
)
def test_every_failure_of_a_connection_is_asked_again(exception: Exception) -> None:
    again = run_jumping(as_configured().process_exception(head(), exception))
    assert isinstance(again, Request)


@pytest.mark.parametrize(
    "exception",
    [IgnoreRequest("redirects"), DownloadCancelledError("too large"), ValueError("a bug")],
    ids=lambda exception: type(exception).__name__,
)
def test_what_is_no_failure_of_a_connection_is_not_asked_again(exception: Exception) -> None:
    assert run_jumping(as_configured().process_exception(head(), exception)) is None


def test_the_settings_say_how_often_and_how_long() -> None:
    async def run() -> list[float]:
        tested, request, pauses = as_configured(RETRY_TIMES=2, RETRY_PAUSE=0.5), head(), []
        loop = asyncio.get_running_loop()
        while isinstance(request, Request):
            start = loop.time()
            request = await result(tested.process_response(request, answer(500)))
            pauses.append(loop.time() - start)
        return pauses

    assert run_jumping(run()) == pytest.approx([0.5, 1, 0])


@pytest.mark.parametrize(
    ("retry_after", "pause"),
    [
        ("7", 7),
        ("0", 1),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 1),
        ("soon", 1),
    ],
)
def test_retry_after_makes_a_pause_longer_and_never_shorter(retry_after: str, pause: float) -> None:
    response = answer(429, retry_after)
    taken = run_jumping(seconds(middleware(base=1.0).process_response(head(), response)))
    assert taken == pytest.approx(pause)


def test_a_request_does_not_wait_for_a_longer_rest_than_allowed() -> None:
    async def run() -> None:
        tested, response = middleware(), answer(429, str(int(LONGEST) + 1))
        assert await seconds(tested.process_response(head(), response)) == 0
        assert await result(tested.process_response(head(), response)) is response

    run_jumping(run())


class Politeness:
    """Hears which host is to rest, and for how long."""

    def __init__(self) -> None:
        self.rests: list[tuple[str, float]] = []

    def rest(self, host: str, seconds: float) -> None:
        self.rests.append((host, seconds))


@pytest.mark.parametrize(
    ("retry_after", "rests"), [("20", [20.0]), ("0", [0.0]), ("86400", [LONGEST]), (None, [])]
)
@pytest.mark.parametrize("meta", [{}, {"dont_retry": True}, {"retry_times": 4}])
def test_a_host_rests_as_long_as_it_asks_for_and_is_allowed_whatever_becomes_of_the_request(
    retry_after: str | None, rests: list[float], meta: dict[str, Any]
) -> None:
    tested, politeness = middleware(), Politeness()
    tested._crawl.politeness = politeness  # type: ignore[assignment]
    run_jumping(result(tested.process_response(head(**meta), answer(503, retry_after))))
    assert politeness.rests == [("map.example.net", seconds) for seconds in rests]


@pytest.mark.parametrize("failure", [answer(503, "20"), DownloadFailedError()])
def test_what_says_so_is_not_repeated(failure: Any) -> None:
    async def run() -> Any:
        tested, request = middleware(), head(dont_retry=True)
        if isinstance(failure, Response):
            return await result(tested.process_response(request, failure))
        return await tested.process_exception(request, failure)

    assert run_jumping(run()) is (failure if isinstance(failure, Response) else None)


def leased(**meta: Any) -> Request:
    """As the scheduler offers it."""
    return head(**{STATE: RequestState(attempt=1), **meta})


def repeated(tested: PatientRetryMiddleware, request: Request, response: Response) -> tuple[Request, float]:
    """What is enqueued instead, and how long that took."""

    async def run() -> tuple[Request, float]:
        start = asyncio.get_running_loop().time()
        again = await result(tested.process_response(request, response))
        return again, asyncio.get_running_loop().time() - start

    again, waited = run_jumping(run())
    assert isinstance(again, Request)
    return again, waited


def pause_until(request: Request) -> float:
    """Seconds from now to the time before which the request is not to be made."""
    return float(request.meta[NOT_BEFORE]) - NOW.timestamp()


@pytest.mark.parametrize(("made", "pause"), [(0, 1), (1, 2), (2, 4), (3, 8)])
def test_a_leased_request_is_enqueued_for_later_at_once(made: int, pause: float) -> None:
    again, waited = repeated(middleware(base=1.0), leased(retry_times=made), answer(500))
    assert waited == 0
    assert (again.method, again.priority, again.dont_filter) == ("HEAD", -1, True)
    assert pause_until(again) == pytest.approx(pause)
    assert again.meta["retry_times"] == made + 1


def test_a_leased_request_has_no_more_attempts_than_another() -> None:
    async def run() -> Any:
        return await result(middleware().process_response(leased(retry_times=4), answer(500)))

    assert run_jumping(run()).status == 500


def test_a_leased_request_is_not_changed_when_it_is_enqueued_for_later() -> None:
    request = leased()
    repeated(middleware(), request, answer(500))
    assert request.meta.keys() == leased().meta.keys()


def test_retry_after_delays_a_leased_request() -> None:
    again, waited = repeated(middleware(base=1.0), leased(), answer(429, "90"))
    assert (waited, pause_until(again)) == (0, pytest.approx(90))


def test_a_leased_request_whose_connection_failed_is_enqueued_for_later() -> None:
    async def run() -> Any:
        return await middleware(base=1.0).process_exception(leased(), DownloadFailedError())

    again = run_jumping(run())
    assert (again.priority, again.dont_filter) == (-1, True)
    assert pause_until(again) == pytest.approx(1)


@pytest.mark.parametrize("request_", [head(), leased()], ids=["not leased", "leased"])
def test_what_nobody_else_hears_of_says_why_it_failed(request_: Request) -> None:
    async def run() -> Any:
        return await middleware().process_exception(request_, ValueError("broken"))

    assert run_jumping(run()) is None
    assert request_.meta[FAILURE] == "broken"


def as_configured(**values: Any) -> PatientRetryMiddleware:
    """With the project's own settings, and these."""
    settings = Settings()
    settings.setmodule(project_settings)
    settings.update(values)
    return PatientRetryMiddleware.from_crawler(Crawler(Spider, settings))
