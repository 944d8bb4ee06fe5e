"""The middleware that repeats requests whose failure may pass, and lets a host rest that asks for it."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self

from scrapy.utils.misc import load_object

from tileharvest.maps.settings import setting
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.politeness.waits import noted
from tileharvest.queue.requests import FAILURE, NOT_BEFORE, is_offered, state_of
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.tiles.verdict import PASSING, Answer, pause_before, retry_after

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.scheduler.crawl import Crawl

    ExceptionNames: TypeAlias = tuple[str | type[Exception], ...]

_logger = logging.getLogger(__name__)

REPEATS: Final = -1
"""Priority of the lane for repeats after a failure: minus."""


class PatientRetryMiddleware:
    """Repeats a request after a growing pause, and lets politeness know that a host asks for a rest.

    Scrapy's own retry middleware repeats at once and does not know `Retry-After`. A request that our
    scheduler has offered goes back to the scheduler with the earliest time of its next attempt: no timer
    holds it in memory. Other requests, such as those that probe a site, wait here. A request with
    `meta["dont_retry"]` is not repeated, as with Scrapy's own. Under another scheduler only the request
    itself waits as long as its host asks for.
    """

    def __init__(
        self,
        crawl: Crawl,
        *,
        repeats: int,
        base: float,
        longest: float,
        exceptions: ExceptionNames,
        now: Callable[[], datetime],
    ) -> None:
        """`longest` is the most seconds that a host rests, and that a request waits for its host. `now` gives
        the present time, from which pauses and a date in `Retry-After` are counted."""
        self._crawl = crawl
        self._repeats = repeats
        self._base = base
        self._longest = longest
        self._exceptions = exceptions
        self._now = now

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        return cls(
            crawl_of(crawler),
            repeats=settings.getint("RETRY_TIMES"),
            base=float(setting(settings, "RETRY_PAUSE")),
            longest=float(setting(settings, "RETRY_AFTER_LONGEST")),
            exceptions=tuple(settings.getlist("RETRY_EXCEPTIONS")),
            now=lambda: datetime.now(UTC),
        )

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Awaitable[Request | Response]:
        status = response.status
        passes = status in PASSING or (status == HTTPStatus.FORBIDDEN and "Retry-After" in response.headers)
        return self._repeat_answered(request, response) if passes else response

    async def _repeat_answered(self, request: Request, response: Response) -> Request | Response:
        seconds = asked_to_rest(response, self._now())
        repeat = await self._repeat(request, Answer(response.status).phrase, seconds)
        return response if repeat is None else repeat

    async def process_exception(self, request: Request, exception: Exception) -> Request | None:
        repeat = None
        if isinstance(exception, kinds_of(self._exceptions)):
            repeat = await self._repeat(request, no_answer_in_words(exception), None)
        if repeat is None and request.errback is None:
            # Without an errback nobody else hears of the failure.
            request.meta[FAILURE] = str(exception) or type(exception).__name__
        return repeat

    async def _repeat(self, request: Request, reason: str, seconds: float | None) -> Request | None:
        attempt = request.meta.get("retry_times", 0) + 2
        if seconds is not None and self._crawl.politeness is not None:
            self._crawl.politeness.rest(request.meta["download_slot"], min(seconds, self._longest))
        if (seconds or 0.0) > self._longest or attempt > self._repeats + 1 or "dont_retry" in request.meta:
            return None
        pause = pause_before(attempt, self._base, seconds)
        _logger.debug("asking again in %s s, attempt %s: %s %s", pause, attempt, reason, request)
        again = request.replace(priority=REPEATS, dont_filter=True)
        again.meta["retry_times"] = attempt - 1
        if is_offered(request):
            again.meta[NOT_BEFORE] = self._now().timestamp() + pause
        else:
            with noted(self._crawl.waits, f"another attempt at {request.url} ({reason})", pause):
                if self._crawl.politeness is not None and state_of(request).is_aside:
                    # The host may ask for a long pause. The crawl's end cuts it short.
                    await self._crawl.politeness.wait(pause)
                else:
                    await asyncio.sleep(pause)
        return again


def asked_to_rest(response: Response, now: datetime | None = None) -> float | None:
    """Returns the seconds for which the answer's Retry-After asks, or None if it has none that can be read.
    Without `now` a date is counted from the present."""
    asked = response.headers.get("Retry-After")
    return retry_after(asked.decode("latin-1") if asked else None, now or datetime.now(UTC))


@cache
def kinds_of(names: ExceptionNames) -> tuple[type[Exception], ...]:
    """Returns the exceptions that the setting RETRY_EXCEPTIONS names.

    They are loaded when a request first fails. Some belong to Scrapy's own download handler, which asks for
    no tile and takes a third of a second to load.
    """
    return tuple(load_object(name) for name in names)
