from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tests.middlewares.making import ALL, DAY, added, harvesting, opened, remember, run_jumping
from tileharvest.outcomes import Outcome
from tileharvest.progress import in_words, show_progress
from tileharvest.terminal import console

if TYPE_CHECKING:
    from pathlib import Path

    from tileharvest.harvesting import Harvesting


@pytest.fixture
def running(tmp_path: Path) -> Harvesting:
    """A harvest that has found something."""
    harvest = harvesting(tmp_path)
    harvest.tally.update({Outcome.IGNORED: 1200, Outcome.NOTHING: 50, Outcome.UPDATED: 3})
    harvest.traffic.requests = 1256
    return harvest


def test_before_anything_is_found(tmp_path: Path) -> None:
    assert in_words(harvesting(tmp_path)) == "0 tiles: none yet; 0 requests"


def test_what_is_not_there_is_counted_among_the_outcomes_and_not_among_the_tiles(running: Harvesting) -> None:
    assert in_words(running) == "1,203 tiles: 404 50, ign 1,200, upd 3; 1,256 requests"


def test_a_map_that_is_known_says_how_much_is_to_come(tmp_path: Path) -> None:
    async def run() -> str:
        await remember(tmp_path, *map(added, ALL), day=DAY)
        async with opened(tmp_path) as harvest:
            harvest.tally[Outcome.IGNORED] = 5
            return in_words(harvest)

    assert asyncio.run(run()) == "5 of about 20 tiles: ign 5; 0 requests"


async def shown_for(seconds: float, harvest: Harvesting, file: Console, interval: float) -> None:
    showing = asyncio.ensure_future(show_progress(harvest, file, interval))
    await asyncio.sleep(seconds)
    showing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await showing


def test_on_a_pipe_there_is_a_line_per_interval(running: Harvesting) -> None:
    file = io.StringIO()
    run_jumping(shown_for(150, running, console(file), interval=60))
    line = "small: 1,203 tiles: 404 50, ign 1,200, upd 3; 1,256 requests\n"
    assert file.getvalue() == line * 2


def test_a_short_harvest_writes_no_line_on_a_pipe(running: Harvesting) -> None:
    file = io.StringIO()
    run_jumping(shown_for(59, running, console(file), interval=60))
    assert file.getvalue() == ""


def test_on_a_terminal_a_line_moves_and_is_gone_at_the_end(running: Harvesting) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=140, color_system=None, markup=False)
    run_jumping(shown_for(1, running, terminal, interval=60))
    written = file.getvalue()
    assert "small" in written
    assert "1,203 tiles: 404 50, ign 1,200, upd 3; 1,256 requests" in written
    # The cursor is shown again, and the line is erased: what follows begins at its place.
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
    assert written.endswith("\x1b[2K")


def test_on_a_narrow_terminal_it_stays_one_line(running: Harvesting) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=60, color_system=None, markup=False)
    run_jumping(shown_for(1, running, terminal, interval=60))
    # One line break, at the end: a second would leave a line behind.
    assert file.getvalue().count("\n") == 1
