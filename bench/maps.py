"""Many maps in one process: how long they take together, and what each of them costs.

All are one site behind one nginx, each at an address of its own, 127.0.x.y. So each map has a host and a
limit of its own, and the log of nginx tells who was asked when.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench.cost import RunFailedError, cores, on_core, run
from bench.harvest import FIRST_DAY, PROJECT, SECOND_DAY
from bench.site import count, generate
from tests.servers.nginx import nginx
from tileharvest.history.database import History
from tileharvest.history.harvest_row import Beginning
from tileharvest.history.harvests import begin
from tileharvest.history.schema import FINISHED
from tileharvest.queue.sqlite.queue import SqliteQueue
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.versions import Image, Validator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console

    from bench.cost import Cost
    from tests.servers.nginx import Nginx

MAPS: Final = 250
QUIET: Final = 1_000
DESCRIBED: Final = (100, 1_000, 10_000)
RATE: Final = 2
"""Requests per second of each map."""
_DEPTH: Final = 4
_ZONE: Final = "zones = [{ center = [-7, 8], width = 9, height = 8, zoom = 0 }]"
_TILES: Final = 9 * 8 + 5 * 4 + 3 * 2 + 2 * 1
"""Those of the zone, by zoom: 100 of the site's 340."""
_AT_ONCE: Final = 100
"""Quiet maps side by side."""
_ASIDE: Final = 2
"""Requests before the first tile: robots.txt and the configuration."""


def measure(folder: Path, console: Console, maps: int, quiet: int, described: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if maps:
        found["busy"] = _busy(folder / "busy", console, maps)
    if quiet:
        found["quiet"] = _quiet(folder / "quiet", console, quiet)
    if described:
        found["described"] = [_described(folder / f"described-{one}", one) for one in described]
        table = Table(
            "maps in maps.toml",
            "scrapy maps --json s",
            "its CPU s",
            "all harvested: s",
            "its CPU s",
            "harvest NAME s",
            title="A long maps.toml",
        )
        for row in found["described"]:
            table.add_row(
                f"{row['maps']:,}",
                f"{row['list_seconds']:.2f}",
                f"{row['list_cpu_seconds']:.2f}",
                f"{row['harvested_list_seconds']:.2f}",
                f"{row['harvested_list_cpu_seconds']:.2f}",
                f"{row['harvest_seconds']:.2f}",
            )
        console.print(table)
    return found


def _busy(folder: Path, console: Console, maps: int) -> dict[str, Any]:
    """Harvests maps of 100 tiles that have not changed, all at once."""
    requests = _TILES + _ASIDE
    ideal = requests / RATE
    with many_hosts(folder, _DEPTH) as server:
        describe(folder, server, maps, _ZONE)
        _harvest(folder, "first", FIRST_DAY)
        describe(folder, server, maps, _ZONE, f"requests_per_second = {RATE}")
        server.clear_log()
        cost = _harvest(folder, "second", SECOND_DAY, "--at-once", str(maps))
        asked = _asked(server, maps, requests)
    latest = max(times[-1] - times[0] for times in asked.values())
    most = max(Counter(int(moment) for moment in times).most_common(1)[0][1] for times in asked.values())
    found = {
        "maps": maps,
        "ideal_seconds": ideal,
        "wall_seconds": cost.wall,
        "of_ideal": cost.wall / ideal,
        "slowest_map_of_ideal": latest / ideal,
        "most_in_a_second": most,
        "rss_megabytes": cost.rss,
        "cpu_per_request_ms": 1000 * cost.cpu / sum(map(len, asked.values())),
    }
    console.print(_table(f"{maps} maps of {_TILES} tiles at {RATE}/s, one process", found))
    return found


def _quiet(folder: Path, console: Console, maps: int) -> dict[str, Any]:
    """Harvests maps of four tiles that have not changed."""
    with many_hosts(folder, 1) as server:
        describe(folder, server, maps)
        _harvest(folder, "first", FIRST_DAY, "--at-once", str(_AT_ONCE))
        server.clear_log()
        cost, began = _timed_harvest(folder, SECOND_DAY)
        asked = _asked(server, maps, count(1) + _ASIDE)
    found = {
        "maps": maps,
        "wall_seconds": cost.wall,
        "first_request_seconds": min(times[0] for times in asked.values()) - began,
        "cpu_per_map_ms": 1000 * cost.cpu / maps,
        "rss_megabytes": cost.rss,
    }
    console.print(_table(f"{maps:,} quiet maps, {_AT_ONCE} at once", found))
    return found


def _described(folder: Path, maps: int) -> dict[str, Any]:
    """Asks for the list of maps, harvests one of them, and asks for the list when all have been harvested."""
    with many_hosts(folder, 1) as server:
        describe(folder, server, maps)
        harvest = _harvest(folder, "one", FIRST_DAY, names=(f"map-{maps - 1}",))
    listed = scrapy(folder, "list", "maps", "--json")
    asyncio.run(_fill(folder / "data", maps))
    harvested = scrapy(folder, "harvested-list", "maps", "--json")
    return {
        "maps": maps,
        "harvest_seconds": harvest.wall,
        "list_seconds": listed.wall,
        "list_cpu_seconds": listed.cpu,
        "harvested_list_seconds": harvested.wall,
        "harvested_list_cpu_seconds": harvested.cpu,
    }


async def _fill(data: Path, maps: int) -> None:
    """Leaves what harvests of two days leave: four tiles of each map in the history, and its queue.

    To make so many harvests would take a quarter of an hour.
    """
    layer, tiles = Layer("day", Pyramid(1), "png"), [Tile(0, x, y) for x in (-1, 1) for y in (-1, 1)]
    with History.open(f"sqlite:///{data / 'history.sqlite'}") as history:
        for number in range(maps - 1):
            name, image = f"map-{number}", Image(f"{number:040x}", "png", 1)
            added = [
                TileResult("day", tile, Outcome.ADDED, image=image, body=b"x", validator=Validator('"1"'))
                for tile in tiles
            ]
            ignored = [TileResult("day", tile, Outcome.IGNORED) for tile in tiles]
            for day, results in ((FIRST_DAY, added), (SECOND_DAY, ignored)):
                began = datetime.fromisoformat(f"{day}T06:00:00+00:00")
                record = begin(history, Beginning(name, day, began.date(), began, "overviewer", [layer]))
                record.note_walk("full", "no full harvest is finished so far")
                record.record(results)
                record.finish(began + timedelta(minutes=1), FINISHED, settle_gone=True)
            queue = SqliteQueue(data / "queues" / f"{name}.sqlite")
            await queue.open(0.0)
            await queue.close()


@contextmanager
def many_hosts(folder: Path, depth: int) -> Iterator[Nginx]:
    """Serves a site of so many zooms, at every address of the loopback."""
    generate(folder / "site", depth)
    with on_core(cores()[1]), nginx(folder / "site", address="0.0.0.0") as server:  # noqa: S104 - loopback only
        yield server


def describe(folder: Path, server: Nginx, maps: int, *lines_of_each: str) -> None:
    """Writes a maps.toml with so many maps, each at an address of its own."""
    lines = []
    for number in range(maps):
        url = f"http://{_address(number)}:{server.port}/"
        lines += [
            f"[map-{number}]",
            f'url = "{url}"',
            "change_index = false",
            *lines_of_each,
        ]
    (folder / "maps.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _address(number: int) -> str:
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


def _harvest(folder: Path, what: str, day: str, *more: str, names: tuple[str, ...] = ("--all",)) -> Cost:
    return scrapy(folder, what, "harvest", *names, "-a", f"day={day}", "--json", *more)


def _timed_harvest(folder: Path, day: str) -> tuple[Cost, float]:
    """Returns the cost of an unchanged harvest of all maps, and when it began, in seconds since 1970."""
    began = time.time()
    return _harvest(folder, "second", day, "--at-once", str(_AT_ONCE)), began


def scrapy(folder: Path, what: str, *words: str, **places: str) -> Cost:
    """Runs a command of the project. `what` names its log; `places` are variables, such as REDIS_URL."""
    environment = {"TILEHARVEST_MAPS": str(folder / "maps.toml"), "TILEHARVEST_DATA": str(folder / "data")}
    command = [sys.executable, "-m", "scrapy", *words]
    return run(command, folder / f"{what}.log", PROJECT, environment | places)


def _asked(server: Nginx, maps: int, requests: int) -> dict[str, list[float]]:
    """Returns when each host was asked, in order. Raises RunFailedError unless each was asked so often."""
    asked: defaultdict[str, list[float]] = defaultdict(list)
    for line in server.log():
        asked[line.host].append(line.time - line.duration)
    if len(asked) != maps or any(len(times) != requests for times in asked.values()):
        numbers = Counter(map(len, asked.values()))
        raise RunFailedError(
            f"{len(asked)} of {maps} maps were asked, so often: {json.dumps(numbers)}, not {requests} times"
        )
    return {host: sorted(times) for host, times in asked.items()}


def _table(title: str, found: dict[str, Any]) -> Table:
    table = Table("", "", title=title, show_header=False)
    for name, value in found.items():
        table.add_row(name, f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
    return table
