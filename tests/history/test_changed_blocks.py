"""Changes as they are read, and how SQLite answers: by going to the rows, never through a whole table."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Final

import pytest

from tests.history.making import A, found, look_up, record
from tests.history.random_world import (
    DAYS,
    FIRST,
    LAYERS,
    MAP,
    ZOOMS,
    Opening,
    World,
    any_area,
    any_day,
    random_world,
)
from tileharvest.history.changes import (
    certainty,
    changed_blocks,
    changes_below,
    counted_zooms,
    deepest_changes,
    events,
    heat,
    last_changes,
)
from tileharvest.history.costs import spent
from tileharvest.history.database import History
from tileharvest.history.harvests import HarvestRecord, begin
from tileharvest.history.outlines import LayerOutline, map_outline
from tileharvest.history.recorded_versions import shown, story, tile_versions
from tileharvest.history.summaries import is_unfinished, pasts
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import EVERYWHERE, Pyramid

BEFORE, AFTER = FIRST - timedelta(days=1), FIRST + timedelta(days=DAYS + 9)
REPEATS = 40


@pytest.fixture(scope="module", params=[("sqlite", 4), ("sqlite", 5), ("postgresql", 6)])
def world(request: pytest.FixtureRequest, opening: Opening) -> Iterator[World]:
    database, seed = request.param
    with opening(database) as history:
        yield random_world(history, seed)


def covers(coarse: Tile, tile: Tile) -> bool:
    """By geometry: whether the tile's centre lies in the coarser one's square."""
    return abs(tile.x - coarse.x) < (1 << -coarse.zoom) and abs(tile.y - coarse.y) < (1 << -coarse.zoom)


def tiles_of(area: TileRange) -> list[Tile]:
    return [Tile(area.zoom, x, y) for x in area.columns for y in area.rows]


def counted_days(world: World, layer: str, zooms: dict[int, date], area: TileRange) -> dict[date, int]:
    """By the versions: of each day the tiles of the deepest zoom that was there."""
    found: dict[date, int] = {}
    for deep in counted_zooms(zooms, area.zoom):
        found |= Counter(
            day
            for tile, versions in world.of(layer, deep).items()
            if tile.ancestor(deep - area.zoom) in area
            for day in versions
        )
    return found


@pytest.mark.parametrize("levels", range(6))
def test_days_are_counted_per_deepest_tile_of_the_area(world: World, levels: int) -> None:
    random = Random(8)
    for outline in map_outline(world.history, MAP).layers * (REPEATS // 4):
        area = any_area(random, -levels, most=7)
        found = deepest_changes(world.history, outline, area)
        assert found == counted_days(world, outline.name, outline.zooms, area)
        assert list(found) == sorted(found)


def test_heat_is_the_number_of_versions_after_one_day_and_until_another(world: World) -> None:
    random = Random(8)
    for _ in range(REPEATS):
        layer, area = random.choice(LAYERS), any_area(random, random.choice(ZOOMS))
        after, until = sorted([any_day(random), any_day(random)])
        expected = {
            tile: count
            for tile, versions in world.of(layer, area.zoom).items()
            if tile in area and (count := sum(after < day <= until for day in versions))
        }
        assert heat(world.history, world.ids[layer], area, after, until) == expected


def true_places(world: World, layer: str, zoom: int, after: date, until: date) -> list[tuple[Tile, int, int]]:
    """Block by block and tile by tile, the most changed first."""
    days: dict[Tile, int] = {
        tile: sum(after < day <= until for day in versions)
        for tile, versions in world.of(layer, zoom).items()
    }
    blocks: dict[Tile, list[Tile]] = {}
    for tile in sorted(tile for tile, count in days.items() if count):
        blocks.setdefault(tile.parent().parent().parent(), []).append(tile)
    found = []
    for block in sorted(blocks):
        hottest = max(blocks[block], key=days.__getitem__)
        found.append((hottest, days[hottest], sum(days[tile] for tile in blocks[block])))
    return sorted(found, key=lambda place: -place[2])


def test_places_are_the_blocks_that_changed_most(world: World) -> None:
    random = Random(8)
    for _ in range(REPEATS):
        layer, zoom = random.choice(LAYERS), random.choice(ZOOMS)
        after, until = sorted([any_day(random), any_day(random)])
        limit = random.choice([1, 3, 100])
        expected = true_places(world, layer, zoom, after, until)[:limit]
        assert changed_blocks(world.history, world.ids[layer], zoom, after, until, limit) == expected


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 6])
def test_last_changes_are_those_of_the_tiles_below(world: World, levels: int) -> None:
    random = Random(8)
    for _ in range(REPEATS // 2):
        layer, zoom, day = random.choice(LAYERS), random.choice([0, -1]), any_day(random)
        area = any_area(random, zoom - levels, most=5)
        versions = world.of(layer, zoom)
        days = {
            coarse: [of for tile in versions if covers(coarse, tile) for of in versions[tile] if of <= day]
            for coarse in tiles_of(area)
        }
        expected = {coarse: max(of) for coarse, of in days.items() if of}
        assert last_changes(world.history, world.ids[layer], zoom, area, day) == expected


@pytest.mark.parametrize("factor", [2, 5])
@pytest.mark.parametrize("zoom", [0, -1, -2, -3, -4, -7])
def test_days_are_counted_below_each_tile(world: World, zoom: int, factor: int) -> None:
    """Of the deepest zoom, and of those that were the deepest at first."""
    random = Random(8)
    counted = 0
    for outline in map_outline(world.history, MAP).layers * 3:
        pyramid = Pyramid(8, factor=factor, area=EVERYWHERE.at_zoom(0))
        layer = replace(outline, descriptions={FIRST: replace(outline.latest, pyramid=pyramid)})
        area = any_area(random, zoom)
        expected: dict[Tile, dict[date, int]] = {}
        for deep in counted_zooms(layer.zooms, zoom):
            below: defaultdict[Tile, Counter[date]] = defaultdict(Counter)
            for tile, its in world.of(layer.name, deep).items():
                if deep > zoom and (above := tile.ancestor(deep - zoom, factor)) in area:
                    below[above].update(its.keys())
            for tile, days in below.items():
                expected[tile] = expected.get(tile, {}) | days
        assert changes_below(world.history, layer, area) == expected
        counted += len(expected)
    assert counted or zoom == 0


LAST = FIRST + timedelta(days=DAYS)
TILES, COARSE, BLOCKS = TileRange(0, -7, 7, -7, 7), TileRange(-1, -6, 6, -6, 6), TileRange(-3, -8, 8, -8, 8)


def first_layer(history: History) -> LayerOutline:
    return map_outline(history, MAP).layers[0]


QUESTIONS: Final[dict[str, Callable[[History], object]]] = {
    "map_outline": lambda history: map_outline(history, MAP),
    "shown": lambda history: shown(history, 1, TILES, LAST),
    "story": lambda history: story(history, 1, A),
    "deepest_changes near": lambda history: deepest_changes(history, first_layer(history), TILES),
    "deepest_changes far": lambda history: deepest_changes(history, first_layer(history), BLOCKS),
    "changes_below near": lambda history: changes_below(history, first_layer(history), COARSE),
    "changes_below far": lambda history: changes_below(history, first_layer(history), BLOCKS),
    "heat": lambda history: heat(history, 1, TILES, FIRST, LAST),
    "places": lambda history: changed_blocks(history, 1, 0, FIRST, LAST, 5),
    "last_changes above tiles": lambda history: last_changes(history, 1, 0, COARSE, LAST),
    "pasts": lambda history: pasts(history, {MAP: ("2021", FIRST), "other": ("2022", LAST)}, [MAP]),
    "events": lambda history: events(history, first_layer(history), FIRST, LAST),
    "certainty": lambda history: certainty(history, 1),
    "last_changes above blocks": lambda history: last_changes(history, 1, 0, BLOCKS, LAST),
}


def begun(history: History) -> HarvestRecord:
    day = LAST + timedelta(days=1)
    started = datetime(day.year, day.month, day.day, tzinfo=UTC)
    layers = [Layer(layer, Pyramid(8), "png") for layer in LAYERS]
    return begin(history, MAP, "the next", day, started, "overviewer", layers)


HARVESTS: Final[dict[str, Callable[[History], object]]] = {
    "begin": begun,
    "look_up": lambda history: look_up(begun(history), Block(LAYERS[0], 0, 0, 0)),
    "unchanged": lambda history: record(begun(history), [found(Outcome.IGNORED, A)]),
    "changed": lambda history: record(begun(history), [found(Outcome.UPDATED, A)]),
    "is_unfinished": lambda history: is_unfinished(history, MAP),
    "spent": lambda history: spent(history, MAP, LAST),
    "tile_versions": lambda history: tile_versions(history, MAP, LAYERS[0], A),
}


NO_TABLES: Final = {"asked", "kept", "blocks", "places", "CONSTANT"}
"""Which a plan may go through: the database makes them while it answers."""
AREA: Final = "(layer=? AND zoom=? AND x=? AND y>? AND y<?)"
DAYS_OF_ZOOM: Final = "ix_changes_layer_zoom_day (layer=? AND zoom=? AND day>? AND day<?)"
TILE: Final = "layer=? AND zoom=? AND x=? AND y=?"


@pytest.fixture(scope="module")
def filled() -> Iterator[History]:
    with History.open_temporary() as history:
        random_world(history, 7)
        yield history


def plan(history: History, question: Callable[[History], object]) -> list[str]:
    """The lines of SQLite's plans for all queries of the question that read a table."""
    with history.reading() as connection:
        driver = connection.connection.dbapi_connection
    # The pool gives the same connection again, as no other is in use.
    statements: list[str] = []
    driver.set_trace_callback(statements.append)
    question(history)
    driver.set_trace_callback(None)
    queries = [statement for statement in statements if statement.startswith(("SELECT", "WITH"))]
    assert queries
    return [row[3] for query in queries for row in driver.execute(f"EXPLAIN QUERY PLAN {query}")]


@pytest.mark.parametrize("question", (QUESTIONS | HARVESTS).values(), ids=(QUESTIONS | HARVESTS).keys())
def test_no_table_is_gone_through(filled: History, question: Callable[[History], object]) -> None:
    for line in plan(filled, question):
        word, *rest = line.split()
        # Names of maps are all there is to tell of maps.
        # A subquery is a list without a value. What it reads of a table has a line of its own.
        assert word != "SCAN" or rest[0] in {"maps", *NO_TABLES} or rest[0].startswith("(subquery")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shown", f"SEARCH tiles USING PRIMARY KEY {AREA}"),
        ("shown", f"SEARCH its_versions USING COVERING INDEX sqlite_autoindex_versions_1 ({TILE} AND day<?)"),
        ("deepest_changes near", f"SEARCH versions USING COVERING INDEX sqlite_autoindex_versions_1 {AREA}"),
        ("deepest_changes far", f"SEARCH changes USING PRIMARY KEY {AREA}"),
        ("heat", f"SEARCH tiles USING PRIMARY KEY {AREA}"),
        (
            "heat",
            f"SEARCH versions USING COVERING INDEX sqlite_autoindex_versions_1 ({TILE} AND day>? AND day<?)",
        ),
        ("places", f"SEARCH changes USING INDEX {DAYS_OF_ZOOM}"),
        ("events", f"SEARCH changes USING COVERING INDEX {DAYS_OF_ZOOM}"),
        ("events", f"SEARCH versions USING INDEX sqlite_autoindex_versions_1 ({TILE} AND day>? AND day<?)"),
        (
            "last_changes above tiles",
            f"SEARCH versions USING COVERING INDEX sqlite_autoindex_versions_1 {AREA}",
        ),
        ("last_changes above blocks", f"SEARCH changes USING PRIMARY KEY {AREA}"),
    ],
)
def test_it_goes_to_the_columns_tiles_and_days_that_were_asked_for(
    filled: History, name: str, expected: str
) -> None:
    """Else the cost would grow with the height of the map or with the length of the history."""
    assert expected in plan(filled, QUESTIONS[name])
