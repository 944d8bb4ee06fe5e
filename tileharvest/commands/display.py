"""The display of running harvests: lines that move on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.constrain import Constrain
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from scrapy import signals

from tileharvest.commands.lookout import Lookout
from tileharvest.errors import counted
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.monitoring.figures import Activity, Whole
from tileharvest.monitoring.overview import seconds_in_words
from tileharvest.politeness.waits import waiting_for
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType
    from scrapy import Spider
    from scrapy.crawler import Crawler

    from tileharvest.monitoring.figures import Figures, State

_REDRAW: Final = 0.25
"""Seconds between two pictures on a terminal. Drawing takes 2 ms."""

_RATE_WIDTH: Final = len("1,234.5 tiles/s")
_BYTES_WIDTH: Final = len("123.4 MB")
_LEFT_WIDTH: Final = len("119 min left")

_SHORT_RATE_WIDTH: Final = len("1,234.5/s")
_SPEED_WIDTH: Final = _SHORT_RATE_WIDTH + 2 + _LEFT_WIDTH
_DONE_WIDTH: Final = len("12,345/12,345")

_NAME_WIDTH: Final = 16
"""The columns up to which a map's name is never cut. A wide terminal gives names a quarter of its columns."""

_BESIDES: Final = 4
"""The lines of a terminal that the maps leave to the log above them and to the whole below them."""

_COLOURS: Final = {Activity.PAUSED: "bold yellow", Activity.QUIET: "yellow", Activity.DOWN: "bold red"}
"""The colours of states that a person should see at once."""


class Display:
    """Shows the harvests under way in this process, and all of its harvests together.

    On a terminal lines move: two lines for a map that is harvested alone, otherwise one line for each map and
    one for the whole. Elsewhere a line is written now and then. With `as_json` that is a line for each map.
    """

    def __init__(self, console: Console, interval: float, *, maps: int | None, as_json: bool = False) -> None:
        """`interval` is the seconds between two lines that do not move. `maps` is the number of maps that
        will be harvested, or None if there is no end of them."""
        self._console = console
        self._interval = interval
        self._maps = maps
        self._as_json = as_json
        self._lookouts: dict[str, Lookout] = {}
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._showing: asyncio.Task[None] | None = None
        self._ended = Whole()
        """The sum of the harvests that are over."""
        self._shown: list[str] = []
        """The maps that have a line on the terminal, in the order of their lines."""
        self._on_terminal = ExitStack()
        """Undoes the changes to terminal and log when the lines stop moving."""

    def watch(self, name: str, crawler: Crawler, *, is_dry: bool = False) -> None:
        """Adds the harvest of a crawler as soon as its spider opens. Call it before the crawler starts.

        `is_dry` is the argument of Lookout.
        """
        from tileharvest.spiders.tiles import TileSpider

        def opened(spider: Spider) -> None:
            if isinstance(spider, TileSpider) and spider.crawl.harvest is not None:
                lookout = Lookout(spider, is_dry=is_dry)
                self._watching[name] = asyncio.ensure_future(lookout.keep_watch())
                self.add(lookout)

        crawler.signals.connect(opened, signals.spider_opened, weak=False)

    def add(self, lookout: Lookout) -> None:
        """Adds a harvest that begins."""
        self._lookouts[lookout.harvest.description.name] = lookout

    def remove(self, name: str) -> None:
        """Counts the map's harvest as over. It need not have been added."""
        watching = self._watching.pop(name, None)
        if watching is not None:
            watching.cancel()
        lookout = self._lookouts.pop(name, None)
        self._ended = self._ended.with_ended(None if lookout is None else lookout.figures())

    def begin(self) -> None:
        """Shows the harvests from now on, until `hide`. Does nothing if they are shown already."""
        if self._showing is None:
            self._showing = asyncio.ensure_future(self.show())

    async def show(self) -> None:
        """Shows the harvests until it is cancelled."""
        try:
            if self._console.is_terminal and not self._as_json:
                await self._move()
            else:
                await self._write_lines()
        finally:
            self._on_terminal.close()

    def hide(self) -> None:
        """Stops showing the harvests, and removes the lines that move at once.

        The caller may write before the event loop runs again. After a signal the loop never runs again.
        """
        self._on_terminal.close()
        if self._showing is not None:
            self._showing.cancel()
            self._showing = None

    async def _write_lines(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            figures = self._figures()
            lines = [self._as_plain(name, one) for name, one in figures.items()] if self._as_json else []
            if not self._as_json and self._maps == 1:
                lines = [f"{name}: {in_words(one)}" for name, one in figures.items()]
            elif not self._as_json:
                lines = [self._ended.with_running(figures.values()).in_words(self._maps)]
            self._console.file.writelines(f"{line}\n" for line in lines)
            self._console.file.flush()

    def _figures(self) -> dict[str, Figures]:
        return {name: lookout.figures() for name, lookout in self._lookouts.items()}

    def _as_plain(self, name: str, figures: Figures) -> str:
        day = self._lookouts[name].harvest.day.isoformat()
        return json.dumps({"map": name, "day": day, **figures.as_plain()}, ensure_ascii=False)

    async def _move(self) -> None:
        # Rich's own thread would draw again what has not changed. Lines on stdout would tear the moving lines
        # apart if both go to the same terminal.
        live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            vertical_overflow="crop",
        )
        self._on_terminal.enter_context(live)
        self._on_terminal.enter_context(_log_above(self._console))
        while live.is_started:
            live.update(self._drawn(), refresh=True)
            await asyncio.sleep(_REDRAW)

    def _drawn(self) -> RenderableType:
        figures = self._figures()
        if self._maps == 1:
            return Group(*(drawn(name, one) for name, one in figures.items()))
        self._shown = chosen(self._shown, figures, self._console.height - _BESIDES)
        return drawn_together(
            {name: figures[name] for name in self._shown},
            self._ended.with_running(figures.values()),
            self._maps,
            self._console.width,
        )


def in_words(figures: Figures) -> str:
    """Returns all figures in one line. The reason of a wait stands first.

    An example is `120 of about 300 tiles, 40 %; ign 100, upd 20; 141 requests, 2.0 MB; 12.3 tiles/s, 15 s
    left`.
    """
    parts = [
        *state_in_words(figures.state),
        _tiles_in_words(figures),
        ", ".join(_outcomes(figures)) or "none found yet",
        f"{counted(figures.cost.requests, 'request')}, {bytes_in_words(figures.cost.received_bytes)}",
        ", ".join(filter(None, (_rate_in_words(figures), _left_in_words(figures)))),
    ]
    return "; ".join(part for part in parts if part)


def chosen(before: Sequence[str], figures: Mapping[str, Figures], lines: int) -> list[str]:
    """Returns the maps that get one of so many lines, at least one map.

    A map that had a line keeps it while it is at work, so that lines do not jump. The busiest maps get the
    other lines.
    """
    if len(figures) <= lines:
        kept = [name for name in before if name in figures]
        return kept + [name for name in figures if name not in kept]
    kept = [name for name in before if name in figures and figures[name].state.is_at_work]
    others = [name for name in figures if name not in kept]
    others.sort(key=lambda name: -figures[name].tiles_per_second)
    return (kept + others)[: max(1, lines)]


def drawn_together(
    shown: Mapping[str, Figures], whole: Whole, maps: int | None, width: int
) -> RenderableType:
    """Returns a line for each of these maps, the number of maps that are not shown, and a line of the whole.

    `maps` is the number of all maps, or None if there is no end of them. `width` is the terminal's. Names
    take up to a quarter of it.
    """
    grid = _grid(max(_NAME_WIDTH, width // 4))
    for name, figures in shown.items():
        colour = _COLOURS.get(figures.state.activity, "")
        state = _state_in_short(figures.state)
        speed = [state.rjust(_SPEED_WIDTH)] if state else _short_speed(figures)
        numbers = Text("  ").join([Text(_done_of_expected(figures).rjust(_DONE_WIDTH)), *map(Text, speed)])
        numbers.stylize(colour)
        grid.add_row(Text(name, overflow="ellipsis"), _bar(figures, colour), numbers)
    hidden = whole.under_way - len(shown)
    below = [Text(f"and {hidden:,} more under way", "dim")] if hidden else []
    bar = ProgressBar(total=maps or 1, completed=whole.done if maps else 0)
    done = Text(whole.maps_in_words(maps), "bold")
    total = Table.grid(padding=(0, 2, 0, 0), expand=True)
    total.add_column(no_wrap=True, min_width=len(done))
    total.add_column(ratio=1)
    total.add_column(no_wrap=True)
    total.add_row(done, bar, Text(whole.work_in_words))
    # The cursor stands at the end of the last line, where the terminal echoes ^C. If the echo began another
    # line, one line too few would be removed. So the last line leaves room for it.
    return Group(grid, *below, Constrain(total, width - len("^C") - 1))


def _grid(name_width: int) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(no_wrap=True, max_width=name_width)
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True)
    return grid


def drawn(name: str, figures: Figures) -> RenderableType:
    """Returns two lines for a terminal of at least 60 columns: the progress, and the outcomes."""
    grid = _grid(_NAME_WIDTH)
    # The reason of a wait may be long. It stands in the second line.
    state = _activity_in_words(figures.state)
    colour = _COLOURS.get(figures.state.activity, "")
    numbers = Text("  ").join(
        [
            *(Text(words, colour) for words in state),
            Text(_done_of_expected(figures)),
            Text(bytes_in_words(figures.cost.received_bytes).rjust(_BYTES_WIDTH)),
            *(Text(words) for words in ([] if state else _aligned_speed(figures))),
        ]
    )
    grid.add_row(Text(name, "bold", overflow="ellipsis"), _bar(figures, colour), numbers)
    return Group(grid, _found(figures))


@contextmanager
def _log_above(console: Console) -> Iterator[None]:
    """Writes the log's lines above the moving lines. The log's handlers still have the former
    `sys.stderr`."""
    handlers = [
        handler
        for handler in logging.root.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is console.file
    ]
    streams = [handler.setStream(FileProxy(console, console.file)) for handler in handlers]
    try:
        yield
    finally:
        for handler, stream in zip(handlers, streams, strict=True):
            handler.setStream(stream)


def _bar(figures: Figures, colour: str) -> ProgressBar:
    if not figures.expected or figures.is_pruned:
        # Nobody knows yet how much there is to do. A light moves along the bar while the harvest works.
        return ProgressBar(
            total=None,
            pulse_style=colour or "bar.pulse",
            animation_time=None if figures.state.is_at_work else 0.0,
        )
    return ProgressBar(
        total=figures.expected,
        completed=min(figures.done, figures.expected),
        complete_style=colour or "cyan",
        finished_style=colour or "green",
    )


def _done_of_expected(figures: Figures) -> str:
    if figures.is_pruned:
        return f"{counted(figures.done, 'tile')}, pruned"
    if not figures.expected:
        return counted(figures.done, "tile")
    expected = f"{figures.expected:,}"
    return f"{figures.done:>{len(expected)},}/{expected}"


def _aligned_speed(figures: Figures) -> list[str]:
    """Returns rate and time left, padded to the usual width so that the bar keeps its own."""
    return [_rate_in_words(figures).rjust(_RATE_WIDTH), _left_in_words(figures).rjust(_LEFT_WIDTH)]


def _short_speed(figures: Figures) -> list[str]:
    rate = f"{figures.rate.tiles:,.1f}/s" if figures.rate is not None else ""
    return [rate.rjust(_SHORT_RATE_WIDTH), _left_in_words(figures).rjust(_LEFT_WIDTH)]


def _found(figures: Figures) -> Text:
    """Returns the line of the outcomes. Failures stand first, because the end of the line may be cut off."""
    words = [Text(f"fail {figures.failures:,}", "bold red")] if figures.failures else []
    words += [Text(wait, "yellow") for wait in _wait_in_words(figures.state)]
    words += [Text(found, "dim") for found in _outcomes(figures, besides=Outcome.FAILED)]
    words.append(Text(counted(figures.cost.requests, "request"), "dim"))
    return Text("  ", no_wrap=True, overflow="ellipsis").join([Text(""), *words])


def _outcomes(figures: Figures, *, besides: Outcome | None = None) -> list[str]:
    counts = figures.counts
    return [
        f"{outcome} {counts[outcome]:,}"
        for outcome in Outcome
        if counts.get(outcome) and outcome is not besides
    ]


def _tiles_in_words(figures: Figures) -> str:
    done, expected = figures.done, figures.expected
    if not expected:
        return counted(done, "tile")
    if figures.is_pruned:
        return f"{counted(done, 'tile')} in a pruned walk of about {expected:,}"
    if figures.is_beyond:
        return f"{counted(done, 'tile')}, where about {expected:,} were expected"
    return f"{done:,} of about {expected:,} tiles, {100 * done // expected} %"


def _rate_in_words(figures: Figures) -> str:
    """Returns the rate, or an empty text while the harvest does not work."""
    if figures.rate is None or not figures.state.is_at_work:
        return ""
    return f"{figures.rate.tiles:,.1f} tiles/s"


def _left_in_words(figures: Figures) -> str:
    """Returns the time left, or an empty text if nobody knows it."""
    if figures.is_beyond:
        return "over expected"
    left = figures.seconds_left
    return "" if left is None else f"{seconds_in_words(left)} left"


def state_in_words(state: State) -> list[str]:
    """Returns what holds the harvest up, in words. The list is empty while the harvest runs."""
    words, wait = _activity_in_words(state), _wait_in_words(state)
    return wait if wait and state.activity is Activity.WAITING else [*words, *wait]


def _activity_in_words(state: State) -> list[str]:
    match state.activity:
        case Activity.RUNNING:
            return []
        case Activity.PAUSED:
            return [f"paused since {state.paused_since}" if state.paused_since else "paused"]
        case Activity.QUIET:
            return [f"quiet hours until {state.quiet_until}" if state.quiet_until else "quiet hours"]
        case Activity.INTERRUPTED:
            return [f"nobody works on it ({state.stopped})" if state.stopped else "nobody works on it"]
        case activity:
            return [_WORDS[activity]]


def _wait_in_words(state: State) -> list[str]:
    """Returns what the harvest waits for, and until when, unless it is paused, quiet or out of budget."""
    return [waiting_for(*state.wait)] if state.wait else []


def _state_in_short(state: State) -> str | None:
    """Returns the end of the wait if that fits into a map's line, or else a short word for the state."""
    _, until = state.wait or ("", None)
    words = f"until {until}"
    return words if until and len(words) <= _SPEED_WIDTH else _SHORT.get(state.activity)


_WORDS: Final = {
    Activity.BEGINNING: "asking the site",
    Activity.WAITING: "waiting",
    Activity.DOWN: "the host does not answer",
    Activity.ENDING: "ending",
}


_SHORT: Final = {
    **_WORDS,
    Activity.PAUSED: "paused",
    Activity.QUIET: "quiet hours",
    Activity.DOWN: "no answer",
}
"""The words for the line of one map among several."""
