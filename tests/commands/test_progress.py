"""What is shown of running harvests: lines that move on a terminal, and lines for everything else."""

import asyncio
import io
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest
from rich.console import Console

from tests.middlewares.making import run_jumping
from tileharvest.commands.progress import HarvestProgress
from tileharvest.commands.terminal import console
from tileharvest.history.costs import Cost
from tileharvest.monitoring.stats import HarvestStats, State
from tileharvest.tiles.outcomes import Outcome

STATS: Final = HarvestStats(
    2_400,
    {Outcome.IGNORED: 1_190, Outcome.UPDATED: 10, Outcome.FAILED: 3},
    Cost(1_256, 4_100_000, seconds=30),
)


async def shown(seconds: float, file: Console, maps: dict[str, HarvestStats]) -> None:
    progress = HarvestProgress(file, 60, maps=len(maps))
    for name, stats in maps.items():
        source: Any = SimpleNamespace(stats=lambda stats=stats: stats)
        progress._running[name] = source
    progress.begin()
    await asyncio.sleep(seconds)
    progress.hide()


def test_on_a_pipe_there_is_a_line_per_interval() -> None:
    file = io.StringIO()
    run_jumping(shown(150, console(file), {"small": STATS}))
    assert file.getvalue() == f"small: {STATS.in_words}\n" * 2


def test_several_maps_are_one_line_off_a_terminal() -> None:
    file = io.StringIO()
    run_jumping(shown(61, console(file), {"one": STATS, "two": replace(STATS, state=State.PAUSED)}))
    assert file.getvalue() == "0 of 2 maps done, 2 under way of which 1 wait; 40.1 tiles/s\n"


@pytest.mark.parametrize("width", [60, 200])
def test_lines_that_move_fit_into_the_terminal(width: int) -> None:
    file = io.StringIO()
    screen = Console(file=file, force_terminal=True, width=width, height=12, color_system=None)
    wait = "http://map.example.net/robots.txt to answer"
    maps = {f"a-map-{one}": replace(STATS, state=State.WAITING, detail=wait) for one in range(20)}
    run_jumping(shown(0.1, screen, maps))
    # Before each picture the one before it is erased.
    pictures = re.split(r"[\r\x1b\[2K1A?5lh]{6,}", file.getvalue())
    picture = next(part for part in reversed(pictures) if "maps done" in part)
    lines = picture.splitlines()
    assert 0 < len(lines) <= 12
    assert max(map(len, lines)) <= width
