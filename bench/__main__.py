"""The command `make bench`: measures harvests, schedulers, the viewer and fleets of workers.

    make bench                               all parts
    make bench ARGS="ratio --pairs 1"        ours against stock, once each
    make bench ARGS="flat --sizes 5000 20000"
    make bench ARGS="sparse"                 memory and time of a map as people have them, of 84,199 tiles
    make bench ARGS="link"                   a link of 40 ms and 50 Mbit/s
    make bench ARGS="schedulers"             a harvest with our scheduler and with Scrapy's
    make bench ARGS="clients"                an unchanged harvest beside `wget -N` and `curl --parallel`
    make bench ARGS="queues --queued 10000"  schedulers alone, without any request made
    make bench ARGS="viewer --versions 1000000"
                                             the viewer on a long history, beside nginx and SQLite alone
    make bench ARGS="fleet --shared 20000"   workers that share a queue in Redis, beside scrapy-redis
    make bench ARGS="walks --walked 1000"    full, pruned and conditional harvests as tiles change
    make bench ARGS="maps --many 250 --quiet 1000 --described 100 1000"
                                             many maps side by side in one process
    make bench ARGS="fleet-maps"             many maps at one worker and at several
    make bench ARGS="unit-costs"             bytes and CPU of a map, a tile and a version
    make bench ARGS="import --commits 2000"  the past of a map in git, commit by commit; and
                                             what a quiet day asks by each walk, an index, and git
    make bench ARGS="export --export-depth 6"
                                             mosaics, a difference and a restored tree of 4,096 tiles
    make bench ARGS="simulation --days 30"   10,000 maps and 20 workers under a given clock
    make bench ARGS="stock"                  stock Scrapy alone

A single crawler has one core to itself, and nginx has another. The cost of the same command on a map of 4
tiles is subtracted, so that start-up does not blur the cost of a tile. Tables go to standard error, and one
JSON object goes to standard output. Where a figure is worse than its bound, a line on standard error says so,
and the status is 1.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench import clients as ask_by
from bench import exports, fleet, fleet_maps, imports, maps, narrow_link, quiet_day, unit_costs, walks
from bench.cost import Cost, cores, on_core, run
from bench.fleet_simulation import FleetSimulation
from bench.harvest import PROJECT, check, harvest_twice
from bench.site import count, depth_for, generate, generate_sparse
from bench.viewer import measure
from tests.servers.nginx import nginx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.servers.nginx import Nginx

SIZES = (5_000, 20_000, 80_000)
SPARSE = 84_199
RATIO_SIZE = 20_000
PAIRS = 3
LEAST_RATIO = 10.0
"""Times as fast as stock Scrapy that an unchanged harvest must be, by CPU. It is some way below what was
measured last, which differs by a fifth from run to run (docs/benchmarks.md)."""
MOST_MEMORY = {20_000: 165, 80_000: 185}
"""MB that an unchanged harvest may hold at most, by the least tiles of its map."""
QUEUED = (10_000, 100_000, 1_000_000)
VERSIONS = 1_000_000
SHARED = 20_000
WORKERS = (1, 2, 4)
SIMULATED = (10_000, 20)
PARTS = (
    "ratio",
    "flat",
    "sparse",
    "link",
    "schedulers",
    "clients",
    "queues",
    "viewer",
    "fleet",
    "walks",
    "maps",
    "fleet-maps",
    "unit-costs",
    "import",
    "export",
    "simulation",
)
NO_COST = Cost(0.0, 0.0, 0.0)
KINDS = ("tileharvest-memory", "tileharvest-sqlite", "scrapy-memory", "scrapy-jobdir")
SCRAPYS_SCHEDULER = (
    "-s",
    "SCHEDULER=scrapy.core.scheduler.Scheduler",
    "-s",
    "SCHEDULER_PRIORITY_QUEUE=scrapy.pqueues.ScrapyPriorityQueue",
)


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
            "tiles_per_second_of_whole_process": self.tiles / self.whole.wall,
            "cpu_per_thousand": self.cpu_per_thousand,
        }


class Bench:
    """Measured runs against generated sites, which lie in one temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0
        self._start_ups: dict[str, Cost] = {}

    @contextmanager
    def site(self, depth: int) -> Iterator[Nginx]:
        folder = self.folder / f"site-{depth}"
        if not folder.exists():
            generate(folder, depth)
        with ExitStack() as running:
            with on_core(cores()[1]):
                server = running.enter_context(nginx(folder))
            yield server

    def stock(self, depth: int) -> Figure:
        return self._figure("stock", depth, self._stock(depth), self._start_up("stock"))

    def with_scheduler(self, name: str, depth: int) -> Figure:
        """Measures the unchanged harvest with our scheduler (`ours`), or else with Scrapy's in memory."""
        settings = () if name == "ours" else SCRAPYS_SCHEDULER
        whole = self._ours(depth, settings)[1]
        return self._figure(f"{name} scheduler", depth, whole, self._start_up("unchanged"))

    def ours(self, depth: int) -> tuple[Figure, Figure]:
        """Measures the first harvest and the unchanged one."""
        first, unchanged = self._ours(depth)
        return (
            self._figure("first", depth, first, self._start_up("first")),
            self._figure("unchanged", depth, unchanged, self._start_up("unchanged")),
        )

    def by(self, program: str, depth: int) -> list[Figure]:
        """Measures another program, whose start-up is next to nothing; nothing where it is not there."""
        self.runs += 1
        with self.site(depth) as server:
            cost = ask_by.ask(program, server, depth, self.folder / f"client-{self.runs}")
        return [] if cost is None else [self._figure(program, depth, cost, NO_COST)]

    def _figure(self, what: str, depth: int, whole: Cost, start_up: Cost) -> Figure:
        return Figure(what, count(depth), whole, whole.without(start_up))

    def _start_up(self, what: str) -> Cost:
        """Returns the cost of the same command on a map of 4 tiles. It is measured once."""
        if what not in self._start_ups:
            if what == "stock":
                self._start_ups["stock"] = self._stock(1)
            else:
                self._start_ups["first"], self._start_ups["unchanged"] = self._ours(1)
        return self._start_ups[what]

    def _stock(self, depth: int) -> Cost:
        self.runs += 1
        with self.site(depth) as server:
            command = [sys.executable, "-m", "bench.stock", server.url, str(depth)]
            cost = run(command, self.folder / f"stock-{self.runs}.log", PROJECT, {})
            check(server, {"HEAD": count(depth), "GET": 0})
        return cost

    def _ours(self, depth: int, settings: Sequence[str] = ()) -> tuple[Cost, Cost]:
        self.runs += 1
        with self.site(depth) as server:
            harvests = harvest_twice(server, count(depth), self.folder / f"ours-{self.runs}", settings)
        return harvests.first, harvests.unchanged


def table(title: str, figures: list[Figure]) -> Table:
    result = Table("run", "tiles", "tiles/s", "CPU s per 1,000", "RSS MB", "wall s", "CPU s", title=title)
    for figure in figures:
        result.add_row(
            figure.what,
            f"{figure.tiles:,}",
            f"{figure.tiles_per_second:,.0f}",
            f"{figure.cpu_per_thousand:.3f}",
            f"{figure.whole.rss:.0f}",
            f"{figure.whole.wall:.1f}",
            f"{figure.whole.cpu:.1f}",
        )
    return result


def ratio(bench: Bench, console: Console, pairs: int) -> dict[str, Any]:
    """Measures ours and stock in turn, so that the machine's other work falls on both."""
    depth, figures = depth_for(RATIO_SIZE), list[Figure]()
    for _ in range(pairs):
        figures += [*bench.ours(depth), bench.stock(depth)]
    console.print(table("Against stock Scrapy", figures))
    ours, theirs = ([figure for figure in figures if figure.what == what] for what in ("unchanged", "stock"))
    by_wall = _speed(ours) / _speed(theirs)
    # CPU time is less disturbed by the machine's other work than the clock.
    by_cpu = _cpu(theirs) / _cpu(ours)
    console.print(
        f"Times as fast as stock Scrapy: {by_wall:.2f} by the clock, {by_cpu:.2f} by CPU (medians)."
    )
    return {"runs": [figure.as_json() for figure in figures], "ratio": by_wall, "ratio_by_cpu": by_cpu}


def shortfalls(found: Mapping[str, Any]) -> list[str]:
    """Returns a line for each figure of the parts that is worse than its bound."""
    lines = []
    ratio = found.get("ratio", {}).get("ratio_by_cpu")
    if ratio is not None and ratio < LEAST_RATIO:
        lines.append(
            f"too slow: {ratio:.1f} times as fast as stock Scrapy by CPU, and {LEAST_RATIO:.1f} is the least;"
            " measure again without other work, then look at what has changed since docs/benchmarks.md"
        )
    figures = [
        figure for part in ("ratio", "flat", "sparse") for figure in found.get(part, {}).get("runs", ())
    ]
    for figure in figures:
        what, tiles, memory = figure["what"], figure["tiles"], figure["whole"]["rss"]
        most = [MOST_MEMORY[size] for size in MOST_MEMORY if what == "unchanged" and tiles >= size]
        if most and memory > max(most):
            lines.append(
                f"too much memory: the unchanged harvest of {tiles:,} tiles took {memory:.0f} MB, and"
                f" {max(most)} MB are the most; look at what has changed since docs/benchmarks.md"
            )
    return lines


def _speed(figures: list[Figure]) -> float:
    return statistics.median(figure.tiles_per_second for figure in figures)


def _cpu(figures: list[Figure]) -> float:
    return statistics.median(figure.cpu_per_thousand for figure in figures)


def flat(bench: Bench, console: Console, sizes: list[int]) -> dict[str, Any]:
    figures = [figure for size in sizes for figure in bench.ours(depth_for(size))]
    console.print(table("As the map grows", figures))
    return {"runs": [figure.as_json() for figure in figures]}


def sparse(bench: Bench, console: Console, tiles: int) -> dict[str, Any]:
    """Measures both harvests of a map that is nowhere full. What is asked for in vain counts as its cost."""
    site = bench.folder / "sparse-site"
    generate_sparse(site, tiles)
    with nginx(site) as server:
        found = harvest_twice(server, tiles, bench.folder / "sparse")
    costs = (("first", found.first), ("unchanged", found.unchanged))
    figures = [Figure(name, tiles, cost, cost) for name, cost in costs]
    console.print(table("A map as people have them, start-up included", figures))
    return {"runs": [figure.as_json() for figure in figures]}


def schedulers(bench: Bench, console: Console, pairs: int) -> dict[str, Any]:
    """Measures whole unchanged harvests with our scheduler and with Scrapy's in memory, in turn."""
    depth = depth_for(RATIO_SIZE)
    figures = [bench.with_scheduler(name, depth) for _ in range(pairs) for name in ("ours", "Scrapy's")]
    console.print(table("A harvest with our scheduler, and with Scrapy's in memory", figures))
    ours, theirs = figures[::2], figures[1::2]
    by_wall, by_cpu = _speed(ours) / _speed(theirs), _cpu(theirs) / _cpu(ours)
    console.print(f"As fast as with Scrapy's: {by_wall:.0%} by the clock, {by_cpu:.0%} by CPU (medians).")
    return {"runs": [figure.as_json() for figure in figures], "ratio": by_wall, "ratio_by_cpu": by_cpu}


def clients(bench: Bench, console: Console, pairs: int) -> dict[str, Any]:
    """Measures the unchanged harvest and programs that only ask for the same tiles, in turn."""
    depth, figures = depth_for(RATIO_SIZE), list[Figure]()
    for _ in range(pairs):
        figures.append(bench.ours(depth)[1])
        for program in ask_by.PROGRAMS:
            figures += bench.by(program, depth)
    console.print(table("Beside programs that only ask", figures))
    ours = [figure for figure in figures if figure.what == "unchanged"]
    ratios = {}
    for program in ask_by.PROGRAMS:
        if theirs := [figure for figure in figures if figure.what == program]:
            by_wall, ratios[program] = _speed(ours) / _speed(theirs), _cpu(theirs) / _cpu(ours)
            console.print(
                f"Times as fast as {program}: {by_wall:.2f} by the clock, {ratios[program]:.2f} by CPU."
            )
        else:
            console.print(f"{program}: not measured, this computer has no such program.")
    return {"runs": [figure.as_json() for figure in figures], "ratios_by_cpu": ratios}


def queues(bench: Bench, console: Console, sizes: list[int]) -> dict[str, Any]:
    """Measures schedulers alone: enqueue, next and finish."""
    found = [queue_figures(kind, size, bench.folder) for size in sizes for kind in KINDS]
    columns = ("requests_per_second", "seen_bytes_per_request", "waiting_megabytes", "peak_megabytes")
    result = Table("scheduler", "requests", "requests/s", "bytes per seen", "MB waiting", "MB at most")
    for figures in found:
        result.add_row(figures["kind"], f"{figures['requests']:,}", *(f"{figures[c]:,.1f}" for c in columns))
    console.print(result)
    return {"runs": found}


def queue_figures(kind: str, size: int, folder: Path) -> dict[str, Any]:
    """Measures one scheduler in a process of its own, on one core."""
    place = folder / f"queue-{kind}-{size}"
    place.mkdir()
    with on_core(cores()[0]):
        command = [sys.executable, "-m", "bench.scheduler", kind, str(size), str(place)]
        printed = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(place)
    figures: dict[str, Any] = json.loads(printed)
    return figures


def viewer(bench: Bench, console: Console, versions: int) -> dict[str, Any]:
    """Measures how long visitors wait, and how many images per second they can get."""
    found = measure(bench.folder, versions)
    title = "{versions:,} versions of {tiles:,} tiles on {days} days".format_map(found)
    waits = Table("question", "asked", "p50 ms", "p95 ms", "p99 ms", "CPU ms", title=title)
    for row in found["latencies"]:
        times = (f"{row[name]:.1f}" for name in ("p50_ms", "p95_ms", "p99_ms", "cpu_ms"))
        waits.add_row(row["what"], f"{row['requests']:,}", *times)
    rates = Table("answers", "per second", "MB/s", "per CPU second", "its load", "client's load")
    for row in found["rates"]:
        speeds = (f"{row[name]:,.0f}" for name in ("per_second", "megabytes_per_second", "per_cpu_second"))
        rates.add_row(row["what"], *speeds, *(f"{row[name]:.0%}" for name in ("server_load", "client_load")))
    openings = Table("network", "page kB", "requests", "first paint ms", "pictures ms", "layout shift")
    for row in found["openings"]:
        times = (f"{row[name]:.0f}" for name in ("first_paint_ms", "pictures_ms"))
        size = f"{row['page_bytes'] / 1000:.1f}"
        openings.add_row(row["network"], size, str(row["requests"]), *times, f"{row['layout_shift']:.4f}")
    steps = Table("until it is seen", "network", "how many", "p50 ms", "p95 ms", "most ms", "pictures")
    for row in found["steps"]:
        times = (f"{row[name]:.0f}" for name in ("p50_ms", "p95_ms", "most_ms"))
        loaded = f"{row['pictures']:.1f}" if "pictures" in row else ""
        steps.add_row(row["what"], row["network"], str(row["steps"]), *times, loaded)
    console.print(waits, rates, openings, steps)
    shares = f"{found['ratio']:.2f} by the clock, {found['ratio_by_cpu']:.2f} by CPU"
    console.print(f"Images per second as a share of nginx's: {shares} (medians).")
    return found


def stock(bench: Bench, console: Console) -> dict[str, Any]:
    figures = [bench.stock(depth_for(RATIO_SIZE))]
    console.print(table("Stock Scrapy", figures))
    return {"runs": [figure.as_json() for figure in figures]}


def simulation(console: Console, maps: int, workers: int, days: float) -> dict[str, Any]:
    """Simulates a fleet; nothing is measured but what it decides."""
    found = FleetSimulation(maps, workers, days, seed=1).run().as_json()
    result = Table("", "", title="A simulated fleet", show_header=False)
    for name, value in found.items():
        result.add_row(name.replace("_", " "), f"{value:,.4g}" if isinstance(value, float) else str(value))
    console.print(result)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "part",
        nargs="?",
        choices=("all", *PARTS, "stock"),
        default="all",
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, help="runs of each for the ratio")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="least tiles per map")
    parser.add_argument("--queued", type=int, nargs="+", default=QUEUED, help="requests for the queues")
    parser.add_argument("--versions", type=int, default=VERSIONS, help="in the history that is viewed")
    parser.add_argument("--shared", type=int, default=SHARED, help="least tiles of the fleet's map")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS, help="in the fleets")
    parser.add_argument("--walked", type=int, default=SHARED, help="least tiles of the walks' map")
    parser.add_argument("--many", type=int, default=maps.MAPS, help="busy maps in one process")
    parser.add_argument("--quiet", type=int, default=maps.QUIET, help="quiet maps in one process")
    parser.add_argument(
        "--described", type=int, nargs="*", default=maps.DESCRIBED, help="maps in one maps.toml"
    )
    parser.add_argument("--shared-maps", type=int, default=fleet_maps.MAPS, help="maps of the fleet")
    parser.add_argument("--export-depth", type=int, default=exports.DEPTH, help="of the exported map")
    parser.add_argument("--commits", type=int, default=imports.COMMITS, help="of the imported repository")
    parser.add_argument("--committed", type=int, default=imports.TILES, help="least tiles of its map")
    parser.add_argument(
        "--simulated", type=int, nargs=2, default=SIMULATED, help="maps and workers of the simulation"
    )
    parser.add_argument("--days", type=float, default=30, help="that are simulated")
    return parser.parse_args()


def main() -> None:
    chosen, console = arguments(), Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="tileharvest-bench-") as folder:
        bench = Bench(Path(folder))
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "ratio": lambda: ratio(bench, console, chosen.pairs),
            "flat": lambda: flat(bench, console, list(chosen.sizes)),
            "sparse": lambda: sparse(bench, console, SPARSE),
            "link": lambda: narrow_link.measure(bench.folder, console),
            "schedulers": lambda: schedulers(bench, console, chosen.pairs),
            "clients": lambda: clients(bench, console, chosen.pairs),
            "queues": lambda: queues(bench, console, list(chosen.queued)),
            "viewer": lambda: viewer(bench, console, chosen.versions),
            "fleet": lambda: fleet.measure(bench.folder, console, chosen.shared, chosen.workers),
            "walks": lambda: walks.measure(bench.folder, console, chosen.walked),
            "maps": lambda: maps.measure(
                bench.folder, console, chosen.many, chosen.quiet, list(chosen.described)
            ),
            "fleet-maps": lambda: fleet_maps.measure(
                bench.folder / "fleet-maps", console, chosen.shared_maps
            ),
            "unit-costs": lambda: unit_costs.measure(bench.folder / "unit-costs", console),
            "export": lambda: exports.measure(bench.folder, console, chosen.export_depth),
            "import": lambda: {
                "imports": imports.measure(bench.folder, console, chosen.commits, chosen.committed),
                "quiet days": quiet_day.measure(bench.folder / "quiet-days", console, chosen.committed),
            },
            "simulation": lambda: simulation(console, chosen.simulated[0], chosen.simulated[1], chosen.days),
            "stock": lambda: stock(bench, console),
        }
        wanted = PARTS if chosen.part == "all" else (chosen.part,)
        result = {part: parts[part]() for part in wanted}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    if lines := shortfalls(result):
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
