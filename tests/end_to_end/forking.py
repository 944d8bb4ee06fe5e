"""Programs in processes of their own, forked from a process that has already loaded their modules.

A program that starts from nothing costs a second of a core, nearly all of it for loading modules, and the
tests start hundreds of programs. A forked process has read no setting and has no event loop, so it behaves as
if it had started from nothing. A few tests start programs from nothing, to show that this works as well.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

import scrapy.commands
from scrapy.settings import default_settings

import tileharvest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection

    AnyConnection = Connection[Any, Any]

ROOT: Final = Path(__file__).resolve().parents[2]
"""The folder of `scrapy.cfg`, where the programs run."""

_LOADED: Final = (
    # What the server would run in each process that it forks: pytest, of which a program has no use.
    "__main__",
    "aiohttp.web",
    "obstore.store",
    "PIL.BmpImagePlugin",
    "PIL.GifImagePlugin",
    "PIL.ImageDraw",
    "PIL.ImageFont",
    "PIL.JpegImagePlugin",
    "PIL.PngImagePlugin",
    "platformdirs.unix",
    "prometheus_client",
    "scrapy.cmdline",
    "scrapy.core.downloader.handlers.datauri",
    "scrapy.core.downloader.handlers.file",
    "scrapy.core.downloader.handlers.ftp",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.downloader.handlers.s3",
    "scrapy.core.engine",
    "scrapy.logformatter",
    "scrapy.statscollectors",
    "scrapy.utils.engine",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "uvloop",
)
"""The modules to load before anything is forked. The settings are not kept, as they read the
environment when they are loaded."""
_PRELOADED: Final = "tests.end_to_end.preloaded"
"""A module that also does other work beforehand; its docstring tells why. It is loaded last."""
_DIE_WITH_PARENT: Final = 1
"""`PR_SET_PDEATHSIG` of Linux' prctl: the signal that a process gets when its parent ends."""


class ForkedProcess:
    """A forked process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: AnyConnection,
        errors: AnyConnection,
    ) -> None:
        """Runs `python -m MODULE ARGUMENTS` with this environment and no other variables. Its output goes to
        the two connections, which stay open here."""
        self.args = (module, *arguments)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_wanted())
        self._process = context.Process(
            target=_run, args=(module, list(arguments), dict(environment), output, errors)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

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

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forked(ForkedProcess):
    """A forked process whose output is read as text."""

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        with _Pipe() as output, _Pipe() as errors:
            super().__init__(module, arguments, environment, output.writer, errors.writer)
            self.stdout, self.stderr = output.opened(), errors.opened()

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

    def close(self) -> None:
        """Closes the output. Call this when the process has ended."""
        self.stdout.close()
        self.stderr.close()


class _Pipe:
    """A pipe for text from a process. Ends that were not handed on are closed when the block ends."""

    def __init__(self) -> None:
        self._reader, self.writer = multiprocessing.Pipe(duplex=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self.writer.close()

    def opened(self) -> TextIO:
        return os.fdopen(os.dup(self._reader.fileno()), encoding="utf-8")


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
    output: AnyConnection,
    errors: AnyConnection,
) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    for number, connection in ((1, output), (2, errors)):
        os.dup2(connection.fileno(), number)
    for connection in {output, errors}:
        connection.close()
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
        # A process of multiprocessing leaves them out.
        atexit._run_exitfuncs()
