"""Several maps on a terminal: a line for each that is under way, those that are done above, and Ctrl-C."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, address, publish
from tests.end_to_end.forking import ROOT
from tests.fleet.gate import Gate
from tests.servers.misbehaving import misbehaving
from tests.servers.tmux import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.servers.tmux import Terminal

FREE: Final = [f"free-{number}" for number in range(3)]
"""Maps that are done at once."""
HELD: Final = ["held", "waiting"]
"""Maps that wait for the answer to one tile, and cannot end without it."""
COLUMNS: Final = 80
STOPPING: Final = (
    "stopping: what is on the way finishes, and nothing is lost; press Ctrl-C again\nto quit at once"
)


@dataclass(frozen=True)
class Shown:
    """A harvest of all these maps on a terminal, when nothing moves any more."""

    terminal: Terminal
    gates: list[Gate]
    screen: list[str]


@pytest.fixture
def shown(project: Project, tmp_path: Path) -> Iterator[Shown]:
    gates = []
    with ExitStack() as opened:
        for name in HELD:
            site = opened.enter_context(misbehaving(publish(tmp_path / name).folder))
            gates.append(Gate(keeps_all=True))
            site.rules[address("3")] = gates[-1]
            project.add_map(name, f"{site.url}/")
        free = opened.enter_context(misbehaving(publish(tmp_path / "free").folder))
        for name in FREE:
            project.add_map(name, f"{free.url}/")
        harvest = [sys.executable, "-m", "scrapy", "harvest", "--all", "-a", f"day={FIRST_DAY}"]
        # When the program has ended tmux says so in the last line, and the first one may scroll away.
        command = ["sh", "-c", 'echo; exec "$@"', "sh", *harvest]
        environment = project.environment
        screen = opened.enter_context(
            terminal(tmp_path, command, environment=environment, workplace=ROOT, columns=COLUMNS)
        )
        lines = screen.await_screen(
            lambda lines: "3 of 5 maps done" in "".join(lines[-1:]) and all(gate.is_reached for gate in gates)
        )
        yield Shown(screen, gates, written(lines))


def written(screen: list[str]) -> list[str]:
    """What the program has written."""
    return [line for line in screen if line and not line.startswith("Pane is dead")]


def names(lines: list[str]) -> list[str]:
    """The first words of the lines, without the comma behind a map that is done."""
    return [line.split()[0].rstrip(",") for line in lines]


def test_maps_under_way_have_a_line_each_and_those_that_are_done_stand_above(shown: Shown) -> None:
    assert sorted(names(shown.screen[:3])) == FREE
    assert all(": done; 20 new; " in line for line in shown.screen[:3])
    assert sorted(names(shown.screen[3:5])) == HELD
    # And that is all.
    assert len(shown.screen) == 6
    assert all(len(line) <= COLUMNS for line in shown.screen)
    for gate in shown.gates:
        gate.open()
    last = written(shown.terminal.last_screen())
    assert sorted(names(last[:5])) == sorted(FREE + HELD)
    assert len(last) == 5


def test_the_first_ctrl_c_ends_all_cleanly(shown: Shown) -> None:
    shown.terminal.press("C-c")
    stopping = written(
        shown.terminal.await_screen(
            lambda lines: "\n".join(written(lines)[3:5]) == STOPPING and "3 of 5 maps done" in lines[-1]
        )
    )
    # What moves stands below, and no line of before is left above.
    assert sorted(names(stopping[5:7])) == HELD
    assert len(stopping) == 8
    for gate in shown.gates:
        gate.open()
    last = written(shown.terminal.last_screen())
    assert sorted(names(last[5:7])) == HELD
    assert all(": stopped; " in line for line in last[5:7])
    assert last[7] == "2 maps were stopped; run again in the same segment to continue"
    assert last[8].startswith("exit status 1, an error, or stopped: ")
