"""Our own harvests of a generated site: the first one, and that of the next day, which finds no change."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cost import Cost, RunFailedError, run
from bench.stock import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.nginx import Nginx

PROJECT = Path(__file__).resolve().parents[1]
FIRST_DAY = "2024-01-02"
SECOND_DAY = "2024-01-03"


@dataclass(frozen=True, slots=True)
class Harvests:
    first: Cost
    unchanged: Cost


def harvest_twice(server: Nginx, tiles: int, folder: Path, settings: Sequence[str] = ()) -> Harvests:
    """Harvests the whole site on two days.

    `folder` must not exist; it gets the history and the store. `settings` are further arguments of the
    command, such as `-s NAME=VALUE`. Raises RunFailedError when a harvest ended with an error, or when the
    server's log shows other requests than the harvest should have made.
    """
    describe(folder, server.url, CONCURRENCY)
    first = harvest(server, folder, FIRST_DAY, settings)
    check(server, {"GET": tiles})
    unchanged = harvest(server, folder, SECOND_DAY, settings)
    check(server, {"HEAD": tiles, "GET": 0})
    return Harvests(first, unchanged)


def describe(folder: Path, url: str, concurrency: int) -> None:
    """Makes the folder, with an entry for the map `bench` in maps.toml."""
    folder.mkdir()
    entry = f'[bench]\nurl = "{url}/"\nconcurrency = {concurrency}\ntimezone = "UTC"\n'
    (folder / "maps.toml").write_text(f"{entry}change_index = false\n", encoding="utf-8")


def harvest(server: Nginx, folder: Path, day: str, settings: Sequence[str] = ()) -> Cost:
    """Harvests the map `bench` of that folder, for that day, whose requests alone are in the server's log
    then."""
    server.clear_log()
    command = [sys.executable, "-m", "scrapy", "crawl", "overviewer", "-a", "map=bench", "-a", f"day={day}"]
    command += settings
    environment = {"TILEHARVEST_MAPS": str(folder / "maps.toml"), "TILEHARVEST_DATA": str(folder / "data")}
    return run(command, folder / f"{day}.log", PROJECT, environment)


def check(server: Nginx, wanted: dict[str, int]) -> None:
    """Raises RunFailedError unless exactly so many tiles were answered with 200 since the log was cleared.

    The figures of a run that skipped tiles, or fetched known ones, would mean nothing.
    """
    answered = Counter(
        line.method for line in server.log() if line.path.endswith(".png") and line.status == 200
    )
    for method, number in wanted.items():
        if answered[method] != number:
            raise RunFailedError(f"{answered[method]} tiles were answered to {method} requests, not {number}")
