"""Many maps in one process: how long they take together, and what each of them costs.

All maps are one site behind one nginx, each at an address of its own, 127.0.x.y. So each map has a host and a
limit of its own, and nginx's log says who was asked when.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench.cost import RunFailedError, cores, on_core, scrapy
from bench.harvest import DAYS
from bench.site import count, generate
from tests.servers.nginx import nginx

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from bench.cost import Cost
    from tests.servers.nginx import Nginx

MAPS: Final = 250
QUIET: Final = 1_000
RATE: Final = 2
"""Requests per second of each busy map."""
_DEPTH: Final = 3
"""A busy map has 84 tiles."""
_AT_ONCE: Final = 100
"""Quiet maps side by side."""
_ASIDE: Final = 2
"""Requests before the first tile: robots.txt and the configuration."""


def measure(folder: Path, console: Console, maps: int, quiet: int) -> dict[str, Any]:
    found = {
        "busy": _busy(folder / "busy", maps),
        "quiet": _quiet(folder / "quiet", quiet),
    }
    for name, figures in found.items():
        table = Table("", "", title=f"Many maps in one process: {name}", show_header=False)
        for what, value in figures.items():
            table.add_row(what, f"{value:,.2f}")
        console.print(table)
    return found


def _busy(folder: Path, maps: int) -> dict[str, float]:
    """Harvests unchanged maps with a rate limit, all at once: each should take as long as it takes alone."""
    requests = count(_DEPTH) + _ASIDE
    generate(folder / "site", _DEPTH)
    with on_core(cores()[1]), nginx(folder / "site", address="0.0.0.0") as server:  # noqa: S104 - loopback only
        describe(folder, server, maps)
        _harvest(folder, DAYS[0], "--at-once", str(_AT_ONCE))
        describe(folder, server, maps, f"requests_per_second = {RATE}")
        server.clear_log()
        cost = _harvest(folder, DAYS[1], "--at-once", str(maps))
        asked = _asked(server, maps, requests)
    latest = max(times[-1] - times[0] for times in asked.values())
    most = max(Counter(map(int, times)).most_common(1)[0][1] for times in asked.values())
    return {
        "maps": maps,
        "seconds": cost.wall,
        "times as long as one map alone needs": cost.wall * RATE / requests,
        "the same of the slowest map's requests": latest * RATE / requests,
        "most requests to a host in a second": most,
        "MB": cost.rss,
        "CPU ms per request": 1000 * cost.cpu / (maps * requests),
    }


def _quiet(folder: Path, maps: int) -> dict[str, float]:
    """Harvests maps of four tiles that have not changed."""
    generate(folder / "site", 1)
    with on_core(cores()[1]), nginx(folder / "site", address="0.0.0.0") as server:  # noqa: S104 - loopback only
        describe(folder, server, maps)
        _harvest(folder, DAYS[0], "--at-once", str(_AT_ONCE))
        server.clear_log()
        began = time.time()
        cost = _harvest(folder, DAYS[1], "--at-once", str(_AT_ONCE))
        asked = _asked(server, maps, count(1) + _ASIDE)
    return {
        "maps": maps,
        "seconds": cost.wall,
        "seconds until the first request": min(times[0] for times in asked.values()) - began,
        "CPU ms per map": 1000 * cost.cpu / maps,
        "MB": cost.rss,
    }


def describe(folder: Path, server: Nginx, maps: int, *lines: str) -> None:
    """Writes a maps.toml with this number of maps, each at an address of its own and with these lines."""
    entries = []
    for number in range(maps):
        address = f"127.0.{1 + number // 250}.{1 + number % 250}"
        entries += [f"[map-{number}]", f'url = "http://{address}:{server.port}/"', "change_index = false"]
        entries += lines
    (folder / "maps.toml").write_text("\n".join(entries) + "\n", encoding="utf-8")


def _harvest(folder: Path, day: str, *more: str) -> Cost:
    return scrapy(folder, "harvest", "--all", "-a", f"day={day}", "--json", *more)


def _asked(server: Nginx, maps: int, requests: int) -> dict[str, list[float]]:
    """Returns when each host was asked, in order. Raises RunFailedError for another number of requests."""
    asked: defaultdict[str, list[float]] = defaultdict(list)
    for line in server.log():
        asked[line.host].append(line.time - line.duration)
    if len(asked) != maps or any(len(times) != requests for times in asked.values()):
        numbers = dict(Counter(map(len, asked.values())))
        raise RunFailedError(
            f"{len(asked)} of {maps} maps were asked; requests of a map: {numbers}, not {requests}"
        )
    return {host: sorted(times) for host, times in asked.items()}
