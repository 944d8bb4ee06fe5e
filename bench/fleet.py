"""Fleets: workers that share a queue in Redis and a history in PostgreSQL, on a map that is 50 ms away.

Each walk is the harvest of a map in which nothing has changed. The map's `concurrency` limits the requests
that all workers together have on the way, and grows with the workers here, so the rate should, too. The CPU
of a tile should stay the same. Site, Redis and PostgreSQL share a core; the workers may use every core.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench.cost import PROJECT, RunFailedError, cores, on_core, places
from bench.far_site import asked_of, far_site
from bench.site import count, depth_for
from tests.servers.postgresql import postgresql_server
from tests.servers.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

TILES: Final = 5_000
WORKERS: Final = (1, 2, 4)
LATENCY: Final = 0.05
"""Seconds until each answer."""
EACH: Final = 8
"""Requests at a time per worker. They are few, so that four workers together need less than a core."""
_FIRST_DAY: Final = date(2024, 1, 2)
_DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "everysec")


def measure(folder: Path, console: Console, tiles: int, fleets: Sequence[int]) -> dict[str, Any]:
    """Measures a walk with each number of workers."""
    folder.mkdir()
    every = count(depth_for(tiles))
    walks = []
    with ExitStack() as running:
        with on_core(cores()[1]):
            redis = running.enter_context(redis_server(*_DURABLE))
            postgresql = running.enter_context(postgresql_server())
        site = running.enter_context(far_site(depth_for(tiles), LATENCY))
        database = running.enter_context(postgresql.database())
        shared = {"REDIS_URL": redis.url, "DATABASE_URL": postgresql.tcp_url(database)}
        _walk(folder, site, shared, max(fleets), _FIRST_DAY)
        for number, workers in enumerate(fleets, start=1):
            redis.ask("FLUSHALL")
            redis.ask("CONFIG", "RESETSTAT")
            day = _FIRST_DAY + timedelta(days=number)
            costs, asked = _walk(folder, site, shared, workers, day)
            heads = asked["HEAD"]
            if (len(heads), asked["GET"]) != (every, []):
                raise RunFailedError(f"{len(heads)} HEADs and {len(asked['GET'])} GETs, not {every} and 0")
            tenth = len(heads) // 10
            walks.append(
                {
                    "workers": workers,
                    # From the first tenth of the tiles on: all workers have long come by then.
                    "tiles_per_second": (len(heads) - tenth) / (heads[-1] - heads[tenth]),
                    "cpu_per_thousand": sum(cpu for cpu, _ in costs) / len(heads) * 1000,
                    "rss": max(rss for _, rss in costs),
                    "redis_commands_per_tile": redis.ask("INFO", "stats")["total_commands_processed"]
                    / len(heads),
                }
            )
    table = Table("workers", "tiles/s", "x one", "CPU ms per tile", "RSS MB", "Redis commands per tile")
    for workers, speed, cpu, rss, commands in (one.values() for one in walks):
        times = speed / walks[0]["tiles_per_second"]
        table.add_row(
            str(workers), f"{speed:,.0f}", f"{times:.2f}", f"{cpu:.3f}", f"{rss:.0f}", f"{commands:.2f}"
        )
    console.print(table)
    return {"walks": walks}


def _walk(
    folder: Path, site: str, shared: Mapping[str, str], workers: int, day: date
) -> tuple[list[tuple[float, float]], dict[str, list[float]]]:
    """Harvests the map with these workers at once. Returns the CPU seconds and the memory of each, and when
    tiles were asked for."""
    limits = f"concurrency = {EACH * workers}\nchange_index = false\n"
    entry = f'[bench]\nurl = "{site}/"\ntimezone = "UTC"\n{limits}'
    (folder / "maps.toml").write_text(entry, encoding="utf-8")
    command = [sys.executable, "-m", "scrapy", "crawl", "overviewer", "-a", "map=bench", "-a", f"day={day}"]
    processes = []
    for number in range(workers):
        with (folder / f"{day}-{number}.log").open("wb") as file:
            environment = os.environ | places(folder) | dict(shared)
            processes.append(
                subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=file, stderr=subprocess.STDOUT)
            )
    costs = []
    for number, process in enumerate(processes):
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            words = (folder / f"{day}-{number}.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RunFailedError(f"worker {number} ended with {process.returncode}:\n{words}")
        costs.append((used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
    return costs, asked_of(site)
