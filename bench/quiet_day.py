"""What a day without changes asks of a map's host: by a full walk, a pruned one, a change index, and git.

The numbers of requests and bytes are exact, for servers count them: nginx, and git's own behind nginx.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.table import Table

from bench.cost import RunFailedError, run
from bench.dated_site import drawings
from bench.harvest import FIRST_DAY, PROJECT
from bench.site import config, count, depth_for, image, tile_paths
from tests.servers.git_host import git_host
from tests.servers.nginx import nginx
from tests.servers.repositories import FastImport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console

    from tests.servers.nginx import Nginx

_DAYS: Final = 3
"""Quiet days in a row: an audit gets smaller while it finds nothing."""


class Way(NamedTuple):
    """How a quiet day is harvested."""

    name: str
    entry: str
    """The lines of the map's entry in `maps.toml`."""
    is_git: bool = False


WAYS: Final = (
    Way("full walk", 'walk = "full"\nchange_index = false'),
    Way("pruned walk", 'walk = "pruned"\nchange_index = false'),
    Way("change index", "change_index = true"),
    Way("git", 'git = "{address}"', is_git=True),
)


@dataclass(frozen=True, slots=True)
class QuietDay:
    """What the host was asked on one quiet day."""

    way: str
    day: int
    """1 is the first one after the first harvest."""
    tiles: int
    requests: int
    bytes: int
    """Bytes that the host has sent, heads of answers included."""


def measure(folder: Path, console: Console, tiles: int) -> list[dict[str, Any]]:
    """Harvests a map of at least so many tiles in each way, on its first day and on quiet days.

    Raises RunFailedError where a quiet day has found a change.
    """
    folder.mkdir()
    depth = depth_for(tiles)
    files = _files(depth)
    found = [one for way in WAYS for one in _quiet_days(folder, way, files, count(depth))]
    columns = [f"{what}, day {day}" for day in (1, _DAYS) for what in ("requests", "kB")]
    table = Table("harvest", *columns, title=f"Quiet days of {count(depth):,} tiles")
    for way in WAYS:
        told = [one for one in found if one.way == way.name and one.day in (1, _DAYS)]
        figures = [figure for one in told for figure in (f"{one.requests:,}", f"{one.bytes / 1000:,.1f}")]
        table.add_row(way.name, *figures)
    console.print(table)
    return [asdict(one) for one in found]


def _files(depth: int) -> dict[str, tuple[bytes, int]]:
    """Returns the site's files, each with its time. No tile is older than one below it, as a proof asks."""
    tiles = zip(tile_paths(depth), drawings(depth, 0), strict=True)
    files = {path: (image(drawing.number), drawing.time) for path, drawing in tiles}
    newest = max(time for _, time in files.values())
    return {"overviewerConfig.js": (config(depth).encode(), newest), **files}


def _quiet_days(
    folder: Path, way: Way, files: dict[str, tuple[bytes, int]], tiles: int
) -> Iterator[QuietDay]:
    place = folder / way.name.replace(" ", "-")
    with _served(place, way, files) as (server, url):
        entry = way.entry.format(address=url)
        maps = f'[bench]\nurl = "{server.url}/"\ntimezone = "UTC"\n{entry}\n'
        (place / "maps.toml").write_text(maps, encoding="utf-8")
        for number in range(_DAYS + 1):
            server.clear_log()
            _harvest(place, date.fromisoformat(FIRST_DAY) + timedelta(days=number))
            log = list(server.log())
            if number:
                if not way.is_git and sum(line.method == "GET" for line in log) > 2:
                    raise RunFailedError(f"{way.name}: a quiet day has fetched tiles")
                yield QuietDay(way.name, number, tiles, len(log), sum(line.sent for line in log))


@contextmanager
def _served(place: Path, way: Way, files: dict[str, tuple[bytes, int]]) -> Iterator[tuple[Nginx, str]]:
    """Runs the host, and yields it with the repository's address."""
    site = place / "site"
    site.mkdir(parents=True)
    if way.is_git:
        repository = FastImport(site / "map.git")
        moment = datetime.fromisoformat(FIRST_DAY).replace(tzinfo=UTC)
        repository.commit(moment, {path: body for path, (body, _) in files.items()})
        repository.written()
        with git_host(site) as server:
            yield server, f"{server.url}/map.git"
        return
    for path, (body, time) in files.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        os.utime(file, (time, time))
    with nginx(site) as server:
        yield server, server.url


def _harvest(place: Path, day: date) -> None:
    command = [sys.executable, "-m", "scrapy", "crawl", "overviewer", "-a", "map=bench", "-a", f"day={day}"]
    places = {"TILEHARVEST_MAPS": str(place / "maps.toml"), "TILEHARVEST_DATA": str(place / "data")}
    run(command, place / f"{day}.log", PROJECT, places)
