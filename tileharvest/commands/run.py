"""`tileharvest run [NAME...]`: harvest every map at its time, until somebody ends the process."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, nullcontext
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from tileharvest.commands.due_maps import DueMaps
from tileharvest.commands.progress import HarvestProgress
from tileharvest.commands.project_command import ProjectCommand, switch, value
from tileharvest.commands.report import HarvestEnd
from tileharvest.commands.runner import Runner
from tileharvest.commands.serve import VIEWER, listening, viewer_of
from tileharvest.commands.settings import maps_at_once, progress_interval
from tileharvest.commands.terminal import console, first_of, say, write_line
from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from scrapy import Spider
    from scrapy.settings import BaseSettings


class Command(ProjectCommand, ScrapyCommand):
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
        "--at-once": value("how many maps are harvested side by side (MAPS_AT_ONCE, 16)", metavar="N"),
        "--serve": switch("run the viewer in this process, too"),
        **VIEWER,
    }

    def check(self, opts: Namespace) -> None:
        from tileharvest.politeness.settings import rules_for

        viewers = (opts.port is not None, opts.host is not None, opts.allow_host, opts.frame_ancestors)
        if not opts.serve and any(viewers):
            raise ConfigurationError(
                "--port, --host, --allow-host and --frame-ancestors are for the viewer: add --serve, or leave"
                " them out"
            )
        self._at_once = maps_at_once(self.settings, opts.at_once)
        progress_interval(self.settings)
        self._maps = DueMaps(self.settings, opts.name)
        self._maps.read_maps()
        for description in self._maps.described[:1]:
            # A wrong setting is wrong for each map, so one map is enough to find it.
            rules_for(self.settings, description)

    def answer(self, opts: Namespace) -> None:
        from tileharvest.history.settings import open_history

        assert self.crawler_process is not None
        # The history must be made before it is read. The first harvest would do so too late.
        open_history(self.settings).close()
        viewer = viewer_of(self.settings, opts.name, opts.frame_ancestors) if opts.serve else nullcontext()
        with viewer as application:
            served = None if application is None else listening(application, opts)
            worker = _Worker(self.settings, self._maps)
            runner = Runner(
                self.crawler_process, worker.progress, worker.ended, at_once=self._at_once, arguments={}
            )
            runner.run(worker.names(runner, served))
        # Scrapy has stopped the event loop, and has not closed it.
        asyncio.get_event_loop().run_until_complete(worker.close())
        if runner.under_way:
            say(f"left at once, and going on at the next start: {first_of(runner.under_way)}")
        if worker.fault is not None:
            raise worker.fault


class _Worker:
    """The worker of `tileharvest run`: gives the due maps to the Runner, and shows its harvests."""

    def __init__(self, settings: BaseSettings, maps: DueMaps) -> None:
        self._settings = settings
        self._maps = maps
        self.progress = HarvestProgress(console(sys.stderr), progress_interval(settings), maps=None)
        self._leaving: set[asyncio.Task[None]] = set()
        self._runner: Runner | None = None
        self._idle = ""
        """The line that was written last about what comes next."""
        self.fault: TileHarvestError | None = None
        """The error with which the worker has ended, if any."""

    async def names(
        self, runner: Runner, listening: AbstractAsyncContextManager[None] | None
    ) -> AsyncIterator[str]:
        """Yields the maps as they become due, without end. `listening` serves the viewer meanwhile."""
        self._runner = runner
        try:
            await self._maps.open()
            async with AsyncExitStack() as until_the_end:
                if listening is not None:
                    await until_the_end.enter_async_context(listening)
                while True:
                    name = await self._maps.take()
                    if name is not None:
                        self._idle = ""
                        yield name
                        continue
                    if not runner.under_way:
                        self._say_what_comes_next()
                    await self._maps.wait()
        except TileHarvestError as error:
            self.fault = error

    async def close(self) -> None:
        """Removes the lines that move, and releases the maps. Needed also after the second signal."""
        self.progress.hide()
        await self._maps.close()

    def _say_what_comes_next(self) -> None:
        line = self._maps.outlook
        if line != self._idle:
            say(line)
        self._idle = line

    def ended(self, name: str, spider: Spider | None) -> None:
        from tileharvest.spiders.tiles import TileSpider

        status = ExitStatus.ERROR
        if isinstance(spider, TileSpider):
            status = spider.crawl.exit_status
            if spider.crawl.harvest is not None:
                write_line(HarvestEnd.of(spider, self._settings, {}).in_words)
                sys.stdout.flush()
        assert self._runner is not None
        if not self._runner.under_way:
            self.progress.hide()
        leaving = asyncio.ensure_future(self._maps.done(name, status, is_stopping=self._runner.is_stopping))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
