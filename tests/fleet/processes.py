"""Processes in which `scrapy` runs and writes a log: forked, or started as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tests.end_to_end.forking import ROOT, ForkedProcess

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence


class Process(Protocol):
    """One that was started, however that was."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Its exit status, negative for a signal that ended it; None while it runs."""
        ...

    def wait(self) -> object: ...

    def send_signal(self, number: signal.Signals, /) -> None: ...


def fork(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
    """`scrapy` with these arguments, in an environment that holds nothing else. Its output is the log."""
    with Connection(os.open(log, os.O_WRONLY | os.O_CREAT), readable=False) as file:
        return ForkedProcess("scrapy", arguments, environment, file, file)


def start(
    through: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> Process:
    """The same as a user does it, run by the program `through`."""
    with log.open("wb") as file:
        return subprocess.Popen(
            # Killed with this thread, even if nobody here has the time to do so.
            ["setpriv", "--pdeathsig", "KILL", *through, sys.executable, "-m", "scrapy", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def with_clock(hours: int, told: Path | None = None) -> list[str]:
    """The words that run a program for which it is so much later. What measures time that passes is left
    alone, as it knows no hours: a computer's clock that is wrong does not go wrong.

    The file `told` lets the clock step while the program runs: write `step_in_words` into it.

    The program itself must be the first for which it is later: libfaketime removes its files only there.
    """
    found = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        raise RuntimeError("no clock can be wrong here; on Debian: apt-get install libfaketime")
    clock = {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # For another C library than ours, where it lets Python's threads wait for seconds.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    if told is None:
        clock["FAKETIME"] = step_in_words(hours)
    else:
        told.write_text(step_in_words(hours), encoding="utf-8")
        clock |= {"FAKETIME_TIMESTAMP_FILE": str(told), "FAKETIME_NO_CACHE": "1"}
    return ["env", *(f"{name}={value}" for name, value in clock.items())]


def remove_clock(pid: int) -> None:
    """Remove what libfaketime keeps in memory for a program of `with_clock` that was killed."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        (Path("/dev/shm") / name).unlink(missing_ok=True)


def step_in_words(hours: int) -> str:
    """Returns a span of time as libfaketime reads it."""
    return f"{hours * 3600:+}s"
