"""`tileharvest run [NAME...]`: harvest every map at its time, until somebody ends the process."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

from scrapy import Spider

from tileharvest.commands.due_maps import DueMaps
from tileharvest.commands.progress import HarvestProgress
from tileharvest.commands.project_command import ProjectCommand, switch
from tileharvest.commands.report import HarvestEnd
from tileharvest.commands.runner import Runner
from tileharvest.commands.serve import VIEWER, listening, viewer_of
from tileharvest.commands.settings import AT_ONCE
from tileharvest.commands.terminal import console, first_of, say, write_line
from tileharvest.errors import ExitStatus, TileHarvestError
from tileharvest.history.settings import open_history
from tileharvest.maps.settings import setting
from tileharvest.politeness.settings import rules_for
from tileharvest.spiders.tiles import TileSpider

_GLANCE: Final = 1.0
"""Seconds between two looks of an idle worker for a map that is due."""


class Command(ProjectCommand):
    arguments = "[NAME...]"
    summary = "Harvest every map at its time, until Ctrl-C or SIGTERM"
    details = (
        "Without names all enabled maps are meant, and maps.toml is read anew when it changes. A harvest that"
        " is stopped or killed goes on at the next start. Workers that share a queue in Redis share the maps."
    )
    examples = ("--serve", "my-server --at-once 4")
    requires_crawler_process = True
    log_level = "WARNING"
    has_json = False
    options = {
        "--at-once": AT_ONCE,
        "--serve": switch("run the viewer in this process, too"),
        **VIEWER,
    }

    _fault: TileHarvestError | None = None
    """The error with which the worker has ended, if any."""

    def check(self, opts: Namespace) -> None:
        opts.serve |= any((opts.port, opts.host, opts.allow_host, opts.frame_ancestors))
        self._maps = DueMaps(self.settings, opts.name)
        self._maps.read_maps()
        for description in self._maps.described[:1]:
            # A wrong setting is wrong for each map, so one map is enough to find it.
            rules_for(self.settings, description)

    def answer(self, opts: Namespace) -> None:
        assert self.crawler_process is not None
        # The history must be made before it is read. The first harvest would do so too late.
        open_history(self.settings).close()
        interval = float(setting(self.settings, "PROGRESS_INTERVAL"))
        self._progress = HarvestProgress(console(sys.stderr), interval, maps=None)
        self._runner = Runner(
            self.crawler_process, self._progress, self._ended, at_once=opts.at_once, arguments={}
        )
        viewer = viewer_of(self.settings, opts.name, opts.frame_ancestors) if opts.serve else nullcontext()
        with viewer as application:
            served = nullcontext() if application is None else listening(application, opts)
            self._runner.run(self._names(served))
        self._progress.hide()
        # Scrapy has stopped the event loop, and has not closed it.
        asyncio.get_event_loop().run_until_complete(self._maps.close())
        if self._runner.under_way:
            say(f"left at once, and going on at the next start: {first_of(self._runner.under_way)}")
        if (fault := self._fault or self._runner.fault) is not None:
            raise fault

    async def _names(self, served: AbstractAsyncContextManager[None]) -> AsyncIterator[str]:
        """Yields the maps as they become due, without end. `served` serves the viewer meanwhile."""
        said = ""
        try:
            async with served:
                await self._maps.open()
                while True:
                    name = await self._maps.take()
                    if name is not None:
                        said = ""
                        yield name
                        continue
                    if not self._runner.under_way and said != self._maps.outlook:
                        said = self._maps.outlook
                        say(said)
                    await asyncio.sleep(_GLANCE)
        except TileHarvestError as error:
            self._fault = error

    async def _ended(self, name: str, spider: Spider | None) -> None:
        status = ExitStatus.ERROR
        try:
            if isinstance(spider, TileSpider):
                status = spider.crawl.exit_status
                if spider.crawl.harvest is not None:
                    write_line(HarvestEnd.of(spider).in_words)
                    sys.stdout.flush()
        finally:
            if not self._runner.under_way:
                self._progress.hide()
            await self._maps.done(name, status, is_stopping=self._runner.is_stopping)
