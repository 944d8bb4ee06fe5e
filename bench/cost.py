"""The cost of a program that runs on one core: time, processor and memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
    """Returns the cores of the crawler and of the server. They are the same where there is only one core."""
    available = sorted(os.sched_getaffinity(0))
    return available[0], available[-1]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Lets processes that are started within the block run on this core only. Their children inherit it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def family_cpu(process: int) -> float:
    """Returns the seconds of CPU that the process and its children have used, user and system.

    Children that have ended are included. The figure is exact to a tick of 10 ms for each process.
    """
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    ticks = sum(_ticks(process))
    for child in children:
        # A child that ends at this moment will be in its parent's figures.
        with suppress(FileNotFoundError):
            ticks += sum(_ticks(int(child))[:2])
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> list[int]:
    """Returns four figures: user and system of the process itself, then those of its ended children."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    # The fields are counted from behind the program's name, which may have spaces in it.
    return [int(ticks) for ticks in stat.rpartition(")")[2].split()[11:15]]


def run(
    command: Sequence[str],
    output: Path,
    folder: Path,
    environment: Mapping[str, str],
    *,
    on_all_cores: bool = False,
) -> Cost:
    """Runs the command in `folder`, on the crawler's core or on all, and writes its output to a file.

    Until a new process has loaded its program it has the memory of the process that started it, and the
    kernel counts that. So it is started by a small process, an interpreter of 10 MB that has imported nearly
    nothing: no figure can be below that.
    Raises RunFailedError with the end of the output when the command fails.
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
            cwd=folder,
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
        # Nothing is told where the program could not be started.
        status, wall, cpu, rss = json.loads(told.read() or "[256, 0, 0, 0]")
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        words = output.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise RunFailedError(f"{' '.join(command)} ended with {code}:\n{words}")
    return Cost(wall, cpu, rss)
