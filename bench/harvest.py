"""Harvests of a generated site, beside stock Scrapy, and as the map grows.

Each harvest has one core to itself, and nginx has the other. The cost of the same command on a map of 4 tiles
is subtracted, so that start-up does not blur the cost of a tile.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench.cost import Cost, RunFailedError, cores, on_core, run, scrapy
from bench.site import count, depth_for, generate
from bench.stock import CONCURRENCY
from tests.servers.nginx import nginx

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from tests.servers.nginx import Nginx

RATIO_SIZE: Final = 20_000
SIZES: Final = (5_000, 20_000, 80_000)
DAYS: Final = ("2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-06", "2024-01-07")
LEAST_RATIO: Final = 20.0
"""Times as fast as stock Scrapy that an unchanged harvest must be, by CPU. It is some way below what was
measured last, which differs by a fifth from run to run (docs/benchmarks.md)."""
MOST_MEMORY: Final = {20_000: 165, 80_000: 185}
"""MB that an unchanged harvest may hold at most, by the least tiles of its map."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured run."""

    what: str
    tiles: int
    whole: Cost
    """The cost of the whole process."""
    net: Cost
    """The cost without start-up."""

    @property
    def tiles_per_second(self) -> float:
        return self.tiles / self.net.wall

    @property
    def cpu_per_thousand(self) -> float:
        """CPU seconds per 1,000 tiles."""
        return self.net.cpu / self.tiles * 1000

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "tiles_per_second": self.tiles_per_second,
            "cpu_per_thousand": self.cpu_per_thousand,
        }


class Harvests:
    """Measured runs against generated sites, which lie in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = 0
        self._start_ups: dict[str, Cost] = {}

    def ours(self, depth: int) -> list[Figure]:
        """Measures the first harvest, and those of the following days, on which nothing has changed. One of
        them may find the machine half as fast as the next one, so there are several."""
        first, *unchanged = self._ours(depth, DAYS)
        found = [self._figure("unchanged", depth, cost) for cost in unchanged]
        return [self._figure("first", depth, first), *found]

    def stock(self, depth: int) -> Figure:
        """Measures stock Scrapy, which only asks."""
        return self._figure("stock", depth, self._stock(depth))

    def _figure(self, what: str, depth: int, whole: Cost) -> Figure:
        if what not in self._start_ups:
            first, unchanged = self._ours(1, DAYS[:2])
            self._start_ups = {"first": first, "unchanged": unchanged, "stock": self._stock(1)}
        return Figure(what, count(depth), whole, whole.without(self._start_ups[what]))

    def _ours(self, depth: int, days: Sequence[str]) -> list[Cost]:
        self._runs += 1
        folder = self._folder / f"ours-{self._runs}"
        folder.mkdir()
        with self._site(depth) as server:
            limits = f"concurrency = {CONCURRENCY}\nchange_index = false\n"
            entry = f'[bench]\nurl = "{server.url}/"\ntimezone = "UTC"\n{limits}'
            (folder / "maps.toml").write_text(entry, encoding="utf-8")
            costs = []
            for day in days:
                costs.append(scrapy(folder, *_crawl(day)))
                check(server, {"HEAD": count(depth), "GET": 0} if costs[1:] else {"GET": count(depth)})
                server.clear_log()
        return costs

    def _stock(self, depth: int) -> Cost:
        with self._site(depth) as server:
            command = [sys.executable, "-m", "bench.stock", server.url, str(depth)]
            cost = run(command, self._folder / "stock.log", {})
            check(server, {"HEAD": count(depth)})
        return cost

    @contextmanager
    def _site(self, depth: int) -> Iterator[Nginx]:
        folder = self._folder / f"site-{depth}"
        if not folder.exists():
            generate(folder, depth)
        with on_core(cores()[1]), nginx(folder) as server:
            yield server


def _crawl(day: str) -> Sequence[str]:
    return ("crawl", "overviewer", "-a", "map=bench", "-a", f"day={day}")


def check(server: Nginx, wanted: Mapping[str, int]) -> None:
    """Raises RunFailedError unless exactly so many tiles were answered with 200, by method.

    The figures of a run that skipped tiles, or fetched known ones, would mean nothing.
    """
    tiles = (line for line in server.log() if line.path.endswith(".png") and line.status == 200)
    answered = Counter(line.method for line in tiles)
    for method, number in wanted.items():
        if answered[method] != number:
            raise RunFailedError(f"{answered[method]} tiles were answered to {method} requests, not {number}")


def ratio(folder: Path, console: Console, pairs: int) -> dict[str, Any]:
    """Measures ours and stock Scrapy in turn, so that the machine's other work falls on both."""
    harvests, depth, figures = Harvests(folder), depth_for(RATIO_SIZE), list[Figure]()
    for _ in range(pairs):
        figures += [*harvests.ours(depth), harvests.stock(depth)]
    console.print(_table("Against stock Scrapy", figures))
    ours, theirs = ([figure for figure in figures if figure.what == what] for what in ("unchanged", "stock"))
    by_wall = _median(ours, "tiles_per_second") / _median(theirs, "tiles_per_second")
    # CPU time is less disturbed by the machine's other work than the clock.
    by_cpu = _median(theirs, "cpu_per_thousand") / _median(ours, "cpu_per_thousand")
    console.print(
        f"Times as fast as stock Scrapy: {by_wall:.2f} by the clock, {by_cpu:.2f} by CPU (medians)."
    )
    return {"runs": [figure.as_json() for figure in figures], "ratio": by_wall, "ratio_by_cpu": by_cpu}


def flat(folder: Path, console: Console, sizes: Sequence[int]) -> dict[str, Any]:
    """Measures maps of several sizes: the cost of a tile should stay the same."""
    harvests = Harvests(folder)
    figures = [figure for size in sizes for figure in harvests.ours(depth_for(size))]
    console.print(_table("As the map grows", figures))
    return {"runs": [figure.as_json() for figure in figures]}


def shortfalls(found: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each figure that is worse than its bound."""
    ratio = found.get("ratio", {}).get("ratio_by_cpu")
    if ratio is not None and ratio < LEAST_RATIO:
        speed = f"{ratio:.1f} times as fast as stock Scrapy by CPU"
        yield f"too slow: {speed}, and {LEAST_RATIO:.1f} is the least"
    for figure in (one for part in found.values() for one in part.get("runs", ())):
        tiles, memory = figure["tiles"], figure["whole"]["rss"]
        bounds = [most for least, most in MOST_MEMORY.items() if tiles >= least]
        if figure["what"] == "unchanged" and bounds and memory > max(bounds):
            yield (
                f"too much memory: the unchanged harvest of {tiles:,} tiles took {memory:.0f} MB, and"
                f" {max(bounds)} MB are the most"
            )


def _table(title: str, figures: Sequence[Figure]) -> Table:
    table = Table("run", "tiles", "tiles/s", "CPU ms per tile", "RSS MB", "wall s", "CPU s", title=title)
    for one in figures:
        speed, cost = f"{one.tiles_per_second:,.0f}", f"{one.cpu_per_thousand:.3f}"
        whole = (f"{one.whole.rss:.0f}", f"{one.whole.wall:.1f}", f"{one.whole.cpu:.1f}")
        table.add_row(one.what, f"{one.tiles:,}", speed, cost, *whole)
    return table


def _median(figures: Sequence[Figure], name: str) -> float:
    return float(statistics.median(getattr(figure, name) for figure in figures))
