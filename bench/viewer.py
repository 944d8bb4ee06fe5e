"""The viewer's speed on a long history: how fast it answers, and how fast its page is.

`scrapy serve` has one core to itself; this process, which asks it, has another. Chromium may use all cores.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.table import Table

from bench import long_history, page
from bench.cost import PROJECT, RunFailedError, cores, cpu_of, on_core, places
from bench.long_history import DAYS, MAP
from bench.site import LAYER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

VERSIONS: Final = 1_000_000
DEPTH: Final = 7
"""The map has 21,844 tiles."""
WIDTH: Final = 12
"""Tiles along an edge of a view: more than a screen of 4K has."""
ASKED: Final = 300
"""How often each question is asked, at random places, zooms and days."""
_PERIOD: Final = 30
"""Days of the heat and of the places."""


class Server(NamedTuple):
    port: int
    process: int


def measure(folder: Path, console: Console, versions: int) -> dict[str, Any]:
    """Makes a history, serves it, asks, and opens the page."""
    long_history.make(folder, versions, DEPTH)
    core, own_core = cores()
    with _serving(folder, core) as server:
        with on_core(own_core):
            waits = list(_waits(server))
        opened = page.measure(f"http://127.0.0.1:{server.port}/", DAYS)
    title = f"{versions:,} versions on {len(DAYS)} days"
    _show(console, title, waits)
    _show(console, "The page", opened)
    return {"versions": versions, "waits": waits, "page": opened}


@contextmanager
def _serving(folder: Path, core: int) -> Iterator[Server]:
    """Runs `scrapy serve` on this core until the block ends."""
    command = [sys.executable, "-m", "scrapy", "serve", "--port", "0"]
    environment = os.environ | places(folder)
    with on_core(core):
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            address = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            if address is None:
                raise RunFailedError(f"`scrapy serve` gave no address but {line!r}")
            yield Server(int(address[1]), process.pid)
        finally:
            process.terminate()


def _waits(server: Server) -> Iterator[dict[str, Any]]:
    """Yields how long each question takes until its answer's last byte. One is asked after the other."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)

    def get(path: str) -> None:
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        with connection.getresponse() as answer:
            body = answer.read()
            if answer.status != 200:
                raise RunFailedError(f"{path} was answered with {answer.status}: {body!r}")

    for what, paths in _questions(Random(1)).items():  # noqa: S311 - the same questions each time
        get(paths[0])
        milliseconds, before = [], cpu_of(server.process)
        for path in paths:
            began = time.perf_counter()
            get(path)
            milliseconds.append((time.perf_counter() - began) * 1000)
        percentiles = statistics.quantiles(milliseconds, n=100, method="inclusive")
        waits = {f"p{percent} ms": percentiles[percent - 1] for percent in (50, 95, 99)}
        yield {"what": what, **waits, "CPU ms": (cpu_of(server.process) - before) * 1000 / len(paths)}


def _questions(random: Random) -> dict[str, list[str]]:
    """Returns the addresses of each question, at random places and days."""
    questions: dict[str, list[str]] = {}

    def ask(what: str, question: str) -> None:
        questions.setdefault(what, []).append(f"/api/v1/maps/{MAP}/{question}")

    for _ in range(ASKED):
        zoom, number = random.choice((0, -1, -2, -3)), random.randrange(_PERIOD, len(DAYS))
        unit, side = 1 << -zoom, 1 << (DEPTH + zoom)
        columns, rows = (random.randrange(side - WIDTH) for _ in "xy")
        edges = [
            unit * (2 * (first + more) - side + 1) for first in (columns, rows) for more in (0, WIDTH - 1)
        ]
        names = ("x_from", "x_to", "y_from", "y_to")
        area = f"zoom={zoom}&" + "&".join(f"{name}={edge}" for name, edge in zip(names, edges, strict=True))
        period = f"after={DAYS[number - _PERIOD]}&until={DAYS[number]}"
        size = f"{WIDTH} x {WIDTH} tiles"
        ask(f"view of {size}", f"view?layer={LAYER}&day={DAYS[number]}&{area}")
        ask(f"changes per day, {size}", f"changes?layer={LAYER}&{area}")
        ask(f"heat of {_PERIOD} days, {size}", f"heat?layer={LAYER}&{period}&{area}")
        ask(f"places of {_PERIOD} days, whole map", f"places?layer={LAYER}&{period}")
    return questions


def _show(console: Console, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(one if isinstance(one, str) else f"{one:,.1f}" for one in row.values()))
    console.print(table)
