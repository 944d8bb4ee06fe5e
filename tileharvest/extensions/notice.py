"""Scrapy's extension that sends a notice at the end of a harvest."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from tileharvest.errors import ConfigurationError, ExitStatus
from tileharvest.history.settings import open_history_for_reading
from tileharvest.maps.settings import setting
from tileharvest.notices.settings import notice_occasions, notice_targets
from tileharvest.scheduler.crawl import crawl_of, harvest_of
from tileharvest.store.settings import open_store_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.maps.description import MapDescription
    from tileharvest.notices.message import Report
    from tileharvest.notices.notice import Wishes
    from tileharvest.scheduler.crawl import Crawl

PATIENCE: Final = 30.0
"""Seconds for which a notice may hold up the end of a harvest."""

_SENDING: Final = 25.0
"""Seconds of them for sending, so that a target that is late can still be named."""

_logger = logging.getLogger(__name__)


class Notice:
    """Sends a notice where `notify` or NOTIFY names targets, once all that it tells of is recorded.

    That is when the engine has stopped. The engine of a crawl that was ended before it began never starts:
    then it is when the spider is closed. A notice that cannot be sent is one line in the log, and changes
    nothing of the harvest.
    """

    def __init__(self, crawl: Crawl, harvest: Harvest, wishes: Wishes | None) -> None:
        """`wishes` are those of the harvest's description, or None where nobody is to be told."""
        self._crawl = crawl
        self._harvest = harvest
        self._wishes = wishes
        self._described = harvest.description
        self._has_begun = False
        crawl.crawler.signals.connect(self._begun, signals.engine_started)
        crawl.crawler.signals.connect(self._closed, signals.spider_closed)
        crawl.crawler.signals.connect(self._notify, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises NotConfigured, which switches it off without a word, where nobody can be told. A dry run is
        such a case. Where nobody is to be told, that may change while the harvest runs."""
        harvest = harvest_of(crawler)
        crawl = crawl_of(crawler)
        if crawl.arguments.get("dry") == "1":
            raise NotConfigured
        wishes = _wishes(crawler.settings, harvest.description)
        if wishes is None and notice_targets(crawler.settings, harvest.description):
            raise NotConfigured
        return cls(crawl, harvest, wishes)

    def _begun(self) -> None:
        self._has_begun = True

    async def _closed(self) -> None:
        ending = self._crawl.ending
        # Who starts what cannot be, such as a second harvest of the map, sees that at the terminal.
        if not self._has_begun and ending is not None and ending.exit_status is not ExitStatus.USAGE:
            await self._notify()

    async def _notify(self) -> None:
        from tileharvest.notices.message import is_wanted  # noqa: PLC0415 - where it is used at all
        from tileharvest.notices.notice import tell  # noqa: PLC0415 - the same

        settings, wishes = self._crawl.crawler.settings, self._wishes
        if self._harvest.description is not self._described:
            # maps.toml was changed meanwhile.
            wishes = _wishes(settings, self._harvest.description)
        report = self._report()
        if report is None or wishes is None or not is_wanted(report, wishes.occasions):
            return

        def sent() -> list[str]:
            return tell(
                report,
                self._harvest.segment.name,
                wishes,
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
                self._warn(f"did not reach {', '.join(missed)}")

    def _report(self) -> Report | None:
        """Returns None while the harvest goes on: with other workers, or in a later run."""
        from tileharvest.notices.message import Report  # noqa: PLC0415 - where it is used at all

        crawl, harvest = self._crawl, self._harvest
        if not harvest.ended_here or (crawl.ending is None and not crawl.is_finished):
            return None
        return Report(self._name, harvest.day, crawl.counts, crawl.ending)

    @property
    def _name(self) -> str:
        return self._harvest.description.name

    def _warn(self, problem: str) -> None:
        _logger.warning(
            "the notice about map '%s' %s; the harvest is kept as it is: look at `notify`, and see"
            " docs/notices.md",
            self._name,
            problem,
        )


def _wishes(settings: BaseSettings, description: MapDescription) -> Wishes | None:
    """Returns None where nobody is to be told or nobody can be. The log says so now, and not after hours of
    harvesting."""
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
        reasons = ", ".join(missing)
        _logger.warning("an address to notify is left out: %s; this goes on without", reasons)
    viewer = description.viewer or setting(settings, "VIEWER_URL")
    return Wishes(tuple(targets), occasions, viewer) if targets else None


async def _within(seconds: float, work: Callable[[], list[str]]) -> list[str]:
    """Returns or raises what the work does, in a thread of its own. Raises TimeoutError when it takes longer.

    Not by `asyncio.to_thread`: Python waits for such threads before a process can end.
    """
    done: Future[list[str]] = Future()
    # From now on a timeout does not cancel it: the thread sets what nobody waits for.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            done.set_exception(error)

    threading.Thread(target=run, daemon=True, name="notice").start()
    return await asyncio.wait_for(asyncio.wrap_future(done), seconds)
