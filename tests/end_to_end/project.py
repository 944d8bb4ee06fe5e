"""A user's project, whose commands run in processes of their own. Tests see only what the commands leave."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.commands.running import WITHOUT_CRAWLER, run_here
from tests.end_to_end.forking import ROOT, Forked
from tests.history.outcomes import RESULTS
from tests.servers.nginx import Nginx

_LOOK: Final = 0.005
"""Seconds between two looks at something that another process does."""


class LayerTile(NamedTuple):
    """A tile by its names in the history."""

    layer: str
    zoom: int
    x: int
    y: int


class RecordedVersion(NamedTuple):
    """A row of the history's `versions`, without the numbers that the database gave it."""

    layer: str
    zoom: int
    x: int
    y: int
    day: str
    sha1: str | None
    extension: str | None
    size: int | None
    etag: str | None
    last_modified: str | None

    @property
    def tile(self) -> LayerTile:
        return LayerTile(self.layer, self.zoom, self.x, self.y)


@dataclass(frozen=True, slots=True)
class Project:
    """A user's `maps.toml` and data folder. Neither exists before something writes it."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def maps_file(self) -> Path:
        return self.folder / "maps.toml"

    @property
    def database(self) -> Path:
        return self.data / "history.sqlite"

    def adopt(self, data: Path) -> None:
        """Copies another project's data folder, to begin with."""
        shutil.copytree(data, self.data)

    def add_map(self, name: str, url: str, **keys: Any) -> None:
        """Appends an entry to `maps.toml`. Further keys have the values of TOML; zones are dicts."""
        lines = [f"[{name}]", f"url = {json.dumps(url)}"]
        lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
        with self.maps_file.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n\n")

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        places = {"TILEHARVEST_MAPS": str(self.maps_file), "TILEHARVEST_DATA": str(self.data)}
        return kept | places | {"PYTHONPATH": str(ROOT)}

    def scrapy(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs `scrapy ...` to its end: in a process of its own if it needs a crawler. With `check`, an exit
        status other than 0 raises an AssertionError that shows the output."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and WITHOUT_CRAWLER.issuperset(arguments[:1]):
            done = run_here("scrapy", arguments, self.environment)
        else:
            with self.running(*arguments) as process:
                stdout, stderr = process.communicate(timeout=240)
                done = subprocess.CompletedProcess(process.args, process.wait(), stdout, stderr)
        if check and done.returncode != 0:
            raise AssertionError(
                f"scrapy {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def scrapy_from_nothing(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs `scrapy ...` in a process that starts from nothing, as a user's does. This costs a second, so
        it is for the few tests that show that it works."""
        return subprocess.run(
            [sys.executable, "-m", "scrapy", *arguments],
            cwd=ROOT,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=240.0,
            check=False,
        )

    def running(self, *arguments: str, module: str = "scrapy") -> Forked:
        """Runs `scrapy ...`, or another module that is a program."""
        return Forked(module, arguments, self.environment)

    def crawl(
        self, name: str, day: str, *more: str, spider: str = "overviewer", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs `scrapy crawl overviewer`, or another spider, for that day. The log is in `stderr`."""
        arguments = ("-a", f"map={name}", "-a", f"day={day}", *more)
        return self.scrapy("crawl", spider, *arguments, check=check)

    def harvest(self, name: str, day: str, *more: str, check: bool = True) -> dict[str, Any]:
        """Runs `scrapy harvest NAME --json` for that day, and returns the map's report."""
        done = self.scrapy("harvest", name, "-a", f"day={day}", "--json", *more, check=check)
        (report,) = json.loads(done.stdout)
        return dict(report)

    def harvests(self, name: str) -> list[dict[str, Any]]:
        return list(json.loads(self.scrapy("harvests", name, "--json").stdout))

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Returns rows of the history, read as any program can read an SQLite file."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            return list(connection.execute(statement, values))

    def outcomes(self) -> dict[LayerTile, str]:
        """Returns the outcome of each tile that the last harvest in its block has asked."""
        rows = self.query(
            RESULTS + "SELECT name, zoom, x, y, outcome FROM results JOIN layers ON layers.id = results.layer"
        )
        return {LayerTile(*row[:4]): row[4] for row in rows}

    def versions(self) -> set[RecordedVersion]:
        rows = self.query(
            "SELECT name, zoom, x, y, day, sha1, extension, size, etag, last_modified"
            " FROM versions JOIN layers ON layers.id = versions.layer"
        )
        return {RecordedVersion(*row) for row in rows}

    def stored(self) -> dict[str, bytes]:
        """Returns every file of the store by its path below the store, hidden ones included."""
        return contents(self.data / "tiles")


def contents(folder: Path) -> dict[str, bytes]:
    """Returns every file below the folder by its path. Returns nothing if there is no folder."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


def await_condition(holds: Callable[[], bool], process: Forked | subprocess.Popen[str]) -> bool:
    """Returns True when the condition holds, or False if the process ends before.

    Raises AssertionError when neither comes within four minutes.
    """
    until = time.monotonic() + 240
    pause = threading.Event()
    while not holds():
        if process.poll() is not None:
            return False
        assert time.monotonic() < until, "what was waited for did not come"
        pause.wait(_LOOK)
    return True


def answered(server: Nginx) -> int:
    """Returns how many requests the server has logged so far. Others may have been answered and not logged
    yet; after `log` none is missing."""
    return (server.folder / "access.log").read_bytes().count(b"\n")


def stop(process: Forked, how: signal.Signals) -> tuple[str, str]:
    """Sends the signal, waits for the end, and returns the output to stdout and to stderr."""
    process.send_signal(how)
    return process.communicate(timeout=240)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
