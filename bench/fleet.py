"""Fleets: workers that share a queue in Redis, beside workers of scrapy-redis, on a map that is 50 ms away.

Each walk is the harvest of a map in which nothing has changed. The map's `concurrency` limits the requests
that all workers together have on the way. So more workers are faster only where the concurrency grows with
them, or where the processor of each worker is the limit. Therefore there are three series: the same
concurrency per worker; the same in total; the same in total with workers on small computers.

The site, Redis and PostgreSQL, which keeps our history, share a core. The workers may use every core.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from rich.table import Column, Table

from bench.boxes import boxes, can_make_boxes
from bench.cost import cores, family_cpu, on_core
from bench.distant_site import distant_site
from bench.programs import ScrapyRedis, TileHarvest, check_asked
from bench.redis_figures import RedisFigures, counted
from bench.site import depth_for
from tests.servers.postgresql import postgresql_server
from tests.servers.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from bench.boxes import Box
    from bench.distant_site import DistantSite
    from bench.programs import Program
    from tests.servers.postgresql import PostgresqlServer
    from tests.servers.redis import RedisServer

LATENCY: Final = 0.05
"""Seconds until each answer."""
EACH: Final = 8
"""Requests at a time per worker. They are few, so that four workers together need less than a core."""
TOTAL: Final = 64
"""Requests at a time of all workers together: enough for 1,280 tiles/s."""
BOX: Final = 0.1
"""The part of a core that a small computer has. Four of them manage fewer requests than `TOTAL` allows."""

AS_RECOMMENDED: Final = ("--appendonly", "yes", "--appendfsync", "everysec")
_START_UPS: Final = 3
"""How often the cost of start-up is measured; the median counts."""
_TITLES: Final = {
    "each": f"{EACH} requests at a time per worker: the rate is to grow with the workers",
    "total": f"{TOTAL} requests at a time in total: CPU per tile is to stay flat",
    "small": f"{TOTAL} in total, each worker on {BOX:.0%} of a core: the rate is to grow with the workers",
}


@dataclass(frozen=True, slots=True)
class Walk:
    """One measured walk down the whole map."""

    series: str
    program: str
    workers: int
    concurrency: int
    """Requests at a time, of all workers together."""
    tiles: int
    seconds: float
    """Seconds from the end of the first tenth of the tiles to the last tile's request.

    By the first tenth all workers have long come."""
    seconds_to_end: float
    """Seconds from the last tile's request until the last worker had ended.

    Workers of scrapy-redis are told to end."""
    cpu: float
    """Seconds of CPU of all workers, without those that as many workers need for a map of 4 tiles."""
    rss: float
    """The most memory that one worker held, in MB of 2^20 bytes."""
    redis: RedisFigures
    database_cpu: float
    """Seconds of CPU of the history's server, which scrapy-redis does not use."""
    statements: int
    """The statements that the history's server has executed, with those that begin and end transactions.

    The workers wait for the answer to each, so these are the round trips but for some of each connection's
    beginning."""
    site_load: float
    """The share that the site used of the core on which all servers run."""

    @property
    def tiles_per_second(self) -> float:
        return (self.tiles - self.tiles // 10) / self.seconds

    @property
    def cpu_per_thousand(self) -> float:
        return self.cpu / self.tiles * 1000

    @property
    def with_servers(self) -> float:
        """CPU seconds of workers, Redis and database per 1,000 tiles."""
        return (self.cpu + self.redis.cpu + self.database_cpu) / self.tiles * 1000

    @property
    def round_trips(self) -> float:
        """Round trips to Redis per tile."""
        return self.redis.reads / self.tiles

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "tiles_per_second": self.tiles_per_second,
            "cpu_per_thousand": self.cpu_per_thousand,
            "cpu_per_thousand_with_servers": self.with_servers,
            "round_trips_per_tile": self.round_trips,
            "statements_per_tile": self.statements / self.tiles,
            "redis_commands_per_tile": self.redis.commands / self.tiles,
        }


@dataclass(frozen=True, slots=True)
class Database:
    """The database of a history."""

    name: str
    server: PostgresqlServer

    def cpu(self) -> float:
        """Returns the seconds of CPU that all processes of the server have used."""
        first, *_ = (self.server.folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split()
        return family_cpu(int(first))

    def statements(self) -> int:
        """Returns how many statements the server has executed in this database, by its own count."""
        ((statements,),) = self.server.ask(
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements"  # noqa: S608 - the bench's own name
            f" JOIN pg_database ON pg_database.oid = dbid WHERE datname = '{self.name}'"
        )
        return int(statements)


@dataclass(slots=True)
class Course:
    """A site, and the programs that walk down its map."""

    folder: Path
    site: DistantSite
    redis: RedisServer
    database: Database
    walks: int = 0
    programs: dict[str, Program] = field(default_factory=dict)

    def begin(self) -> None:
        """Makes the first harvest, which is not measured."""
        self.folder.mkdir()
        for program in (
            TileHarvest(
                self.folder / "ours", self.site, self.redis, self.database.server.tcp_url(self.database.name)
            ),
            ScrapyRedis(self.folder / "theirs", self.site, self.redis),
        ):
            self.programs[program.name] = program

    def walk(
        self, series: str, program: str, workers: int, concurrency: int, small: Sequence[Box] = ()
    ) -> Walk:
        """Measures one walk, start-up included.

        Raises RunFailedError unless each tile was asked for once.
        """
        self.walks += 1
        folder, before = self.folder / f"walk-{self.walks}", self.site.asked().cpu
        database_before, statements_before = self.database.cpu(), self.database.statements()
        with counted(self.redis) as figures:
            costs, ended = self.programs[program].walk(folder, concurrency, small or [None] * workers)
        asked = self.site.asked()
        check_asked(asked, heads=self.site.tiles, gets=0)
        first, last = asked.heads[self.site.tiles // 10], asked.heads[-1]
        return Walk(
            series,
            program,
            workers,
            concurrency,
            self.site.tiles,
            seconds=last - first,
            seconds_to_end=ended - last,
            cpu=sum(cost.cpu for cost in costs),
            rss=max(cost.rss for cost in costs),
            redis=figures,
            database_cpu=self.database.cpu() - database_before,
            statements=self.database.statements() - statements_before,
            site_load=(asked.cpu - before) / (ended - asked.heads[0]),
        )


class Fleets:
    """All walks of the bench, one after the other."""

    def __init__(self, tiny: Course, middle: Course, large: Course) -> None:
        self._tiny = tiny
        self._middle = middle
        self._large = large
        self._start_ups: dict[tuple[str, int], float] = {}

    def each(self, fleets: Sequence[int]) -> Iterator[Walk]:
        for workers in fleets:
            yield self._net(self._middle.walk("each", TileHarvest.name, workers, EACH * workers))

    def total(self, fleets: Sequence[int]) -> Iterator[Walk]:
        """Measures ours and theirs in turn, so that the computer's other work falls on both."""
        for workers in fleets:
            for program in (TileHarvest.name, ScrapyRedis.name):
                yield self._net(self._large.walk("total", program, workers, TOTAL))

    def small(self, fleets: Sequence[int]) -> Iterator[Walk]:
        for workers in fleets:
            with boxes(workers, BOX) as found:
                yield self._net(self._middle.walk("small", TileHarvest.name, workers, TOTAL, found))

    def _net(self, walk: Walk) -> Walk:
        what = (walk.program, walk.workers)
        if what not in self._start_ups:
            found = [self._tiny.walk("start", *what, TOTAL).cpu for _ in range(_START_UPS)]
            self._start_ups[what] = statistics.median(found)
        return replace(walk, cpu=walk.cpu - self._start_ups[what])


def measure(folder: Path, console: Console, tiles: int, fleets: Sequence[int]) -> dict[str, Any]:
    """Measures all series and prints a table after each.

    The series of small computers is left out where none can be made. The map has at least `tiles` tiles; the
    series that tell of rates use one with a quarter of them. Raises RunFailedError where a walk was not
    complete.
    """
    depth = depth_for(tiles)
    with ExitStack() as running:
        with on_core(cores()[1]):
            redis = running.enter_context(redis_server(*AS_RECOMMENDED))
            postgresql = running.enter_context(
                postgresql_server(shared_preload_libraries="pg_stat_statements")
            )
        postgresql.ask("CREATE EXTENSION pg_stat_statements")
        courses = []
        for each in (1, depth - 1, depth):
            site = running.enter_context(distant_site(each, LATENCY))
            database = Database(running.enter_context(postgresql.database()), postgresql)
            courses.append(Course(folder / f"fleet-{each}", site, redis, database))
        for course in courses:
            course.begin()
        found = Fleets(*courses)
        walks = _shown(console, "each", list(found.each(fleets)))
        walks += _shown(console, "total", list(found.total(fleets)))
        if can_make_boxes():
            walks += _shown(console, "small", list(found.small(fleets)))
        else:
            console.print("Small computers are left out: no control groups can be made here.")
    return {"walks": [walk.as_json() for walk in walks], **_summary(console, walks)}


def _shown(console: Console, series: str, walks: list[Walk]) -> list[Walk]:
    columns = (
        "tiles/s",
        "x one",
        "CPU s per 1,000",
        "with servers",
        "round trips",
        "Redis commands",
        "PostgreSQL statements",
    )
    title = f"{_TITLES[series]}; {walks[0].tiles:,} tiles"
    table = Table(Column("workers", no_wrap=True), *columns, title=title)
    for walk in walks:
        one = next(first for first in walks if first.program == walk.program)
        table.add_row(
            f"{walk.workers} {walk.program}",
            f"{walk.tiles_per_second:,.0f}",
            f"{walk.tiles_per_second / one.tiles_per_second:.2f}",
            f"{walk.cpu_per_thousand:.3f}",
            f"{walk.with_servers:.3f}",
            f"{walk.round_trips:.4f}",
            f"{walk.redis.commands / walk.tiles:.1f}",
            f"{walk.statements / walk.tiles:.4f}",
        )
    console.print(table)
    return walks


def _summary(console: Console, walks: list[Walk]) -> dict[str, Any]:
    """Prints and returns tiles per CPU second as multiples of scrapy-redis', by the number of workers."""
    total = {(walk.program, walk.workers): walk for walk in walks if walk.series == "total"}
    fleets = sorted({workers for _, workers in total})
    pairs = [(total[TileHarvest.name, each], total[ScrapyRedis.name, each]) for each in fleets]
    by_cpu = {ours.workers: theirs.cpu / ours.cpu for ours, theirs in pairs}
    with_servers = {ours.workers: theirs.with_servers / ours.with_servers for ours, theirs in pairs}
    console.print("Tiles per CPU second, as multiples of scrapy-redis' with as many workers:")
    for workers, ratio in by_cpu.items():
        console.print(f"{workers}: {ratio:.2f}, with Redis and database {with_servers[workers]:.2f}")
    return {"ratio_by_cpu": by_cpu, "ratio_by_cpu_with_servers": with_servers}
