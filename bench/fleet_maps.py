"""Many maps at a fleet: how much faster several workers harvest them than one with as many maps at once.

All maps are one site without limits, each at an address of its own, so that the workers' processors are what
limits. The queues are in one Redis, the history is in PostgreSQL. There are three series. In the first one
the workers may use every core, and so must nginx, Redis and PostgreSQL: on two cores, two workers cannot be
twice as fast. In the others each worker has a small computer of its own, and the servers have what is left.

Where the computer has other work, its clock tells little. What a worker was idle still tells: one that is
hardly ever idle has waited for a core, and for nothing else.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench.boxes import boxes, can_make_boxes
from bench.cost import RunFailedError, family_cpu
from bench.fleet import AS_RECOMMENDED, Database
from bench.harvest import FIRST_DAY
from bench.maps import describe
from bench.redis_figures import counted
from bench.site import count, generate
from bench.workers import Workers
from tests.servers.nginx import nginx
from tests.servers.postgresql import postgresql_server
from tests.servers.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from bench.boxes import Box
    from bench.cost import Cost
    from tests.servers.nginx import Nginx
    from tests.servers.redis import RedisServer

MAPS: Final = 40
WORKERS: Final = (1, 2)
SMALL: Final = (1, 2, 4)
"""Workers of the third series."""
LARGE_BOX: Final = 0.4
"""The part of a core that each of two workers has in the second series. The servers then have more than a
core, so that they do not limit the rate."""
BOX: Final = 0.1
"""The part of a core that a small computer has. Four of them leave the servers as much as they need."""
_DEPTH: Final = 4
"""Of a map with 340 tiles."""
_SMALL_DEPTH: Final = 3
"""Of a map with 84 tiles, for small computers."""
_AT_ONCE: Final = 16
"""The default."""
_PATIENCE: Final = 600.0
"""Seconds that a fleet may take."""


@dataclass(frozen=True, slots=True)
class FleetHarvest:
    """One harvest of all maps by a fleet. Nothing has changed in them."""

    workers: int
    box: float | None
    """The part of a core that each worker had, where it had no more."""
    requests: int
    seconds: float
    """From the first tile that nginx was asked for to the last one."""
    wall: float
    """Seconds from the workers' start to their end."""
    worker_cpu: list[float]
    """Seconds of CPU of each worker, start-up included."""
    worker_idle: list[float]
    """Seconds in which each worker's event loop had nothing to do."""
    nginx_cpu: float
    redis_cpu: float
    postgresql_cpu: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Fleet:
    """The maps and their servers, and workers that come for a harvest."""

    def __init__(
        self, folder: Path, site: Nginx, redis: RedisServer, database: Database, *, maps: int, depth: int
    ) -> None:
        """Makes the first harvest of all maps, by one worker. `folder` must hold nothing of another one."""
        self._folder = folder
        self._site = site
        self._redis = redis
        self._database = database
        self._tiles = maps * count(depth)
        self._day = date.fromisoformat(FIRST_DAY)
        describe(folder, site, maps, 'walk = "full"', 'timezone = "UTC"')
        self._harvest([None])

    def harvest(self, workers: Sequence[Box | None], box: float | None = None) -> FleetHarvest:
        """Measures the next day's harvest. Raises RunFailedError unless each tile was asked for once."""
        self._day += timedelta(days=1)
        self._site.clear_log()
        nginx_before, postgresql_before = self._nginx_cpu(), self._database.cpu()
        with counted(self._redis) as redis:
            costs, idle = self._harvest(workers)
        # Before the log is read: that is one more request.
        nginx_cpu, postgresql_cpu = self._nginx_cpu() - nginx_before, self._database.cpu() - postgresql_before
        asked = [line.time - line.duration for line in self._site.log() if line.path.endswith(".png")]
        if len(asked) != self._tiles:
            raise RunFailedError(f"{len(asked)} of {self._tiles} tiles were asked for")
        return FleetHarvest(
            len(workers),
            box,
            len(asked),
            seconds=max(asked) - min(asked),
            wall=max(cost.wall for cost in costs),
            worker_cpu=[cost.cpu for cost in costs],
            worker_idle=idle,
            nginx_cpu=nginx_cpu,
            redis_cpu=redis.cpu,
            postgresql_cpu=postgresql_cpu,
        )

    def _harvest(self, workers: Sequence[Box | None]) -> tuple[list[Cost], list[float]]:
        places = {
            "TILEHARVEST_MAPS": str(self._folder / "maps.toml"),
            "TILEHARVEST_DATA": str(self._folder / "data"),
            "REDIS_URL": self._redis.url,
            "DATABASE_URL": self._database.server.tcp_url(self._database.name),
        }
        words = ("harvest", "--all", "-a", f"day={self._day}", "--at-once", str(_AT_ONCE), "--json")
        output = self._folder / f"{self._day}-{len(workers)}"
        with Workers([sys.executable, "-m", "scrapy", *words], places, output, workers) as running:
            return running.costs(_PATIENCE), running.idle

    def _nginx_cpu(self) -> float:
        return family_cpu(self._site.process.pid)


def measure(folder: Path, console: Console, maps: int) -> dict[str, Any]:
    """Measures workers without a limit, and then on parts of a core. The latter are left out where no small
    computers can be made."""
    can_limit = can_make_boxes()
    with _fleet(folder / "large", maps, _DEPTH) as fleet:
        found = [fleet.harvest([None] * workers) for workers in WORKERS]
        limited = _limited(fleet, WORKERS, LARGE_BOX) if can_limit else []
    title = f"{maps} maps of {count(_DEPTH)} tiles, {_AT_ONCE} at once"
    console.print(_table(title, found))
    if not can_limit:
        console.print("Small computers are left out: no control groups can be made here.")
        return {"harvests": [one.as_json() for one in found]}
    console.print(_table(f"{title}, workers on {LARGE_BOX:.0%} of a core", limited))
    with _fleet(folder / "small", maps, _SMALL_DEPTH) as fleet:
        small = _limited(fleet, SMALL, BOX)
    console.print(
        _table(f"{maps} maps of {count(_SMALL_DEPTH)} tiles, workers on {BOX:.0%} of a core", small)
    )
    return {"harvests": [one.as_json() for one in (*found, *limited, *small)]}


def _limited(fleet: Fleet, numbers: Sequence[int], part: float) -> list[FleetHarvest]:
    """Measures a harvest by each of these numbers of workers, each on its part of a core."""
    found = []
    for workers in numbers:
        with boxes(workers, part) as computers:
            found.append(fleet.harvest(computers, part))
    return found


@contextmanager
def _fleet(folder: Path, maps: int, depth: int) -> Iterator[Fleet]:
    """Runs the servers, on every core."""
    generate(folder / "site", depth)
    with ExitStack() as running:
        site = running.enter_context(nginx(folder / "site", address="0.0.0.0"))  # noqa: S104 - loopback only
        redis = running.enter_context(redis_server(*AS_RECOMMENDED))
        postgresql = running.enter_context(postgresql_server())
        database = Database(running.enter_context(postgresql.database()), postgresql)
        yield Fleet(folder, site, redis, database, maps=maps, depth=depth)


def _table(title: str, found: Sequence[FleetHarvest]) -> Table:
    columns = ("workers", "s", "x one", "idle", "CPU ms per request", "nginx", "Redis", "PostgreSQL")
    table = Table(*columns, title=title)
    for one in found:
        servers = (one.nginx_cpu, one.redis_cpu, one.postgresql_cpu)
        table.add_row(
            f"{one.workers}",
            f"{one.seconds:.1f}",
            f"{found[0].seconds / one.seconds:.2f}",
            ", ".join(f"{idle / one.wall:.0%}" for idle in one.worker_idle),
            f"{1000 * sum(one.worker_cpu) / one.requests:.2f}",
            *(f"{1000 * cpu / one.requests:.2f}" for cpu in servers),
        )
    return table
