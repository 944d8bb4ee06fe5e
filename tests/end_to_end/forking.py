"""Programs in processes of their own, forked from a process that has already loaded their modules.

A program that starts from nothing costs a second of a core, nearly all of it for loading modules, and the
tests start hundreds of programs. A forked process has read no setting and has no event loop, so it behaves as
if it had started from nothing. A few tests start programs from nothing, to show that this works as well.
"""

import atexit
import ctypes
import multiprocessing
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, Self, TextIO

import scrapy.commands
from scrapy.settings import default_settings

import tileharvest

ROOT: Final = Path(__file__).resolve().parents[2]
"""The folder of `scrapy.cfg`, where the programs run."""

_LOADED: Final = (
    # What the server would run in each process that it forks: pytest, of which a program has no use.
    "__main__",
    "prometheus_client",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.logformatter",
    "scrapy.statscollectors",
)
"""Modules that ours load late. The settings are not kept, as they read the environment when they are
loaded."""
_PRELOADED: Final = "tests.end_to_end.preloaded"
"""A module that also does other work beforehand; its docstring tells why. It is loaded last."""
_DIE_WITH_PARENT: Final = 1
"""`PR_SET_PDEATHSIG` of Linux' prctl: the signal that a process gets when its parent ends."""


class Forked:
    """A forked process, with the methods of `subprocess.Popen` that tests use. At the end of a `with` block
    it is killed if it still runs, and its output is closed."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path | None = None,
    ) -> None:
        """Runs `python -m MODULE ARGUMENTS` with this environment and no other variables. Its output is read
        as text from `stdout` and `stderr`, or goes into the file `log`."""
        self.args = (module, *arguments)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_wanted())
        pipes = [multiprocessing.Pipe(duplex=False) for _ in range(0 if log else 2)]
        outputs = [log, log] if log else [writer for _, writer in pipes]
        self._process = context.Process(
            target=_run, args=(module, list(arguments), dict(environment), *outputs)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        if not log:
            self.stdout, self.stderr = (_text_of(reader) for reader, _ in pipes)
            for _, writer in pipes:
                writer.close()

    def poll(self) -> int | None:
        """Returns the exit status, or None while the process runs. If a signal ended the process, the status
        is the negative number of the signal."""
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit status when the process has ended. Raises TimeoutExpired."""
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def send_signal(self, number: signal.Signals, /) -> None:
        """Sends the signal. Does nothing if the process has ended."""
        # It may end between the two.
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Returns what the process still writes until its end, to stdout and to stderr. After `timeout`
        seconds it kills the process and raises TimeoutExpired."""
        with ThreadPoolExecutor(2) as readers:
            reading = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            output, errors = (stream.result() for stream in reading)
        return output, errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        self.stdout.close()
        self.stderr.close()


def _text_of(reader: Connection) -> TextIO:
    with reader:
        return os.fdopen(os.dup(reader.fileno()), encoding="utf-8")


@cache
def _wanted() -> list[str]:
    """Returns the modules that are loaded before anything is forked: ours, those that Scrapy loads for every
    crawl, and those that run programs here."""
    components = (
        default_settings.DOWNLOADER_MIDDLEWARES_BASE,
        default_settings.EXTENSIONS_BASE,
        default_settings.SPIDER_MIDDLEWARES_BASE,
    )
    of_scrapy = [name.rpartition(".")[0] for name in chain.from_iterable(components)]
    whole = (
        module.name
        for package in (tileharvest, scrapy.commands)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if module.name != "tileharvest.__main__"
    )
    return [*_LOADED, *of_scrapy, *whole, __name__, _PRELOADED]


def _run(
    module: str,
    arguments: list[str],
    environment: dict[str, str],
    output: Connection | Path,
    errors: Connection | Path,
) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    for number, place in ((1, output), (2, errors)):
        if isinstance(place, Path):
            opened = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(opened, number)
            os.close(opened)
        else:
            os.dup2(place.fileno(), number)
            place.close()
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    assert "twisted.internet.reactor" not in sys.modules, "a program would not load it so early"
    # The settings read the environment of whoever loads them.
    sys.modules.pop("tileharvest.settings", None)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        # As any program ends. A process of multiprocessing leaves out the second.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
