"""Spares a host that is down, or refuses more: one probe at growing pauses takes the place of a storm of
requests."""

from __future__ import annotations

import asyncio
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import SiteError
from tileharvest.middlewares.retry import asked_to_rest, kinds_of
from tileharvest.politeness.outages import HostHealth, no_answer_in_words
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.settings import outage_limits
from tileharvest.politeness.waits import noted
from tileharvest.queue.cancellation import cancel
from tileharvest.queue.requests import NOT_BEFORE, is_offered
from tileharvest.scheduler.blocks import Block
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.scheduler.engine import is_closing
from tileharvest.scheduler.worker import as_queue_error
from tileharvest.tiles.verdict import PASSING, Answer

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.middlewares.retry import ExceptionNames
    from tileharvest.politeness.outages import OutageLimits
    from tileharvest.scheduler.crawl import Crawl
    from tileharvest.scheduler.politeness import Politeness

_logger = logging.getLogger(__name__)

_SERVER_FAILURES: Final = 500
"""The first status by which a server says that it has failed."""

_SHORTER: Final = 0.9
"""Share of the pause until its next probe for which a worker claims the host. Timers and the clocks of other
workers are not exact, and the next probe must not come while the claim still holds."""


class OutageMiddleware:
    """Holds requests back when a host seems to be down, and probes until it answers or patience ends.

    Only requests that our scheduler has offered count as failures. A request that fails while the host is
    known to be down goes back to the scheduler as it was: that was no attempt. So does a 403 while the host
    seems to limit us, and from the second 403 in a row on each request is asked once more. Under another
    scheduler this middleware does nothing. It belongs nearer to the network than the one that repeats
    requests.
    """

    def __init__(
        self,
        crawl: Crawl,
        *,
        limits: OutageLimits,
        exceptions: ExceptionNames,
        page: str | None = None,
    ) -> None:
        """`exceptions` mean that there was no answer. `page` is the map's page: it is probed until another
        address of its host was answered well."""
        self._crawl = crawl
        self._limits = limits
        self._exceptions = exceptions
        self._page = page
        self._hosts: dict[str, HostHealth] = {}
        """The health of each host that has ever failed."""
        self._good: dict[str, str] = {}
        """By host: the last of its addresses that was answered well."""
        self._probing: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured if the crawl cannot begin, as it asks for nothing then."""
        settings = crawler.settings
        crawl = crawl_of(crawler)
        if crawl.is_ending:
            raise NotConfigured
        middleware = cls(
            crawl,
            limits=outage_limits(settings),
            exceptions=tuple(settings.getlist("RETRY_EXCEPTIONS")),
            page=None if crawl.harvest is None else crawl.harvest.description.page,
        )
        crawler.signals.connect(middleware.close, signals.spider_closed)
        return middleware

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if isinstance(request, Block):
            # No host has answered it. The short way notes the answers of its tiles.
            return response
        if response.status >= _SERVER_FAILURES and _is_failure(response):
            again = self._failed(request)
            return response if again is None else again
        if response.status == HTTPStatus.FORBIDDEN and self._may_limit(request, response):
            again = self._refused(request)
            return response if again is None else again
        # What was sent elsewhere may be answered by another host.
        is_well = response.status == 200 and "redirect_urls" not in request.meta
        self.answered(request.meta["download_slot"], request.url if is_well else None)
        return response

    def answered(self, host: str, well: str | None) -> None:
        """Notes that a host has answered. `well` is the address if the answer was 200, and else None."""
        if host in self._hosts:
            self._hosts[host].answered(well=well is not None)
        if well is not None:
            self._good[host] = well

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, kinds_of(self._exceptions)):
            return None
        return self._failed(request)

    async def close(self) -> None:
        """Ends all probing. Scrapy calls this when the spider has closed."""
        for task in list(self._probing.values()):
            await cancel(task)

    def _failed(self, request: Request) -> Request | None:
        """Returns the request as it goes back to the scheduler, or None if its failure counts."""
        politeness = self._crawl.politeness
        if politeness is None or not is_offered(request):
            return None
        host = request.meta["download_slot"]
        health = self._hosts.setdefault(host, HostHealth(self._limits))
        if health.failed(_now()):
            self._doubt(host, request.url, health, politeness)
        return request.replace(dont_filter=True) if health.is_down else None

    def _may_limit(self, request: Request, response: Response) -> bool:
        """Returns whether a 403 without a word may be a limit of the host. One with Retry-After is a limit,
        and the middleware that repeats requests lets the host rest."""
        politeness, host = self._crawl.politeness, request.meta["download_slot"]
        if politeness is None or not is_offered(request):
            return False
        if asked_to_rest(response) is None:
            return host in self._good
        if Reason.RESTING not in politeness.reasons:
            self._slow_down(host, self._hosts.setdefault(host, HostHealth(self._limits)), politeness)
        return False

    def _refused(self, request: Request) -> Request | None:
        """Returns the request as it goes back to the scheduler, or None if the 403 is its answer."""
        politeness, host = self._crawl.politeness, request.meta["download_slot"]
        assert politeness is not None
        health = self._hosts.setdefault(host, HostHealth(self._limits))
        if health.refused(_now()):
            self._doubt(host, request.url, health, politeness)
        if health.is_doubted:
            return request.replace(dont_filter=True)
        if not health.may_limit or request.meta.get("retry_times"):
            return None
        again = request.replace(dont_filter=True)
        again.meta["retry_times"] = 1
        again.meta[NOT_BEFORE] = time.time() + self._limits.pause
        return again

    def _doubt(self, host: str, failed: str, health: HostHealth, politeness: Politeness) -> None:
        """Lets nothing start until a probe of the host is answered."""
        politeness.hold(Reason.DOWN)
        probing = self._probe_until_answered(host, self._address(host, failed), health, politeness)
        self._probing[host] = asyncio.ensure_future(probing)

    def _slow_down(self, host: str, health: HostHealth, politeness: Politeness) -> None:
        """Asks a host more slowly that has refused more. Ends the crawl if that does not help."""
        traffic = self._crawl.traffic
        if health.slow_down(traffic.requests, traffic.worked):
            politeness.slow_down(health.spacing)
        else:
            self._crawl.end(self._still_refused(host))

    def _still_refused(self, host: str) -> SiteError:
        return SiteError(
            f"{host} still answers 403, although it was asked more and more slowly: everything that was found"
            " is kept; ask the owner which pace is allowed, write it as requests_per_second for the map in"
            " maps.toml, and run it again to continue"
        )

    async def _probe_until_answered(
        self, host: str, url: str, health: HostHealth, politeness: Politeness
    ) -> None:
        try:
            while not await self._probed(host, url, health, politeness):
                pass
        except SiteError as error:
            self._crawl.end(error)
        except Exception as error:  # noqa: BLE001 - or requests would be held back for ever
            # While the crawl closes, what is asked here may be closed already.
            if not is_closing(self._crawl.crawler.engine):
                self._crawl.end(as_queue_error(error))

    async def _probed(self, host: str, url: str, health: HostHealth, politeness: Politeness) -> bool:
        """Waits until the next probe is due, and makes it. Returns whether it was answered. Raises SiteError
        when patience has ended, and the errors of `Politeness.claim_probe`."""
        pause = health.next_pause(_now())
        with noted(self._crawl.waits, f"the next look whether {host} answers", pause):
            await asyncio.sleep(pause)
        if politeness.reasons != {Reason.DOWN}:
            # Another reason holds, such as a pause: then nobody asks for anything.
            health.postponed(pause)
            return False
        if not await politeness.claim_probe(host, _SHORTER * health.following_pause(_now())):
            health.left_to_another()
            return False
        failure = await self._probe(host, url, health)
        if failure is None:
            self._let_go(host, health, politeness)
            return True
        if not health.is_down:
            self._say_down(host, failure, health)
        if health.probe_failed(_now()):
            if health.is_refusing:
                raise self._still_refused(host)
            raise SiteError(
                f"{host} has not answered for {self._limits.patience:g} s ({failure}): everything that was"
                " found is kept; run it again to continue"
            )
        return False

    async def _probe(self, host: str, url: str, health: HostHealth) -> str | None:
        """Returns why there is no answer, or None when there is one."""
        meta = {"download_slot": host, "dont_retry": True, "dont_redirect": True, "verbatim_url": True}
        harvest = self._crawl.harvest
        method = "HEAD" if harvest is None or harvest.answers_head else "GET"
        try:
            response = await self._crawl.crawler.engine.download_async(Request(url, method=method, meta=meta))
        # Whatever download handlers and middlewares raise means the same here: no answer.
        except Exception as error:  # noqa: BLE001
            return no_answer_in_words(error)
        if health.is_refusing and response.status == HTTPStatus.FORBIDDEN:
            health.asked_to_wait(asked_to_rest(response) or 0.0)
        elif not _is_failure(response):
            return None
        return Answer(response.status).phrase

    def _let_go(self, host: str, health: HostHealth, politeness: Politeness) -> None:
        was_down = health.is_down
        if was_down and health.is_refusing:
            self._slow_down(host, health, politeness)
        seconds = health.probe_answered(_now())
        del self._probing[host]
        if not self._probing:
            politeness.let_go(Reason.DOWN)
        if was_down:
            _logger.info("%s answers again after %.0f s: what has waited is asked now", host, seconds)

    def _say_down(self, host: str, failure: str, health: HostHealth) -> None:
        pause, longest, patience = (
            health.following_pause(_now()),
            self._limits.longest_pause,
            self._limits.patience,
        )
        if health.is_refusing:
            _logger.warning(
                "%s answers %s to what it has answered before, which looks like a limit: it rests for %g s or"
                " more, and is then asked more slowly; write requests_per_second for the map in maps.toml",
                host,
                failure,
                pause,
            )
            return
        _logger.warning(
            "%s does not answer (%s): nothing more is asked of it until it does; one request looks whether it"
            " does, in %g s and then after pauses of up to %g s; if it stays away for %g s the harvest ends,"
            " to be continued another time",
            host,
            failure,
            pause,
            longest,
            patience,
        )

    def _address(self, host: str, failed: str) -> str:
        """Returns the address to probe."""
        if self._page is not None and urlsplit(self._page).hostname == host:
            failed = self._page
        return self._good.get(host, failed)


def _now() -> float:
    """Returns seconds on the clock of the event loop, which never goes back."""
    return asyncio.get_running_loop().time()


def _is_failure(response: Response) -> bool:
    """Returns whether the server has failed by itself, and does not say when that will have passed."""
    status = response.status
    return status >= _SERVER_FAILURES and status in PASSING and "Retry-After" not in response.headers
