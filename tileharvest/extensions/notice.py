"""Scrapy's extension that sends a notice at the end of a harvest."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import ExitStatus
from tileharvest.history.settings import open_history_for_reading
from tileharvest.notices.delivery import in_daemon, wishes_for
from tileharvest.notices.message import Report, is_wanted
from tileharvest.scheduler.crawl import crawl_of, harvest_of
from tileharvest.store.settings import open_store

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.scheduler.crawl import CrawlContext

PATIENCE: Final = 30.0
"""The most seconds for which a notice may delay the end of a harvest."""

_SENDING: Final = 25.0
"""The seconds of PATIENCE for making and sending the notice. The rest allows to name a target that is
late."""

_logger = logging.getLogger(__name__)


class Notice:
    """Sends a notice at the end of a harvest, if `notify` or NOTIFY names targets.

    It sends the notice when the engine has stopped, because then all results are recorded. The engine of a
    crawl that was ended before it began never starts. Its notice is sent when the spider is closed. If a
    notice cannot be sent, the log says so in one line, and the harvest stays as it is.
    """

    def __init__(self, crawl: CrawlContext, harvest: Harvest) -> None:
        self._crawl = crawl
        self._harvest = harvest
        self._settings = crawl.crawler.settings
        # Read now, so that the log names mistakes before hours of harvesting.
        self._wishes = wishes_for(self._settings, harvest.description)
        self._has_begun = False
        crawl.crawler.signals.connect(self._begun, signals.engine_started)
        crawl.crawler.signals.connect(self._closed, signals.spider_closed)
        crawl.crawler.signals.connect(self._notify, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured for a dry run. Scrapy then leaves the extension out."""
        harvest, crawl = harvest_of(crawler), crawl_of(crawler)
        if crawl.arguments.get("dry") == "1":
            raise NotConfigured
        return cls(crawl, harvest)

    def _begun(self) -> None:
        self._has_begun = True

    async def _closed(self) -> None:
        ending = self._crawl.ending
        # A person who makes a mistake, such as a second harvest of a map, sees that at the terminal.
        if not self._has_begun and ending is not None and ending.exit_status is not ExitStatus.USAGE:
            await self._notify()

    async def _notify(self) -> None:
        crawl, harvest, settings = self._crawl, self._harvest, self._settings
        if not harvest.ended_here or (crawl.ending is None and not crawl.is_finished):
            # The harvest goes on, with other workers or in a later run.
            return
        report = Report(harvest.description.name, harvest.day, crawl.counts, crawl.ending)
        wishes = self._wishes
        if wishes is None or not is_wanted(report, wishes.occasions):
            return
        # Pictures take 30 ms to load, and few harvests send any.
        from tileharvest.notices.notice import send_notice  # noqa: PLC0415

        def send() -> list[str]:
            return send_notice(
                report,
                harvest.segment.name,
                wishes,
                lambda: open_history_for_reading(settings),
                lambda: open_store(settings),
                _SENDING,
            )

        try:
            missed = await asyncio.wait_for(asyncio.wrap_future(in_daemon(send)), PATIENCE)
        except TimeoutError:
            self._warn(f"was not sent within {PATIENCE:g} s")
        # A notice must not make a harvest fail, whatever it raises. The error's text may contain an address.
        except Exception as error:  # noqa: BLE001
            self._warn(f"was not sent ({type(error).__name__})")
        else:
            if missed:
                self._warn(f"did not reach {', '.join(missed)}")

    def _warn(self, problem: str) -> None:
        _logger.warning(
            "the notice about map '%s' %s; the harvest is kept as it is: look at `notify`, and see"
            " docs/notices.md",
            self._harvest.description.name,
            problem,
        )
