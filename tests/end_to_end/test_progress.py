"""How far a harvest is, alike everywhere: on a terminal, in the queue, in the viewer, and for Prometheus."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, cast
from urllib.request import urlopen

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    PATHS,
    SECOND_DAY,
    Stage,
    address,
    publish,
    visit,
)
from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import Project, await_condition, stop
from tests.history.outcomes import RESULTS
from tests.servers import rules
from tests.servers.misbehaving import misbehaving
from tests.viewer.asking import serving
from tests.viewer.building import World

HELD: Final = "3"
"""A tile that is not answered, so that the harvest cannot go below it, or to its end."""
DONE: Final = 15
"""All tiles but that and those below it."""
ALL_OF_IT: Final = 2 + len(PATHS)
"""Requests of a first harvest: robots.txt, the configuration, then a GET for each tile."""
BLOCKS: Final = 8
"""Their blocks: each tile of the first level is one, and so are the four tiles below it."""


def killed_half_way(stage: Stage) -> None:
    """The second day's harvest, of which everything is recorded that was answered."""
    visit(stage.project, FIRST_DAY)
    stage.site.rules.update({address(HELD): rules.hang(), address("00"): rules.status(403)})
    recorded = RESULTS + "SELECT count(*) FROM results WHERE outcome IN ('ign', 'fail')"
    # The next run has a share of the connections when that of the killed one has ended.
    soon = ("-s", "LEASE_SECONDS=2")
    with stage.project.running("harvest", "small", "-a", f"day={SECOND_DAY}", *soon) as process:
        assert await_condition(lambda: stage.project.query(recorded) == [(DONE,)], process)
        process.kill()
        process.wait()
    stage.site.rules.clear()


Tmux = Callable[..., str]


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """Runs a command of tmux, a terminal whose screen can be read as a person sees it."""

    def run(*words: str) -> str:
        # -u means UTF-8, whatever the locale of the person who runs the tests.
        command = ["tmux", "-u", "-S", tmp_path / "tmux", "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout

    yield run
    with suppress(subprocess.CalledProcessError):
        run("kill-server")


def await_screen(tmux: Tmux, holds: Callable[[list[str]], bool]) -> list[str]:
    """Looks until the screen is as wanted, and returns its lines without empty ones at the bottom."""
    until, pause = time.monotonic() + 240, threading.Event()
    while not holds(screen := tmux("capture-pane", "-p").rstrip().splitlines()):
        assert time.monotonic() < until, "\n".join(screen)
        pause.wait(0.05)
    return screen


def start_on_terminal(tmux: Tmux, project: Project, program: Sequence[str]) -> None:
    """Runs the program on a terminal of 24 lines of 80 characters."""
    given = [word for name, value in project.environment.items() for word in ("-e", f"{name}={value}")]
    # The pane must not end with its program, because the last screen would be lost.
    keeping = ("set-option", "-g", "remain-on-exit", "on", ";")
    size = ("-x", "80", "-y", "24", "-c", str(ROOT))
    tmux("start-server", ";", *keeping, "new-session", "-d", *size, *given, *program)


def last_screen(tmux: Tmux) -> list[str]:
    """Waits until the program has ended, and returns the screen that it left."""
    await_screen(tmux, lambda _: tmux("list-panes", "-F", "#{pane_dead}").strip() == "1")
    return await_screen(tmux, bool)


def test_a_harvest_that_was_killed_is_told_everywhere_alike_and_goes_on_from_there(
    stage: Stage, tmux: Tmux
) -> None:
    killed_half_way(stage)
    queue = json.loads(stage.project.scrapy("queue", "small", "--json").stdout)["harvest"]
    assert (queue["tiles_done"], queue["tiles_expected"], queue["failures"]) == (DONE, 20, 1)
    assert (queue["counts"], queue["state"]) == ({"ign": DONE - 1, "fail": 1}, "interrupted")
    with serving(cast("World", stage.project)) as client:
        answer = client.get("/api/v1/maps/small/harvests").json
    running, entry = answer["running"], answer["harvests"][0]
    for name in ("tiles_done", "tiles_expected", "failures", "seconds_left", "requests_per_second"):
        assert running[name] == queue[name]
    for name in ("day", "counts", "requests", "received_bytes", "seconds_worked"):
        assert entry[name] == queue[name]

    stage.project.scrapy("pause", "small")
    program = (sys.executable, "-m", "scrapy", "harvest", "small", "-a", f"day={SECOND_DAY}")
    start_on_terminal(tmux, stage.project, program)
    screen = await_screen(tmux, lambda lines: "15/20" in "".join(lines) and "paused" in lines[-2])
    # The log's line stands above what moves, whole.
    assert screen[0].startswith("WARNING: map 'small' is paused since")
    assert screen[-2].startswith("small ")
    assert screen[-2].rstrip().endswith(" 15/20 tiles  paused")
    cost = f"{queue['requests']} requests, {queue['received_bytes']} B"
    assert screen[-1].rstrip() == f"14 unchanged, 1 failed; {cost}"
    assert all(len(line) <= 80 for line in screen)

    stage.project.scrapy("resume", "small")
    screen = last_screen(tmux)
    # What has moved is gone, and the report is in its place.
    assert not any("15/20" in line or "━╸" in line for line in screen)
    # The kill may have come before the queue knew that the tile had failed: then it was asked again.
    assert any(": done; 20 unchanged; " in line or "19 unchanged, 1 failed; " in line for line in screen)
    assert stage.project.scrapy("queue", "small").stdout.startswith("no harvest is running\n\n")


def page(port: int) -> str:
    """The page for Prometheus."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=240) as answer:
        return str(answer.read().decode())


def test_a_crawl_is_watched_and_another_one_at_the_same_port_goes_on_without(stage: Stage) -> None:
    stage.project.add_map("other", f"{stage.site.url}/")
    # What a site without one answers is the server's own affair.
    (stage.files.folder / "robots.txt").touch()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    watched = ("-a", f"day={FIRST_DAY}", "-s", f"PROMETHEUS_PORT={port}")
    with stage.project.running("crawl", "overviewer", "-a", "map=small", "-a", "stay=1", *watched) as process:
        assert await_condition(lambda: len(stage.site.received) >= ALL_OF_IT, process)
        log = stage.project.scrapy("crawl", "overviewer", "-a", "map=other", *watched).stderr
        assert f"port {port} of 127.0.0.1 is not served to Prometheus: it is in use" in log
        assert "Spider closed (finished)" in log
        done = f'tileharvest_done{{map="small"}} {BLOCKS}.0'
        assert await_condition(lambda: done in page(port), process)
        lines = page(port).splitlines()
        _, log = stop(process, signal.SIGTERM)
    assert f"http://127.0.0.1:{port}/metrics" in log
    assert "Traceback" not in log
    images = sum(stage.files.file(path).stat().st_size for path in PATHS)
    configuration = (stage.files.folder / "overviewerConfig.js").stat().st_size
    assert f'tileharvest_tiles_total{{map="small",outcome="add"}} {len(PATHS)}.0' in lines
    assert f'tileharvest_requests_total{{map="small"}} {ALL_OF_IT}.0' in lines
    assert f'tileharvest_stored_bytes_total{{map="small"}} {images}.0' in lines
    assert f'tileharvest_received_bytes_total{{map="small"}} {images + configuration}.0' in lines


FREE: Final = [f"free-{number}" for number in range(3)]
"""Maps that are done at once."""
UNDER_WAY: Final = ["held", "waiting"]
"""Maps that wait for the answer to one tile, and cannot end without it."""
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
    project: Project, tmp_path: Path, tmux: Tmux
) -> None:
    gates = []
    with ExitStack() as opened:
        for name in UNDER_WAY:
            site = opened.enter_context(misbehaving(publish(tmp_path / name).folder))
            gates.append(rules.Gate(keeps_all=True))
            site.rules[address("3")] = gates[-1]
            project.add_map(name, f"{site.url}/")
        free = opened.enter_context(misbehaving(publish(tmp_path / "free").folder))
        for name in FREE:
            project.add_map(name, f"{free.url}/")
        harvest = [sys.executable, "-m", "scrapy", "harvest", "--all", "-a", f"day={FIRST_DAY}"]
        # When the program has ended tmux says so in the last line, and the first one may scroll away.
        command = ["sh", "-c", 'echo; exec "$@"', "sh", *harvest]
        start_on_terminal(tmux, project, command)

        def is_shown(screen: list[str], above: int) -> bool:
            """Whether the maps that are done, and below other lines those under way, are all there is."""
            lines = written(screen)
            rest = lines[3 + above :]
            is_all = names(lines[:3]) == FREE and names(rest[:2]) == UNDER_WAY and len(rest) == 3
            return is_all and "3 of 5 maps done" in rest[2] and all(gate.is_reached for gate in gates)

        lines = written(await_screen(tmux, lambda lines: is_shown(lines, 0)))
        assert all(": done; 20 new; " in line for line in lines[:3])
        assert all(len(line) <= 80 for line in lines)
        tmux("send-keys", "C-c")
        await_screen(tmux, lambda lines: is_shown(lines, 2) and written(lines)[3:5] == STOPPING)
        for gate in gates:
            gate.open()
        last = written(last_screen(tmux))
    assert names(last[5:7]) == UNDER_WAY
    assert all(": stopped; " in line for line in last[5:7])
    assert last[7] == "2 maps were stopped; run again in the same segment to continue"
    assert last[8].startswith("exit status 1, an error, or stopped: ")
