"""The progress of harvests, imports and exports, as lines that move on a terminal."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from datetime import datetime
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from scrapy import Spider, signals
from scrapy.crawler import Crawler

from tileharvest.commands.terminal import console
from tileharvest.errors import TileHarvestError, counted, printable
from tileharvest.history.summaries import HarvestSummary
from tileharvest.monitoring.stats import HarvestStats, State
from tileharvest.queue.settings import is_shared, workers_of_all
from tileharvest.spiders.tiles import TileSpider

_REDRAW: Final = 0.25
"""Seconds between two pictures on a terminal."""
_LOOK: Final = 3.0
"""Seconds between two looks into the history."""
_SHARE: Final = 20
"""Looks into the history may take one part in twenty of the time."""
_BESIDES: Final = 4
"""The lines of a terminal that the maps leave to the log above them and to the totals below them."""
_COLUMNS: Final = (
    TextColumn("{task.description}", markup=False),
    BarColumn(bar_width=None),
    TextColumn("{task.fields[numbers]}", markup=False),
)
"""The columns of lines that move."""


class ProgressLine:
    """Shows on a terminal how many parts of some work are done, and how long the rest will take.

    The work calls `expects` once it knows how many parts it has, and `passed` after each.
    """

    def __init__(self, name: str, *, is_shown: bool) -> None:
        self._console = console(sys.stderr)
        self._bar = Progress(
            *_COLUMNS,
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not (is_shown and self._console.is_terminal),
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            expand=True,
        )
        self._task = self._bar.add_task(name, total=None, numbers="")
        self.note = ""
        """A text beside the numbers, such as the day that was done last."""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def expects(self, parts: int) -> None:
        """Notes how many parts the work has."""
        self._bar.update(self._task, total=parts)

    def passed(self, parts: int = 1) -> None:
        """Notes that more parts are done."""
        self._bar.update(self._task, advance=parts, numbers=self.note)

    def write(self, line: str) -> None:
        """Writes a line above the one that moves."""
        self._console.print(printable(line), soft_wrap=True)


class RunningHarvest:
    """Gives the stats of a harvest that runs in this process, at any time.

    A process that works alone on a harvest, and has begun it, counts its own work. If other processes have a
    part in the harvest, or an earlier run began it, the history is asked every few seconds.
    """

    def __init__(self, spider: TileSpider) -> None:
        """Must be made before the harvest begins."""
        self.harvest = spider.harvest
        self._crawl = spider.crawl
        self._settings = spider.crawler.settings
        # A dry harvest keeps nothing, so neither history nor other processes know of it.
        is_dry = spider.harvest.holdings.dry_map is not None
        self._is_shared = not is_dry and is_shared(self._settings)
        self._workers = 1
        self._recorded: HarvestSummary | None = None
        """The harvest as the history had it at the last look. None if the history does not have it."""
        self.watch = None if is_dry else asyncio.ensure_future(self._keep_watch())

    async def _keep_watch(self) -> None:
        """Asks the history for what this process cannot know, until it is cancelled."""
        while True:
            began = time.monotonic()
            # The pipeline reports a history that fails, and the scheduler a queue.
            with suppress(TileHarvestError):
                await self._look()
            if self._recorded is None and not self._is_shared:
                return
            await asyncio.sleep(max(_LOOK, _SHARE * (time.monotonic() - began)))

    def stats(self) -> HarvestStats:
        """Returns the stats of this moment. Costs next to nothing, and never blocks."""
        state, detail = self._state()
        if self._recorded is not None:
            return HarvestStats.of(self._recorded, state, detail, self._workers)
        harvest, cost = self.harvest, self.harvest.cost_meter.total
        return HarvestStats(harvest.expected, dict(harvest.tally), cost, state, detail, harvest.is_pruned)

    def _state(self) -> tuple[State, str]:
        """Returns what the harvest does, and the detail in words."""
        crawl, now = self._crawl, datetime.now(self.harvest.description.zone_info)
        held = None if crawl.throttle is None else crawl.throttle.held
        wait = crawl.wait()
        reason = None if held is None else held.reason
        state = State.of(reason, has_begun=self.harvest.is_open, waits=wait is not None)
        if state is State.QUIET and held is not None and held.until is not None:
            return state, f"until {datetime.fromtimestamp(held.until, now.tzinfo):%Y-%m-%d %H:%M %Z}"
        if wait is None or state in (State.PAUSED, State.ENDING):
            return state, ""
        return state, wait.in_words(now)

    async def _look(self) -> None:
        """Asks the history, which reads all blocks of the map. Raises TileHarvestError."""
        progress = await self.harvest.progress()
        if progress is not None and progress.segment == self.harvest.segment.name:
            self._recorded = progress
        if self._is_shared:
            name = self.harvest.description.name
            self._workers = max(1, len((await workers_of_all(self._settings, [name]))[name]))


class HarvestProgress:
    """Shows the harvests under way in this process, and all of its harvests together.

    On a terminal lines move: one for each map, and one with the outcomes of a map that is harvested alone, or
    with the totals of several. Elsewhere a line is written now and then.
    """

    def __init__(self, console: Console, interval: float, *, maps: int | None, is_shown: bool = True) -> None:
        """`interval` is the seconds between two lines that do not move. `maps` is the number of maps that
        will be harvested, or None if there is no end of them."""
        self._console = console
        self._interval = interval
        self._maps = maps
        self._is_shown = is_shown
        self._running: dict[str, RunningHarvest] = {}
        self._showing: asyncio.Task[None] | None = None
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty()
        )
        self._over = 0
        """The number of harvests that are over, however they ended."""

    def watch(self, name: str, crawler: Crawler) -> None:
        """Adds the harvest of a crawler as soon as its spider opens. Call it before the crawler starts."""

        def opened(spider: Spider) -> None:
            if isinstance(spider, TileSpider) and spider.crawl.harvest is not None:
                self._running[name] = RunningHarvest(spider)

        crawler.signals.connect(opened, signals.spider_opened, weak=False)

    def remove(self, name: str) -> None:
        """Counts the map's harvest as over. It need not have been added."""
        self._over += 1
        running = self._running.pop(name, None)
        if running is not None and running.watch is not None:
            running.watch.cancel()

    def held_up(self) -> list[str]:
        """Returns the harvests that wait for their site, for a person or for an hour."""
        return [name for name, one in self._stats().items() if one.is_held_up]

    def begin(self) -> None:
        """Shows the harvests from now on, until `hide`. Does nothing if they are shown already.

        Must be called before the log of the first harvest is set up, because the log then writes above the
        lines that move.
        """
        if self._showing is None and self._is_shown:
            if self._console.is_terminal:
                self._live.start()
            self._showing = asyncio.ensure_future(self._show())

    def hide(self) -> None:
        """Stops showing the harvests, and removes the lines that move at once.

        The caller may write before the event loop runs again. After a signal the loop never runs again.
        """
        if self._showing is not None:
            self._live.stop()
            self._showing.cancel()
            self._showing = None

    async def _show(self) -> None:
        while self._console.is_terminal:
            self._live.update(self._picture(), refresh=True)
            await asyncio.sleep(_REDRAW)
        while True:
            await asyncio.sleep(self._interval)
            lines = [f"{name}: {one.in_words}" for name, one in self._stats().items()]
            for line in lines if self._maps == 1 else [self._totals()]:
                self._console.print(line, soft_wrap=True)

    def _stats(self) -> dict[str, HarvestStats]:
        return {name: running.stats() for name, running in self._running.items()}

    def _totals(self) -> str:
        """Returns how far all harvests together are, in one line."""
        running = self._stats().values()
        done = f"{self._over:,} of {counted(self._maps, 'map')}" if self._maps else counted(self._over, "map")
        waiting = sum(one.is_held_up for one in running)
        held = f" of which {waiting:,} wait" if waiting else ""
        speed = sum(one.tiles_per_second or 0.0 for one in running if one.state.is_at_work)
        return f"{done} done, {len(running):,} under way{held}; {speed:,.1f} tiles/s"

    def _picture(self) -> Group:
        """Returns a line with a bar for each map that has room, and a text below them."""
        bars, stats = Progress(*_COLUMNS, expand=True), self._stats()
        for name, one in list(stats.items())[: max(0, self._console.height - _BESIDES)]:
            total = None if one.is_pruned else one.expected or None
            bars.add_task(name, total=total, completed=one.done, numbers=one.in_short)
        below = "\n".join(one.below_bar for one in stats.values()) if self._maps == 1 else self._totals()
        return Group(bars.get_renderable(), Text(below, no_wrap=True, overflow="ellipsis"))
