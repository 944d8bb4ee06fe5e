"""Spares a host that is down, or refuses more: one probe at growing pauses takes the place of a storm of
requests."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from scrapy.utils.misc import load_object

from tileharvest.errors import SiteError
from tileharvest.maps.settings import setting
from tileharvest.politeness.outages import HostHealth, answer_in_words
from tileharvest.politeness.robots import UnreadableError
from tileharvest.politeness.waits import HoldReason, noted
from tileharvest.scheduler.crawl import as_error, cancel
from tileharvest.tiles.verdict import GONE_STATUSES, REFUSED, TOO_MANY, Answer, retry_after

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.settings import BaseSettings

    from tileharvest.politeness.map_throttle import MapThrottle
    from tileharvest.politeness.outages import OutageLimits
    from tileharvest.scheduler.crawl import CrawlContext

    Probe = Callable[[str], Awaitable[Answer | Exception]]
    """Asks an address once."""

_logger = logging.getLogger(__name__)

_ERRORS: Final = 400
"""The first status of an error."""


class Patience:
    """When a request that brought no usable answer is made again, as the settings say."""

    def __init__(self, settings: BaseSettings) -> None:
        self._attempts = settings.getint("RETRY_TIMES") + 1
        self._pause = float(setting(settings, "RETRY_PAUSE"))
        self.longest_rest = float(setting(settings, "RETRY_AFTER_LONGEST"))
        """The most seconds for which a server's Retry-After is obeyed."""
        self._names = settings.getlist("RETRY_EXCEPTIONS")

    @cached_property
    def passing(self) -> tuple[type[Exception], ...]:
        """The exceptions that mean that there was no answer. They are loaded when a request first fails: some
        belong to Scrapy's own download handler, which takes a third of a second to load."""
        return tuple(load_object(name) for name in self._names)

    def pause_before(self, attempt: int, answer: Answer | Exception) -> float | None:
        """Returns the seconds to wait before an attempt, given the answer to the one before, or None if that
        answer counts. They double from the second attempt on, unless the server asks for more."""
        seconds = 0.0
        if isinstance(answer, Exception):
            may_pass = isinstance(answer, (UnreadableError, *self.passing))
        else:
            seconds = retry_after(answer.retry_after, datetime.now(UTC)) or 0.0
            may_pass = answer.may_pass and seconds <= self.longest_rest
        if not may_pass or attempt > self._attempts:
            return None
        return max(self._pause * float(1 << (attempt - 2)), seconds)


class Outages:
    """Which hosts of a crawl are doubted or down, and the probes that find out whether they answer again.

    A host that stays away for too long, or goes on refusing however slowly it is asked, ends the crawl.
    """

    def __init__(self, crawl: CrawlContext, limits: OutageLimits, patience: Patience, probe: Probe) -> None:
        self._crawl, self._limits, self._patience, self._probe = crawl, limits, patience, probe
        self._hosts: dict[str, HostHealth] = {}
        """The health of each host that has ever failed."""
        self._good: dict[str, str] = {}
        """By host: one of its addresses that was answered well."""
        self.well: set[str] = set()
        """The hosts that have answered well and never failed. Their good answers change nothing here."""
        self._probing: dict[str, asyncio.Task[None]] = {}

    def judged(
        self, host: str, url: str, answer: Answer | Exception, attempt: int
    ) -> Answer | Exception | None:
        """Takes the answer to an attempt at a tile. Returns it as it counts, or None if it says nothing of
        the tile, because the host is doubted: then the tile is as it was."""
        # On a map that is mostly empty, hardly any answer but 404 comes.
        if isinstance(answer, Answer) and (answer.status < _ERRORS or answer.status in GONE_STATUSES):
            if host in self._hosts:
                self._hosts[host].answered()
            else:
                self.well.add(host)
            self._good[host] = url
            return answer
        if isinstance(answer, Answer) and answer.status in REFUSED:
            return self._refused(host, url, answer, attempt)
        if self.is_in_doubt(answer):
            self._note_failure(host, url, is_refusal=False)
            return None if host in self._probing else answer
        return answer

    def is_in_doubt(self, answer: Answer | Exception) -> bool:
        """Returns whether an answer may say something of the host, and nothing of the tile."""
        if isinstance(answer, Exception):
            return isinstance(answer, self._patience.passing)
        # A server that says when it can be asked again is left alone until then.
        has_failed = answer.status >= 500 and answer.may_pass and answer.retry_after is None
        return answer.status in REFUSED or has_failed

    def slow_down(self, host: str) -> None:
        """Asks a host more slowly that has refused more. Ends the crawl if that does not help."""
        cost_meter, health = self._crawl.cost_meter, self._health(host)
        if not health.slow_down(cost_meter.requests, cost_meter.worked):
            self._crawl.end(_still_refused(host))
            return
        self._throttle.slow_down(health.spacing)
        _logger.warning(
            "%s refuses requests that come so fast: from now on it is asked at most once in %.2g s; write"
            " requests_per_second for the map in maps.toml",
            host,
            health.spacing,
        )

    async def close(self) -> None:
        """Ends all probes."""
        for task in tuple(self._probing.values()):
            await cancel(task)

    @property
    def _throttle(self) -> MapThrottle:
        throttle = self._crawl.throttle
        assert throttle is not None
        return throttle

    def _health(self, host: str) -> HostHealth:
        self.well.discard(host)
        return self._hosts.setdefault(host, HostHealth(self._limits))

    def _refused(self, host: str, url: str, answer: Answer, attempt: int) -> Answer | None:
        """Takes a 403 or 429. Many in a row after good answers are a limit. One with Retry-After is a limit,
        too, and the throttle lets the host rest. A tile with a single one is asked once more, after all
        others: the next answers may show a limit."""
        if answer.retry_after is not None or host not in self._good:
            return answer
        self._note_failure(host, url, is_refusal=True)
        if host in self._probing:
            return None
        health = self._health(host)
        is_limit = answer.status == TOO_MANY or health.spacing > 0
        if is_limit and health.refuses_many(self._crawl.cost_meter.requests):
            self.slow_down(host)
        return replace(answer, retry_after="0") if health.may_limit(attempt) else answer

    def _note_failure(self, host: str, url: str, *, is_refusal: bool) -> None:
        """Notes a failure. If it makes the host doubted, nothing starts until a probe of it is answered."""
        if self._health(host).failed(is_refusal=is_refusal) and host not in self._probing:
            probing = self._probe_on(host, self._good.get(host, url), is_refusal=is_refusal)
            self._probing[host] = asyncio.ensure_future(probing)
            self._throttle.down.add(host)

    async def _probe_on(self, host: str, url: str, *, is_refusal: bool) -> None:
        """Probes a host until it answers. Ends the crawl when patience ends."""
        try:
            await self._probe_until_up(host, url, is_refusal=is_refusal)
        except Exception as error:  # noqa: BLE001 - or nothing would be asked for ever
            self._crawl.end(as_error(error))
        finally:
            del self._probing[host]
            self._throttle.down.discard(host)

    async def _probe_until_up(self, host: str, url: str, *, is_refusal: bool) -> None:
        """Makes one probe after the other, until one is answered. Each pause is twice as long as the one
        before; after refusals the first probe comes at once. Raises SiteError when patience has ended."""
        limits, throttle, is_down, was_claimed = self._limits, self._throttle, False, True
        ends, later = _now() + limits.patience, 0.0 if is_refusal else limits.pause
        while True:
            pause, later = later, min(max(2 * later, limits.pause), limits.longest_pause)
            with noted(self._crawl.waits, f"the next look whether {host} answers", pause):
                await asyncio.sleep(pause)
            held = throttle.held
            if held is not None and held.reason is not HoldReason.DOWN:
                # Another reason holds, such as a pause or a rest: then nobody asks for anything.
                ends += pause
                continue
            if not await throttle.claim_probe(host, max(pause, limits.pause)):
                # Another worker makes the probe.
                was_claimed = False
                continue
            answer = await self._probe(url)
            is_refused = isinstance(answer, Answer) and answer.status in REFUSED
            # A host that refuses what it has never answered well is up: it may forbid that.
            if not self.is_in_doubt(answer) or (is_refused and host not in self._good):
                break
            failure = answer_in_words(answer)
            if not is_down:
                _logger.warning(
                    "%s does not answer as it should (%s): until it does, it gets only one request after"
                    " pauses of up to %g s; after %g s the harvest ends, to be continued another time",
                    host,
                    failure,
                    limits.longest_pause,
                    limits.patience,
                )
            is_down = True
            if _now() >= ends and is_refusal:
                raise _still_refused(host)
            if _now() >= ends:
                raise SiteError(
                    f"{host} has not answered for {limits.patience:g} s ({failure}): everything that was"
                    " found is kept; run it again to continue"
                )
        if is_down and is_refusal:
            self.slow_down(host)
        if is_down:
            _logger.info("%s answers again: it is asked on", host)
        self._health(host).dispelled(was_down=is_down or not was_claimed)


def _still_refused(host: str) -> SiteError:
    return SiteError(
        f"{host} still refuses requests, although it was asked more and more slowly: what was found is"
        " kept; ask the owner which pace is allowed, write it as requests_per_second for the map in"
        " maps.toml, and run it again to continue"
    )


def _now() -> float:
    """Returns seconds on the clock of the event loop, which never goes back."""
    return asyncio.get_running_loop().time()
