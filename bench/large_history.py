"""A history in PostgreSQL with 10,000 small maps and a large one: what each question reads there.

    .venv/bin/python -m bench.large_history [--maps 10000] [--versions 5000000]

For each question of harvests, of the viewer and of the commands it tells the pages that PostgreSQL reads and
the milliseconds that it takes: for a small map alone, for the same map among all others, and for the large
one. Pages are what tells, as they do not depend on the machine. The large map has 100 versions of each tile.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import event

from tests.servers.postgresql import USER, postgresql_server
from tileharvest.history.changes import (
    changed_blocks,
    changed_days,
    changed_days_in_blocks,
    heat,
    last_changes,
)
from tileharvest.history.costs import spent
from tileharvest.history.database import History
from tileharvest.history.harvest_row import Beginning
from tileharvest.history.harvests import begin
from tileharvest.history.outlines import brief_outlines, map_outline
from tileharvest.history.recorded_versions import shown, story, tile_versions
from tileharvest.history.summaries import finished_at, harvest_summaries, is_unfinished
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.versions import Image, Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.servers.postgresql import PostgresqlServer

FIRST: Final = date(2024, 1, 1)
LARGE: Final = "large"
DAYS: Final = 100
"""With a version of each tile of the large map."""
SMALL_DAYS: Final = 4
SMALL_WIDTH: Final = 4
"""Tiles of zoom 0 in a row of a small map, which has 16."""

FILL: Final = """
INSERT INTO maps (id, name) SELECT n, 'map-' || n FROM generate_series(1, {maps}) n;
INSERT INTO maps VALUES ({maps} + 1, 'large');
INSERT INTO layers (id, map, name) SELECT id, id, 'day' FROM maps;
CREATE TEMP TABLE places AS
    SELECT id AS layer, CASE WHEN name = 'large' THEN {width} ELSE {small} END AS width,
           CASE WHEN name = 'large' THEN {height} ELSE {small} END AS height,
           CASE WHEN name = 'large' THEN {days} ELSE {small_days} END AS days FROM maps;
INSERT INTO harvests (map, segment, day, started, ended, renderer, reason, requests, received_bytes)
    SELECT layer, 'day-' || d, date '{first}' + d, date '{first}' + d, date '{first}' + d, 'overviewer',
           'finished', 9, 9
    FROM places, generate_series(0, days - 1) d ORDER BY d, layer;
INSERT INTO harvest_layers (harvest, layer, depth, image_extension, tile_width, tile_height, north_direction)
    SELECT id, map, 9, 'png', 384, 384, 0 FROM harvests;
INSERT INTO harvest_counts SELECT id, map, 'upd', 9 FROM harvests;
INSERT INTO spending SELECT map, day, 9, 9, 9, 9, 9 FROM harvests;
INSERT INTO versions (layer, zoom, x, y, day, sha1, extension, size, etag, last_modified, harvest)
    SELECT layer, 0, 2 * x + 1, 2 * y + 1, day,
           encode(sha224((layer || ' ' || x || ' ' || y || ' ' || day)::bytea), 'hex')::char(40), 'png', 9000,
           '"5ff' || x || '-' || y || '"', 'Tue, 05 Jan 2021 12:00:00 GMT', harvests.id
    FROM harvests JOIN places ON layer = map,
         generate_series(-width / 2, width / 2 - 1) x, generate_series(-height / 2, height / 2 - 1) y
    ORDER BY day, layer, x, y;
INSERT INTO tiles (layer, zoom, x, y, version)
    SELECT DISTINCT ON (layer, zoom, x, y) layer, zoom, x, y, id
    FROM versions ORDER BY layer, zoom, x, y, day DESC;
INSERT INTO blocks
    SELECT layer, zoom, floor(x / 16.0), floor(-y / 16.0), max(harvest), 0, 0, 0, -1, 0, 0, 0, 0, 0, -1, 0, 0
    FROM versions GROUP BY 1, 2, 3, 4;
INSERT INTO changes
    SELECT layer, -3, 8 * (2 * floor(x / 16.0) + 1), 8 * (2 * floor(y / 16.0) + 1), day, count(*)
    FROM versions GROUP BY 1, 2, 3, 4, 5;
UPDATE changes SET zoom = 0;
"""


@dataclass(frozen=True)
class Read:
    """What a question costs: its statements, the pages that they touch, and their time."""

    statements: int
    pages: int
    milliseconds: float
    gone_through: tuple[str, ...]
    """Tables that were read from their beginning to their end."""


def fill(url: str, maps: int, versions: int, ask: Callable[[str], object]) -> None:
    """Makes the history, and tells PostgreSQL what there is."""
    History.open(url).close()
    height = 200 if versions else 0
    width = versions // DAYS // height if height else 0
    sizes = {"width": width, "height": height, "days": DAYS, "small": SMALL_WIDTH, "small_days": SMALL_DAYS}
    ask("SET session_replication_role = replica;" + FILL.format(maps=maps, first=FIRST, **sizes))
    for table in ("maps", "layers", "harvests"):
        ask(f"SELECT setval('{table}_id_seq', max(id)) FROM {table}")  # noqa: S608
    ask("VACUUM ANALYZE")


def questions(history: History, name: str, layer: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is asked of a map."""
    area, last = TileRange(0, -7, 7, -7, 7), FIRST + timedelta(DAYS)
    coarse, blocks = TileRange(-1, -6, 6, -6, 6), TileRange(-3, -8, 8, -8, 8)
    yield "viewer: list of maps", partial(brief_outlines, history)
    yield "viewer: outline", partial(map_outline, history, name)
    yield "viewer: what is shown", partial(shown, history, layer, area, last)
    yield "viewer: story of a tile", partial(story, history, layer, Tile(0, 1, 1))
    yield "viewer: ticks", partial(changed_days, history, layer, area)
    yield "viewer: ticks of blocks", partial(changed_days_in_blocks, history, layer, 0, blocks)
    yield "viewer: heat of a month", partial(heat, history, layer, area, FIRST, FIRST + timedelta(30))
    yield (
        "viewer: places of a month",
        partial(changed_blocks, history, layer, 0, FIRST, FIRST + timedelta(30), 5),
    )
    yield "viewer: last changes", partial(last_changes, history, layer, 0, coarse, last)
    yield "viewer: last changes of blocks", partial(last_changes, history, layer, 0, blocks, last)
    yield "scrapy harvests", partial(harvest_summaries, history, name)
    yield "scrapy history: a tile", partial(tile_versions, history, name, "day", Tile(0, 1, 1))
    yield "harvest: is it due", partial(finished_at, history, name, "day-9")
    yield "harvest: is one unfinished", partial(is_unfinished, history, name)
    yield "harvest: spent today", partial(spent, history, name, FIRST)
    # A harvest goes last, as it changes what is asked of.
    day = FIRST + timedelta(DAYS + 1)
    started = datetime(day.year, day.month, day.day, tzinfo=UTC)
    beginning = Beginning(name, "next", day, started, "overviewer", [Layer("day", Pyramid(9), "png")])
    found: dict[str, Any] = {}
    yield "harvest: begin", lambda: found.update(harvest=begin(history, beginning))
    harvest = found["harvest"]
    yield "harvest: 64 look-ups", partial(harvest.look_up, "day", area)
    image = Image("a" * 40, "png", 9000)
    tiles = [Tile(0, x, y) for x in (-3, -1, 1, 3) for y in (-3, -1, 1, 3)]
    yield (
        "harvest: record 8 unchanged",
        partial(harvest.record, [TileResult("day", tile, Outcome.IGNORED) for tile in tiles[:8]]),
    )
    yield (
        "harvest: record 8 changed",
        partial(
            harvest.record,
            [
                TileResult("day", tile, Outcome.UPDATED, image, validator=Validator('"1"'))
                for tile in tiles[8:]
            ],
        ),
    )


@contextmanager
def explained(history: History) -> Iterator[list[dict[str, Any]]]:
    """Gives what PostgreSQL tells of each statement that is made meanwhile. Before, each is made twice in a
    savepoint that is taken back, as the first time finds nothing in memory."""
    told: list[dict[str, Any]] = []

    def explain(_c: object, cursor: Any, statement: str, values: Any, _x: object, many: bool) -> None:
        own = psycopg.ClientCursor(cursor.connection)
        for one in values if many else [values]:
            latest: dict[str, Any] = {}
            for _ in range(2):
                own.execute("SAVEPOINT before")
                own.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode(), one)
                ((((latest),),),) = own.fetchall()
                own.execute("ROLLBACK TO SAVEPOINT before")
            told.append(latest)

    event.listen(history._engine, "before_cursor_execute", explain)
    try:
        yield told
    finally:
        event.remove(history._engine, "before_cursor_execute", explain)


def cost(told: Sequence[dict[str, Any]]) -> Read:
    plans = [one["Plan"] for one in told]
    return Read(
        len(plans),
        sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans),
        sum(one["Planning Time"] + one["Execution Time"] for one in told),
        tuple(sorted({table for plan in plans for table in _gone_through(plan)})),
    )


def _gone_through(plan: dict[str, Any]) -> Iterator[str]:
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for part in plan.get("Plans", ()):
        yield from _gone_through(part)


def measured(
    server: PostgresqlServer, maps: int, versions: int, names: Sequence[str]
) -> list[dict[str, Read]]:
    with server.database() as database:
        place = make_conninfo(host=str(server.folder), port=server.port, user=USER, dbname=database)
        with psycopg.connect(place, autocommit=True) as connection:
            fill(server.url(database), maps, versions, lambda words: connection.execute(words.encode()))
            rows = connection.execute(SIZES).fetchall()
        sys.stderr.write(
            "".join(f"{name}: {size:,} bytes, {tuples:,.0f} rows\n" for name, size, tuples in rows)
        )
        found: list[dict[str, Read]] = []
        with History.open(server.url(database)) as history:
            for name in names:
                layer = maps + 1 if name == LARGE else int(name.partition("-")[2])
                found.append({})
                for question, ask in questions(history, name, layer):
                    with explained(history) as told:
                        ask()
                    found[-1][question] = cost(told)
        return found


SIZES: Final = """
SELECT relname, pg_relation_size(oid), reltuples FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')
      AND pg_relation_size(oid) > 1000000
ORDER BY 2 DESC
"""


def main() -> None:
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--maps", type=int, default=10_000)
    reader.add_argument("--versions", type=int, default=5_000_000)
    options = reader.parse_args()
    with ExitStack() as running:
        server = running.enter_context(postgresql_server())
        (alone,) = measured(server, 1, 0, ["map-1"])
        small, large = measured(server, options.maps, options.versions, [f"map-{options.maps // 2}", LARGE])
    for question in alone:
        reads = [one[question] for one in (alone, small, large)]
        words = " | ".join(f"{read.pages:,} | {read.milliseconds:.2f}" for read in reads)
        gone = {table for read in reads[1:] for table in read.gone_through}
        print(f"| {question} | {reads[0].statements} | {words} | {', '.join(sorted(gone))} |")  # noqa: T201


if __name__ == "__main__":
    main()
