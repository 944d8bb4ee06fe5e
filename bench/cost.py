"""Running a program on one core and measuring what it cost."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process, from its start to its end."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, user and system."""
    rss: float
    """The most memory held at once, in MB of 2^20 bytes."""

    def without(self, start_up: Cost) -> Cost:
        """What is left when the cost of starting and stopping is taken away; memory stays whole."""
        return Cost(self.wall - start_up.wall, self.cpu - start_up.cpu, self.rss)


class RunFailedError(Exception):
    """A measured program ended with an error: its figures mean nothing."""


def cores() -> tuple[int, int]:
    """The cores of the crawler and of the server; the same one twice where there is only one."""
    available = sorted(os.sched_getaffinity(0))
    return available[0], available[-1]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Processes started within the block run on this core only: children inherit it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def family_cpu(process: int) -> float:
    """Seconds that it and its children have used, user and system, those that have ended included; to a tick
    of 10 ms for each."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    ticks = sum(_ticks(process))
    for child in children:
        # One that ends at this moment is counted by its parent soon.
        with suppress(FileNotFoundError):
            ticks += sum(_ticks(int(child))[:2])
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> list[int]:
    """Of its own, user and system, and of its ended children."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    # Counted from behind the program's name, in which there may be spaces.
    return [int(ticks) for ticks in stat.rpartition(")")[2].split()[11:15]]


def run(command: Sequence[str], output: Path, folder: Path, environment: Mapping[str, str]) -> Cost:
    """Run the command on the crawler's core, in `folder`, its output to a file.

    The kernel counts the memory of the process that starts another as that one's own (it is, until
    the program is loaded), so figures below this process's own size are not seen: it holds nothing big.
    Raises RunFailedError with the end of the output.
    """
    with output.open("wb") as file, on_core(cores()[0]):
        started = time.monotonic()
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=os.environ | dict(environment)
        )
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        words = output.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise RunFailedError(f"{' '.join(command)} ended with {process.returncode}:\n{words}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
