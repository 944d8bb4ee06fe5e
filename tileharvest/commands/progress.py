"""The progress of harvests, imports and exports: moving lines on a terminal, else a line now and then."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from scrapy import signals

from tileharvest.errors import TileHarvestError, counted, duration_in_words, printable
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.monitoring.stats import HarvestStats, State, outcomes_in_words, state_in_words
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from types import TracebackType

    from rich.console import Console, RenderableType
    from scrapy import Spider
    from scrapy.crawler import Crawler

    from tileharvest.history.summaries import HarvestSummary
    from tileharvest.spiders.tiles import TileSpider

_REDRAW: Final = 0.25
"""Seconds between two pictures on a terminal."""

_LOOK: Final = 3.0
"""Seconds between two looks into the history."""

_SHARE: Final = 20
"""Looks into the history may take one part in twenty of the time."""

_BESIDES: Final = 4
"""The lines of a terminal that the maps leave to the log above them and to the totals below them."""

_COLOURS: Final = {State.PAUSED: "bold yellow", State.QUIET: "yellow", State.DOWN: "bold red"}
"""The colours of states that a person should see at once."""


class ProgressLine:
    """Shows how many parts of some work are done, and how long the rest will take.

    The work calls `expects` once it knows how many parts it has, and `passed` after each.
    """

    def __init__(self, name: str, console: Console, interval: float, *, is_shown: bool = True) -> None:
        """`interval` is the seconds between two lines where no line can move."""
        self._name = name
        self._console = console
        self._interval = interval
        self._is_shown = is_shown
        self._begun = self._written = time.monotonic()
        self._done = self._expected = 0
        self.note = ""
        """A text beside the numbers, such as the day that was done last."""
        self._moving: Progress | None = None
        if console.is_terminal and is_shown:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
            )
            self._moving = Progress(*columns, console=console, transient=True)
            self._task = self._moving.add_task(name, total=None, note="")

    def __enter__(self) -> Self:
        if self._moving is not None:
            self._moving.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._moving is not None:
            self._moving.stop()

    def expects(self, parts: int) -> None:
        """Notes how many parts the work has."""
        self._expected = parts
        if self._moving is not None:
            self._moving.update(self._task, total=parts)

    def passed(self, parts: int = 1) -> None:
        """Notes that more parts are done."""
        self._done += parts
        if self._moving is not None:
            self._moving.update(self._task, completed=self._done, note=self.note)
        elif self._is_shown and time.monotonic() - self._written >= self._interval:
            self._written = time.monotonic()
            self.write(self.in_words())

    def in_words(self) -> str:
        """Returns the progress for people, such as `world: 30 of 100, 2 min left`."""
        words = f"{self._name}: {self._done:,} of {self._expected:,}"
        if self._done:
            left = (time.monotonic() - self._begun) / self._done * (self._expected - self._done)
            words += f", {duration_in_words(left)} left"
        return words

    def write(self, line: str) -> None:
        """Writes a line above the one that moves."""
        line = printable(line)
        self._console.file.write(f"{line}\n") if self._moving is None else self._console.print(line)
        self._console.file.flush()


class RunningHarvest:
    """Gives the stats of a harvest that runs in this process, at any time.

    A process that works alone on a harvest, and has begun it, counts its own work. If other processes have a
    part in the harvest, or an earlier run began it, `keep_watch` asks the history every few seconds.
    """

    def __init__(self, spider: TileSpider, *, is_dry: bool) -> None:
        """`is_dry` says that the harvest keeps nothing, so that neither history nor other processes know of
        it."""
        from tileharvest.history.costs import NO_COST
        from tileharvest.queue.settings import is_shared

        self.harvest = spider.harvest
        self._crawl = spider.crawl
        self._settings = spider.crawler.settings
        self._is_dry = is_dry
        self._is_shared = not is_dry and is_shared(self._settings)
        self._workers = 1
        self._earlier = NO_COST
        """The harvest's cost before this process had a part in it."""
        self._recorded: HarvestSummary | None = None
        """The harvest as the history had it at the last look. None if the history does not have it."""

    async def keep_watch(self) -> None:
        """Asks the history for what this process cannot know, until it is cancelled. Must begin before the
        harvest does."""
        took = await self._look()
        if self._recorded is not None:
            self._earlier = self._recorded.cost
        while self._is_shared or self._recorded is not None:
            await asyncio.sleep(max(_LOOK, _SHARE * took))
            took = await self._look()

    def stats(self) -> HarvestStats:
        """Returns the stats of this moment. Costs next to nothing, and never blocks."""
        recorded, harvest = self._recorded, self.harvest
        is_pruned = harvest.is_pruned
        if is_pruned is None:
            # This run has not decided its walk yet. An earlier run of the same harvest may have.
            is_pruned = recorded is not None and recorded.walk == "pruned"
        state, detail = self._state()
        by_all = recorded is not None and self._is_shared
        return HarvestStats(
            harvest.expected or (recorded.expected if recorded else 0),
            recorded.counts if recorded else dict(harvest.tally),
            recorded.cost if recorded and by_all else self._earlier + harvest.cost_meter.total,
            state,
            detail,
            is_pruned=is_pruned,
            workers=self._workers,
        )

    def _state(self) -> tuple[State, str]:
        """Returns what the harvest does, and the detail in words."""
        crawl, now = self._crawl, datetime.now(self.harvest.description.zone_info)
        held = None if crawl.throttle is None else crawl.throttle.held
        reasons = () if held is None else (held.reason,)
        wait = crawl.wait()
        state = State.of(reasons, has_begun=self.harvest.is_open, waits=wait is not None)
        if state is State.QUIET:
            # The rules change when maps.toml does.
            until = crawl.rules and crawl.rules.quiet_until(now)
            return state, f"until {until:%Y-%m-%d %H:%M %Z}" if until else ""
        if wait is None or state in (State.PAUSED, State.ENDING):
            return state, ""
        return state, wait.in_words(asyncio.get_running_loop().time(), now)

    async def _look(self) -> float:
        """Asks the history, which reads all tiles of the map. Returns the seconds that it took."""
        from tileharvest.queue.settings import workers_of_all

        began = asyncio.get_running_loop().time()
        name = self.harvest.description.name
        # The pipeline reports a history that fails, and the scheduler a queue.
        with suppress(TileHarvestError):
            progress = None if self._is_dry else await self.harvest.progress()
            if progress is not None and progress.segment == self.harvest.segment.name:
                self._recorded = progress
            if self._is_shared:
                self._workers = max(1, len((await workers_of_all(self._settings, [name]))[name]))
        return asyncio.get_running_loop().time() - began


class _MovingLines(Progress):
    """A line for each harvest, and a text below them."""

    below = Text()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield self.below


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
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._showing: asyncio.Task[None] | None = None
        self._lines: _MovingLines | None = None
        self._over = 0
        """The number of harvests that are over, however they ended."""
        self._ended: list[HarvestStats] = []
        """The sum of these harvests, if any."""

    def watch(self, name: str, crawler: Crawler, *, is_dry: bool = False) -> None:
        """Adds the harvest of a crawler as soon as its spider opens. Call it before the crawler starts."""
        from tileharvest.spiders.tiles import TileSpider

        def opened(spider: Spider) -> None:
            if isinstance(spider, TileSpider) and spider.crawl.harvest is not None:
                running = RunningHarvest(spider, is_dry=is_dry)
                self._watching[name] = asyncio.ensure_future(running.keep_watch())
                self.add(name, running)

        crawler.signals.connect(opened, signals.spider_opened, weak=False)

    def add(self, name: str, running: RunningHarvest) -> None:
        """Adds a harvest that begins."""
        self._running[name] = running

    def remove(self, name: str) -> None:
        """Counts the map's harvest as over. It need not have been added."""
        watching = self._watching.pop(name, None)
        if watching is not None:
            watching.cancel()
        running = self._running.pop(name, None)
        self._over += 1
        if running is not None:
            self._ended = [merged([*self._ended, running.stats()])]

    def held_up(self) -> list[str]:
        """Returns the harvests that wait for their site, for a person or for an hour."""
        return [name for name, one in self._stats().items() if one.is_held_up]

    def begin(self) -> None:
        """Shows the harvests from now on, until `hide`. Does nothing if they are shown already.

        Must be called before the log of the first harvest is set up, because the log then writes above the
        lines that move.
        """
        if self._showing is not None or not self._is_shown:
            return
        if self._console.is_terminal:
            self._lines = _MovingLines(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=None),
                TextColumn("[{task.fields[colour]}]{task.fields[numbers]}"),
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
                expand=True,
            )
            self._lines.start()
        self._showing = asyncio.ensure_future(self._show())

    def hide(self) -> None:
        """Stops showing the harvests, and removes the lines that move at once.

        The caller may write before the event loop runs again. After a signal the loop never runs again.
        """
        if self._lines is not None:
            self._lines.stop()
            self._lines = None
        if self._showing is not None:
            self._showing.cancel()
            self._showing = None

    async def _show(self) -> None:
        while True:
            if self._lines is not None:
                self._move(self._lines)
                await asyncio.sleep(_REDRAW)
            else:
                await asyncio.sleep(self._interval)
                self._write_lines()

    def _stats(self) -> dict[str, HarvestStats]:
        return {name: running.stats() for name, running in self._running.items()}

    def _write_lines(self) -> None:
        stats = self._stats()
        if self._maps == 1:
            lines = [f"{name}: {one.in_words}" for name, one in stats.items()]
        else:
            lines = [self._totals(stats.values())]
        self._console.file.writelines(f"{line}\n" for line in lines)
        self._console.file.flush()

    def _totals(self, running: Collection[HarvestStats]) -> str:
        """Returns the sum of all harvests in one line."""
        done = f"{self._over:,} of {counted(self._maps, 'map')}" if self._maps else counted(self._over, "map")
        waiting = sum(one.is_held_up for one in running)
        held = f" of which {waiting:,} wait" if waiting else ""
        total = merged([*self._ended, *running])
        failed = f", {total.failures:,} failed" if total.failures else ""
        speed = sum(one.tiles_per_second or 0.0 for one in running if one.state.is_at_work)
        return (
            f"{done} done, {len(running):,} under way{held}; {counted(total.done, 'tile')}{failed};"
            f" {counted(total.cost.requests, 'request')}, {bytes_in_words(total.cost.received_bytes)};"
            f" {speed:,.1f} tiles/s"
        )

    def _move(self, lines: _MovingLines) -> None:
        stats = self._stats()
        tasks = {task.description: task.id for task in lines.tasks}
        for name in tasks.keys() - stats.keys():
            lines.remove_task(tasks[name])
        for place, (name, one) in enumerate(stats.items()):
            if name not in tasks:
                tasks[name] = lines.add_task(name, total=None, numbers="", colour="none")
            lines.update(
                tasks[name],
                total=None if one.is_pruned else one.expected or None,
                completed=one.done,
                numbers=numbers_of(one),
                colour=_COLOURS.get(one.state, "none"),
                visible=place < self._console.height - _BESIDES,
            )
        if self._maps != 1:
            lines.below = _one_line(self._totals(stats.values()))
        else:
            lines.below = Text("\n").join(found_by(one) for one in stats.values())
        lines.refresh()


def merged(several: Iterable[HarvestStats]) -> HarvestStats:
    """Returns the sum of the counts and costs of several harvests."""
    from tileharvest.history.costs import NO_COST

    counts, cost = Counter[Outcome](), NO_COST
    for one in several:
        counts.update(one.counts)
        cost += one.cost
    return HarvestStats(0, counts, cost)


def numbers_of(stats: HarvestStats) -> str:
    """Returns the numbers beside the bar of a harvest."""
    done = (
        f"{stats.done:,}/{stats.expected:,}" if stats.expected and not stats.is_pruned else f"{stats.done:,}"
    )
    pruned = ", pruned" if stats.is_pruned else ""
    speed = stats.speed_in_words or state_in_words(stats.state)
    return f"{done} tiles{pruned}  {bytes_in_words(stats.cost.received_bytes)}  {speed}"


def found_by(stats: HarvestStats) -> Text:
    """Returns the line of the outcomes. Failures and waits stand first, because the end may be cut off."""
    words = [Text(f"{stats.failures:,} failed", "bold red")] if stats.failures else []
    words += [Text(stats.detail, "yellow")] if stats.detail else []
    words.append(Text(outcomes_in_words(stats.counts), "dim"))
    words.append(Text(counted(stats.cost.requests, "request"), "dim"))
    return _one_line("  ").join([Text(""), *words])


def _one_line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")
