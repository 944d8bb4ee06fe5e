"""Processes in which `scrapy` runs: started as a user does, or forked off one that has loaded it.

A start costs a core for a second, nearly all of it for loading modules, and these tests start some seventy
workers. What is forked is as much a process of its own: it has read no setting, and no event loop was there.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final, Protocol

from tests.end_to_end.project import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

_LOADED: Final = (
    # What the server would run in each process that it forks: pytest, of which a worker has no use.
    "__main__",
    "alembic.command",
    "alembic.runtime.migration",
    "aiohttp.web",
    "PIL.PngImagePlugin",
    "scrapy.cmdline",
    "scrapy.commands.bench",
    "scrapy.commands.check",
    "scrapy.commands.parse",
    "scrapy.commands.shell",
    "scrapy.core.engine",
    "scrapy.downloadermiddlewares.cookies",
    "scrapy.downloadermiddlewares.httpcompression",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "tileharvest.commands.harvest",
    "tileharvest.middlewares.diff",
    "tileharvest.middlewares.retry",
    "tileharvest.pipelines",
    "tileharvest.scheduler.redis",
    "tileharvest.scheduler.scheduler",
    "tileharvest.spiders.download",
    "tileharvest.spiders.overviewer",
    "uvloop",
)
"""All but the settings, which are read from the environment when they are loaded."""
_DIE_WITH_PARENT: Final = 1
"""`PR_SET_PDEATHSIG` of Linux' prctl."""


class Process(Protocol):
    """One that was started, however that was."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Its exit status, negative for a signal that ended it; None while it runs."""
        ...

    def wait(self) -> object: ...

    def send_signal(self, number: signal.Signals, /) -> None: ...


class Forked:
    """As the other, where it must be."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> None:
        self._process.join()

    def send_signal(self, number: signal.Signals, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def fork(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
    """`scrapy` with these arguments, in an environment that holds nothing else. Its output is the log."""
    log.touch()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    process = context.Process(target=_run, args=(list(arguments), dict(environment), str(log)))
    process.start()
    return Forked(process)


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


def _run(arguments: list[str], environment: dict[str, str], log: str) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    file = os.open(log, os.O_WRONLY)
    for output in (1, 2):
        os.dup2(file, output)
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    loaded = {"tileharvest.settings", "twisted.internet.reactor"} & sys.modules.keys()
    assert not loaded, f"a worker would not load these: {loaded}"
    sys.argv = ["scrapy", *arguments]
    from scrapy.cmdline import execute  # noqa: PLC0415 - this process has loaded it; the tests' need not

    execute()
