"""Scrapy's extension that sends a notice at the end of a harvest, where `notify` or NOTIFY names targets."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import ConfigurationError, ExitStatus
from tileharvest.history.settings import open_history_for_reading
from tileharvest.notices.settings import notice_occasions, notice_targets
from tileharvest.scheduler.crawl import harvesting_of
from tileharvest.store.settings import open_store_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvesting
    from tileharvest.notices.delivery import Undelivered
    from tileharvest.notices.message import Report
    from tileharvest.notices.notice import Wishes

PATIENCE: Final = 30.0
"""Seconds by which a notice may hold up the end of a harvest."""

_SENDING: Final = 25.0
"""Seconds of them for the sending, so that what is late can still be named."""

_logger = logging.getLogger(__name__)


class Notice:
    """Sends when the spider has settled, so that all it tells of is recorded.

    That is when the engine has stopped; or, of a crawl that was ended before it began, when the spider is
    closed. What cannot be done is one line in the log, and changes nothing of the harvest.
    """

    def __init__(self, crawler: Crawler, harvesting: Harvesting, wishes: Wishes) -> None:
        self._crawler = crawler
        self._harvesting = harvesting
        self._wishes = wishes
        self._has_begun = False
        crawler.signals.connect(self._begun, signals.engine_started)
        crawler.signals.connect(self._closed, signals.spider_closed)
        crawler.signals.connect(self._notify, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured, which switches it off without a word, where nobody is to be told, as of a
        dry run."""
        harvesting = harvesting_of(crawler)
        if getattr(crawler.spider, "dry", "0") == "1":
            raise NotConfigured
        wishes = _wishes(crawler.settings, harvesting)
        if wishes is None:
            raise NotConfigured
        return cls(crawler, harvesting, wishes)

    def _begun(self) -> None:
        self._has_begun = True

    async def _closed(self) -> None:
        ending = getattr(self._crawler.spider, "ending", None)
        # Whoever started what cannot be, such as a second harvest of the map, sees it himself.
        if not self._has_begun and ending is not None and ending.exit_status is not ExitStatus.USAGE:
            await self._notify()

    async def _notify(self) -> None:
        from tileharvest.notices.message import is_wanted  # noqa: PLC0415 - where it is used at all
        from tileharvest.notices.notice import tell  # noqa: PLC0415 - the same

        report = self._report()
        if report is None or not is_wanted(report, self._wishes.occasions):
            return
        settings = self._crawler.settings

        def sent() -> list[Undelivered]:
            return tell(
                report,
                self._harvesting.segment.name,
                self._wishes,
                lambda: open_history_for_reading(settings),
                lambda: open_store_for_reading(settings),
                _SENDING,
            )

        try:
            missed = await _within(PATIENCE, sent)
        except TimeoutError:
            self._warn(f"was not sent within {PATIENCE:g} s")
        # Whatever it is, a harvest does not fail by it. Its text may hold an address.
        except Exception as error:  # noqa: BLE001
            self._warn(f"was not sent ({type(error).__name__})")
        else:
            if missed:
                self._warn(f"did not reach {', '.join(map(str, missed))}")

    def _report(self) -> Report | None:
        """None where the harvest goes on: with other workers, or when it is run again after a stop."""
        from tileharvest.notices.message import Report  # noqa: PLC0415 - where it is used at all

        spider: Any = self._crawler.spider
        if not getattr(spider, "ended_here", True) or (spider.ending is None and not spider.finished):
            return None
        return Report(self._name, self._harvesting.day, spider.counts, spider.ending)

    @property
    def _name(self) -> str:
        return self._harvesting.description.name

    def _warn(self, problem: str) -> None:
        _logger.warning(
            "the notice about map '%s' %s; the harvest is kept as it is: look at `notify`, and see"
            " docs/notices.md",
            self._name,
            problem,
        )


def _wishes(settings: BaseSettings, harvesting: Harvesting) -> Wishes | None:
    """None where nobody is to be told, or nobody can be: said now, not when hours of harvesting are over."""
    description = harvesting.description
    texts = notice_targets(settings, description)
    if not texts:
        return None
    # Where nobody is to be told it need not be loaded.
    from tileharvest.notices.delivery import (  # noqa: PLC0415
        HOW_TO_INSTALL,
        is_installed,
        parse_targets,
    )
    from tileharvest.notices.notice import Wishes  # noqa: PLC0415

    if not is_installed():
        _logger.warning("notices need Apprise: %s; this goes on without", HOW_TO_INSTALL)
        return None
    try:
        occasions = notice_occasions(settings, description)
    except ConfigurationError as error:
        _logger.warning("%s; this goes on without notices", error)
        return None
    targets, missing = parse_targets(texts, os.environ)
    if missing:
        reasons = ", ".join(map(str, missing))
        _logger.warning("an address to notify is left out: %s; this goes on without", reasons)
    viewer = description.viewer or settings["VIEWER_URL"]
    return Wishes(tuple(targets), occasions, viewer) if targets else None


async def _within(seconds: float, work: Callable[[], list[Undelivered]]) -> list[Undelivered]:
    """What the work returns or raises, done in a thread; TimeoutError if it is not done by then.

    Not by `asyncio.to_thread`: Python waits for such threads before a process can end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[list[Undelivered]] = loop.create_future()

    def settle(result: list[Undelivered] | Exception) -> None:
        if done.done():
            return
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)

    def run() -> None:
        result: list[Undelivered] | Exception
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            result = error
        # The loop may be closed when nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, daemon=True, name="notice").start()
    return await asyncio.wait_for(done, seconds)
