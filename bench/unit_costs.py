"""What one map, one tile and one version cost in Redis, PostgreSQL, SQLite and memory.

They are the units of docs/scale.md. Bytes are counted by the servers themselves, so they do not depend on the
machine. Those of a database are what a harvest adds to it, indexes included.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench.harvest import FIRST_DAY, SECOND_DAY
from bench.maps import describe, many_hosts, scrapy
from bench.site import count
from tests.servers.postgresql import postgresql_server
from tests.servers.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console

    from bench.cost import Cost
    from tests.servers.postgresql import PostgresqlServer
    from tests.servers.redis import RedisServer

_DEPTH: Final = 6
"""Of a map with 5,460 tiles."""
_SMALL: Final = (8, 40)
"""Maps of 4 tiles. What the second number of them costs beyond the first is what 32 maps cost."""
_THIRD_DAY: Final = "2024-01-04"
_MOMENT: Final = 0.1
"""Seconds between two looks at Redis' memory."""


def measure(folder: Path, console: Console) -> dict[str, Any]:
    folder.mkdir()
    with ExitStack() as running:
        redis = running.enter_context(redis_server())
        server = running.enter_context(postgresql_server())
        large = _large_map(folder / "large", redis, server)
        local = _local_map(folder / "local")
        small = [_small_maps(folder / f"small-{number}", number) for number in _SMALL]
    maps = _SMALL[1] - _SMALL[0]
    found = large | local
    found["redis_bytes_per_map_whose_harvest_is_complete"] = (small[1][0] - small[0][0]) / maps
    found["redis_bytes_per_map_under_way"] = (small[1][1] - small[0][1]) / maps
    found["cpu_ms_per_unchanged_visit_of_4_tiles"] = 1000 * (small[1][2].cpu - small[0][2].cpu) / maps
    found["memory_kilobytes_per_map_at_once"] = 1000 * (small[1][2].rss - small[0][2].rss) / maps
    table = Table("", "", title="Unit costs", show_header=False)
    for name, value in found.items():
        table.add_row(name.replace("_", " "), f"{value:,.2f}")
    console.print(table)
    return found


def _large_map(folder: Path, redis: RedisServer, server: PostgresqlServer) -> dict[str, Any]:
    """Harvests a map of 5,460 tiles twice, with its queue in Redis and its history in PostgreSQL."""
    with many_hosts(folder, _DEPTH) as site, server.database() as database:
        places = {"REDIS_URL": redis.url, "DATABASE_URL": server.tcp_url(database)}
        describe(folder, site, 1)
        scrapy(folder, "empty", "maps", "--json", **places)
        first = scrapy(folder, "first", "harvest", "--all", "-a", f"day={FIRST_DAY}", **places)
        tiles, of_first = count(_DEPTH), _bytes_of_seen(redis, FIRST_DAY)
        rows, sizes = _rows(server, database), _sizes(server, database)
        scrapy(folder, "again", "harvest", "--all", "-a", f"day={SECOND_DAY}", **places)
        grown = _sizes(server, database)
        of_second = _bytes_of_seen(redis, SECOND_DAY)
    found: dict[str, Any] = {"redis_bytes_per_tile_seen_in_a_first_segment": of_first / tiles}
    found["redis_bytes_per_tile_seen_in_a_later_segment"] = of_second / tiles
    found["postgresql_bytes_per_first_version"] = sum(sizes.values()) / tiles
    found |= {f"postgresql_bytes_per_tile_in_{name}": size / tiles for name, size in sizes.items()}
    found |= {f"postgresql_rows_per_tile_in_{name}": number / tiles for name, number in rows.items()}
    found["postgresql_bytes_per_unchanged_tile"] = (sum(grown.values()) - sum(sizes.values())) / tiles
    found["cpu_ms_per_added_tile_with_both"] = 1000 * first.cpu / tiles
    return found


def _local_map(folder: Path) -> dict[str, Any]:
    """Harvests the same map with its queue and its history in files."""
    with many_hosts(folder, _DEPTH) as site:
        describe(folder, site, 1)
        scrapy(folder, "first", "harvest", "--all", "-a", f"day={FIRST_DAY}")
        first = _bytes(folder)
        scrapy(folder, "second", "harvest", "--all", "-a", f"day={SECOND_DAY}")
        second = _bytes(folder)
    return {
        "sqlite_bytes_per_first_version": first / count(_DEPTH),
        "sqlite_bytes_per_unchanged_tile": (second - first) / count(_DEPTH),
    }


def _small_maps(folder: Path, maps: int) -> tuple[float, float, Cost]:
    """Harvests so many maps of 4 tiles at once, on three days.

    Returns the bytes in Redis when the last harvests are complete, the most bytes there were before, and the
    cost of the last harvests. A map's first filter is larger than later ones, and is gone by then.
    """
    with many_hosts(folder, 1) as site, redis_server() as redis:
        describe(folder, site, maps)
        before = _memory(redis)
        at_once = ("harvest", "--all", "--at-once", str(maps))
        for day in (FIRST_DAY, SECOND_DAY):
            scrapy(folder, day, *at_once, "-a", f"day={day}", REDIS_URL=redis.url)
        with _watched(redis) as most:
            cost = scrapy(folder, "third", *at_once, "-a", f"day={_THIRD_DAY}", REDIS_URL=redis.url)
        return _memory(redis) - before, max(most) - before, cost


@contextmanager
def _watched(redis: RedisServer) -> Iterator[list[int]]:
    """Collects how much memory there is in use while the block runs."""
    found, is_over = [_memory(redis)], threading.Event()

    def look() -> None:
        while not is_over.wait(_MOMENT):
            found.append(_memory(redis))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield found
    finally:
        is_over.set()
        watching.join()


def _memory(redis: RedisServer) -> int:
    """Returns the bytes of the data set. Those of connections are left out."""
    told = redis.ask("INFO", "memory")
    return int(told["used_memory_dataset"])


def _bytes_of_seen(redis: RedisServer, segment: str) -> int:
    """Returns the bytes of what was seen in a segment of the only map."""
    key = f"tileharvest:{{map-0}}:fingerprints:{segment}"
    return int(redis.ask("MEMORY", "USAGE", key, "SAMPLES", "0"))


def _rows(server: PostgresqlServer, database: str) -> dict[str, int]:
    names = _sizes(server, database)
    return {name: server.ask(f"SELECT count(*) FROM {name}", database)[0][0] for name in names}  # noqa: S608


def _sizes(server: PostgresqlServer, database: str) -> dict[str, int]:
    """Returns the bytes of each table that grows with the tiles, with its indexes."""
    asked = "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'"
    asked += " AND relnamespace = 'public'::regnamespace AND pg_total_relation_size(oid) > 100000"
    return dict(server.ask(asked, database))


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / "data").glob("history.sqlite*"))
