"""Several maps on a terminal: a line for each that is under way, those that are done above, and Ctrl-C."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.end_to_end.bad_input.small_site import FIRST_DAY, address, publish
from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import Project
from tests.servers.misbehaving import misbehaving
from tests.servers.rules import Gate
from tests.servers.tmux import terminal

FREE: Final = [f"free-{number}" for number in range(3)]
"""Maps that are done at once."""
HELD: Final = ["held", "waiting"]
"""Maps that wait for the answer to one tile, and cannot end without it."""
COLUMNS: Final = 80
STOPPING: Final = [
    "stopping: what is on the way finishes, and nothing is lost; press Ctrl-C again",
    "to quit at once",
]


def written(screen: list[str]) -> list[str]:
    """What the program has written."""
    return [line for line in screen if line and not line.startswith("Pane is dead")]


def names(lines: list[str]) -> list[str]:
    """The first words of the lines, without the comma behind a map that is done."""
    return sorted(line.split()[0].rstrip(",") for line in lines)


def test_maps_under_way_have_a_line_below_those_that_are_done_and_ctrl_c_ends_them_cleanly(
    project: Project, tmp_path: Path
) -> None:
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

        def is_shown(screen: list[str], above: int) -> bool:
            """Whether the maps that are done, and below other lines those under way, are all there is."""
            lines = written(screen)
            rest = lines[3 + above :]
            is_all = names(lines[:3]) == FREE and names(rest[:2]) == HELD and len(rest) == 3
            return is_all and "3 of 5 maps done" in rest[2] and all(gate.is_reached for gate in gates)

        lines = written(screen.await_screen(lambda lines: is_shown(lines, 0)))
        assert all(": done; 20 new; " in line for line in lines[:3])
        assert all(len(line) <= COLUMNS for line in lines)
        screen.press("C-c")
        screen.await_screen(lambda lines: is_shown(lines, 2) and written(lines)[3:5] == STOPPING)
        for gate in gates:
            gate.open()
        last = written(screen.last_screen())
    assert names(last[5:7]) == HELD
    assert all(": stopped; " in line for line in last[5:7])
    assert last[7] == "2 maps were stopped; run again in the same segment to continue"
    assert last[8].startswith("exit status 1, an error, or stopped: ")
