"""The cost of a program: time, processor and memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROJECT: Final = Path(__file__).resolve().parents[1]
_AVAILABLE: Final = sorted(os.sched_getaffinity(0))
_STARTER: Final = """
import json, os, sys, time
started = time.monotonic()
process = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(process, 0)
wall = time.monotonic() - started
with open(int(sys.argv[1]), "w") as answer:
    json.dump([status, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], answer)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one process, from its start to its end."""

    wall: float
    """Seconds by the clock."""
    cpu: float
    """Seconds of CPU, user and system."""
    rss: float
    """The most memory held at once, in MB of 2^20 bytes."""

    def without(self, start_up: Cost) -> Cost:
        """Returns the cost without that of starting and stopping. The memory stays whole."""
        return Cost(self.wall - start_up.wall, self.cpu - start_up.cpu, self.rss)


class RunFailedError(Exception):
    """A measured program ended with an error, or did other work than it should: its figures mean nothing."""


def cores() -> tuple[int, int]:
    """Returns the core of the measured program and that of the servers. They may be the same one.

    They are the same two within `on_core`, where this process has one core only.
    """
    return _AVAILABLE[0], _AVAILABLE[-1]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Lets processes that are started within the block run on this core only. Their children inherit it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_of(process: int) -> float:
    """Returns the seconds of CPU that a process and its running children have used, exact to some ticks of
    10 ms."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    ticks = 0
    for each in (process, *children):
        # The fields are counted from behind the program's name, which may contain spaces.
        stat = Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(stat[11]) + int(stat[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def places(folder: Path) -> dict[str, str]:
    """Returns the variables for a project whose maps.toml and data folder lie in this folder."""
    return {"TILEHARVEST_MAPS": str(folder / "maps.toml"), "TILEHARVEST_DATA": str(folder / "data")}


def scrapy(folder: Path, *words: str, on_all_cores: bool = False, **variables: str) -> Cost:
    """Runs a command of TileHarvest on the maps of a folder. Its output is in the folder's `output.log`."""
    command = [sys.executable, "-m", "scrapy", *words]
    return run(command, folder / "output.log", places(folder) | variables, on_all_cores=on_all_cores)


def run(
    command: Sequence[str], output: Path, environment: Mapping[str, str], *, on_all_cores: bool = False
) -> Cost:
    """Runs a command, on its core or on all, and writes its output to a file.

    A new process has the memory of its parent until it has loaded its program, and the kernel counts that. So
    a small interpreter starts it, which has 10 MB; no figure can be below that. Raises RunFailedError with
    the end of the output if the command fails.
    """
    answer, answering = os.pipe()
    with (
        os.fdopen(answer, encoding="ascii") as told,
        output.open("wb") as file,
        nullcontext() if on_all_cores else on_core(cores()[0]),
    ):
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _STARTER, str(answering), *command],
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=PROJECT,
            env=os.environ | dict(environment),
            pass_fds=[answering],
            process_group=0,
        )
        os.close(answering)
        try:
            process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        # A program that could not be started leaves the answer empty.
        status, wall, cpu, rss = json.loads(told.read() or "[256, 0, 0, 0]")
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        words = output.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise RunFailedError(f"{' '.join(command)} ended with {code}:\n{words}")
    return Cost(wall, cpu, rss)
