"""Processes in which `scrapy` runs and writes a log: forked, or started as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Protocol

from tests.end_to_end.forking import ROOT, ForkedProcess

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from pathlib import Path


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
