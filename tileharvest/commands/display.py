"""Shows how a running harvest gets on: two lines that move on a terminal, one line now and then elsewhere."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.file_proxy import FileProxy
from rich.filesize import decimal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tileharvest.monitoring.figures import Activity
from tileharvest.monitoring.overview import seconds_in_words
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from tileharvest.commands.lookout import Lookout
    from tileharvest.monitoring.figures import Figures, State

_REDRAW: Final = 0.25
"""Seconds between two looks on a terminal. Drawing takes 2 ms."""

_RATE_WIDTH: Final = len("1,234.5 tiles/s")
_BYTES_WIDTH: Final = len("123.4 MB")
_LEFT_WIDTH: Final = len("119 min left")

_COLOURS: Final = {Activity.PAUSED: "bold yellow", Activity.QUIET: "yellow", Activity.DOWN: "bold red"}
"""The colours of states that a person should see at once."""


async def show_progress(
    lookout: Lookout, console: Console, interval: float, *, as_json: bool = False
) -> None:
    """Shows the harvest's progress until it is cancelled, and then cleans up at once.

    On a terminal two lines move. Elsewhere, and with `as_json`, a line is written every `interval` seconds.
    """
    if console.is_terminal and not as_json:
        await _move(lookout, console)
    else:
        await _write_lines(lookout, console, interval, as_json=as_json)


def in_words(figures: Figures) -> str:
    """Returns all figures in one line. What holds the harvest up stands before them.

    Such a line is `120 of about 300 tiles, 40 %; ign 100, upd 20; 141 requests, 2.0 MB; 12.3 tiles/s, 15 s
    left`.
    """
    parts = [
        *state_in_words(figures.state),
        _tiles_in_words(figures),
        ", ".join(_outcomes(figures)) or "none found yet",
        f"{figures.cost.requests:,} requests, {decimal(figures.cost.received_bytes)}",
        ", ".join(words for words in (_rate_in_words(figures), _left_in_words(figures)) if words),
    ]
    return "; ".join(part for part in parts if part)


def drawn(name: str, figures: Figures) -> RenderableType:
    """Two lines for a terminal of at least 60 columns: how far it is, and what was found."""
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(no_wrap=True, max_width=16)
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True)
    state = state_in_words(figures.state)
    colour = _COLOURS.get(figures.state.activity, "")
    numbers = Text("  ").join(
        [
            *(Text(words, colour) for words in state),
            Text(_done_of_expected(figures)),
            Text(decimal(figures.cost.received_bytes).rjust(_BYTES_WIDTH)),
            *(Text(words) for words in ([] if state else _aligned_speed(figures))),
        ]
    )
    grid.add_row(Text(name, "bold", overflow="ellipsis"), _bar(figures, colour), numbers)
    return Group(grid, _found(figures))


async def _write_lines(lookout: Lookout, console: Console, interval: float, *, as_json: bool) -> None:
    harvest = lookout.harvest
    while True:
        await asyncio.sleep(interval)
        identity = {"map": harvest.description.name, "day": harvest.day.isoformat()}
        figures = lookout.figures()
        line = (
            json.dumps({**identity, **figures.as_plain()}, ensure_ascii=False)
            if as_json
            else f"{identity['map']}: {in_words(figures)}"
        )
        console.file.write(f"{line}\n")
        console.file.flush()


async def _move(lookout: Lookout, console: Console) -> None:
    name = lookout.harvest.description.name
    # A thread of its own would draw again what has not changed.
    with (
        Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False) as live,
        _log_above(console),
    ):
        while True:
            live.update(drawn(name, lookout.figures()), refresh=True)
            await asyncio.sleep(_REDRAW)


@contextmanager
def _log_above(console: Console) -> Iterator[None]:
    """Lets the log's lines appear above what moves. Its handlers write to the `sys.stderr` of before."""
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
        # It is not known yet how much there is to do. A light moves, and stands while nothing is done.
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
        return f"{figures.done:,} tiles, pruned"
    expected = f"{figures.expected:,}"
    return f"{figures.done:>{len(expected)},}/{expected}" if figures.expected else f"{figures.done:,} tiles"


def _aligned_speed(figures: Figures) -> list[str]:
    """Rate and time left, in columns that seldom change their width, so that the bar keeps its own."""
    rate, left = _rate_in_words(figures), _left_in_words(figures)
    return [(rate or "").rjust(_RATE_WIDTH), (left or "").rjust(_LEFT_WIDTH)]


def _found(figures: Figures) -> Text:
    """Tells what was found. Failures stand first, as they must not be cut off."""
    words = [Text(f"fail {figures.failures:,}", "bold red")] if figures.failures else []
    words += [Text(found, "dim") for found in _outcomes(figures, besides=Outcome.FAILED)]
    words.append(Text(f"{figures.cost.requests:,} requests", "dim"))
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
        return f"{done:,} tiles"
    if figures.is_pruned:
        return f"{done:,} tiles in a pruned walk of about {expected:,}"
    if figures.is_beyond:
        return f"{done:,} tiles, where about {expected:,} were expected"
    return f"{done:,} of about {expected:,} tiles, {100 * done // expected} %"


def _rate_in_words(figures: Figures) -> str | None:
    """Returns None while the harvest does not get on: its rate is that of earlier."""
    if figures.rate is None or not figures.state.is_at_work:
        return None
    return f"{figures.rate.tiles:,.1f} tiles/s"


def _left_in_words(figures: Figures) -> str | None:
    if figures.is_beyond:
        return "over expected"
    left = figures.seconds_left
    return None if left is None else f"{seconds_in_words(left)} left"


def state_in_words(state: State) -> list[str]:
    """Says what holds the harvest up. It says nothing while the harvest runs."""
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


_WORDS: Final = {
    Activity.BEGINNING: "asking the site",
    Activity.WAITING: "waiting",
    Activity.DOWN: "the host does not answer",
    Activity.ENDING: "ending",
}
