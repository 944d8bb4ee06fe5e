"""Shows how a running harvest gets on: one line that moves on a terminal, one line now and then elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tileharvest.outcomes import Outcome

if TYPE_CHECKING:
    from rich.console import Console

    from tileharvest.harvesting import Harvesting

_REDRAW: Final = 0.2
"""Seconds between two looks on a terminal."""


async def show_progress(harvesting: Harvesting, console: Console, interval: float) -> None:
    """Show the harvest's progress until cancelled; `interval` in seconds where this is no terminal."""
    if console.is_terminal:
        await _move_a_line(harvesting, console)
    else:
        while True:
            await asyncio.sleep(interval)
            console.print(f"{harvesting.description.name}: {in_words(harvesting)}")


def in_words(harvesting: Harvesting) -> str:
    """What was found so far, such as `120 of about 300 tiles: ign 100, upd 20; 141 requests`."""
    tally = harvesting.tally
    asked = sum(tally.values()) - tally[Outcome.NOTHING]
    expected = f" of about {harvesting.expected:,}" if harvesting.expected else ""
    found = ", ".join(f"{outcome} {tally[outcome]:,}" for outcome in Outcome if tally[outcome])
    return f"{asked:,}{expected} tiles: {found or 'none yet'}; {harvesting.traffic.requests:,} requests"


async def _move_a_line(harvesting: Harvesting, console: Console) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[map]}", style="bold"),
        BarColumn(bar_width=20),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("asking the site", total=None, map=harvesting.description.name)
        while True:
            tally = harvesting.tally
            progress.update(
                task,
                description=in_words(harvesting),
                completed=sum(tally.values()) - tally[Outcome.NOTHING],
                total=harvesting.expected or None,
            )
            await asyncio.sleep(_REDRAW)
