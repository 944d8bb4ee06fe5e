"""Changes and events as they are read, and how SQLite answers: by going to the rows, never through a whole
table."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Final

import pytest

from tests.history.making import DAY, LATER, THIRD, A, B, C, began, ended, found, record
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
from tileharvest.history import changes as reading
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
from tileharvest.history.summaries import past_of
from tileharvest.tiles.block import Block
from tileharvest.tiles.events import Changed, events_of
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


def test_an_outline_has_each_zoom_with_the_day_of_its_first_version(world: World) -> None:
    for layer in map_outline(world.history, MAP).layers:
        firsts = {
            zoom: min(min(versions) for versions in world.of(layer.name, zoom).values()) for zoom in ZOOMS
        }
        assert layer.zooms == firsts
        assert list(layer.zooms) == sorted(firsts, reverse=True)


def test_a_tile_is_shown_as_its_last_version_of_the_day_or_before(world: World) -> None:
    random = Random(8)
    for _ in range(60):
        layer, area, day = random.choice(LAYERS), any_area(random, random.choice(ZOOMS)), any_day(random)
        expected = {}
        for tile, versions in world.of(layer, area.zoom).items():
            last = max((of for of in versions if of <= day), default=None)
            if tile in area and last is not None:
                expected[tile] = versions[last]
        found = shown(world.history, world.ids[layer], area, day)
        assert {tile: version.image_name for tile, version in found.items()} == expected


LAST = FIRST + timedelta(days=DAYS)
TILES, COARSE, BLOCKS = TileRange(0, -7, 7, -7, 7), TileRange(-1, -6, 6, -6, 6), TileRange(-3, -8, 8, -8, 8)


def first_layer(history: History) -> LayerOutline:
    return map_outline(history, MAP).layers[0]


def begun(history: History) -> HarvestRecord:
    day = LAST + timedelta(days=1)
    started = datetime(day.year, day.month, day.day, tzinfo=UTC)
    layers = [Layer(layer, Pyramid(8), "png") for layer in LAYERS]
    return begin(history, MAP, "the next", day, started, "overviewer", layers)


AREA: Final = "(layer=? AND zoom=? AND x=? AND y>? AND y<?)"
TILE: Final = "layer=? AND zoom=? AND x=? AND y=?"
DAYS_OF_ZOOM: Final = "ix_changes_layer_zoom_day (layer=? AND zoom=? AND day>? AND day<?)"
OF_AREA: Final = f"SEARCH versions USING COVERING INDEX sqlite_autoindex_versions_1 {AREA}"
OF_BLOCKS: Final = f"SEARCH changes USING PRIMARY KEY {AREA}"
OF_TILES: Final = f"SEARCH tiles USING PRIMARY KEY {AREA}"
OF_TILE: Final = f"sqlite_autoindex_versions_1 ({TILE} AND day"
QUESTIONS: Final[dict[str, tuple[Callable[[History], object], str]]] = {
    "map_outline": (lambda history: map_outline(history, MAP), ""),
    "shown": (lambda history: shown(history, 1, TILES, LAST), OF_TILES),
    "shown by day": (lambda history: shown(history, 1, TILES, LAST), f"{OF_TILE}<?)"),
    "story": (lambda history: story(history, 1, A), ""),
    "deepest near": (lambda history: deepest_changes(history, first_layer(history), TILES), OF_AREA),
    "deepest far": (lambda history: deepest_changes(history, first_layer(history), BLOCKS), OF_BLOCKS),
    "below near": (lambda history: changes_below(history, first_layer(history), COARSE), ""),
    "below far": (lambda history: changes_below(history, first_layer(history), BLOCKS), OF_BLOCKS),
    "heat": (lambda history: heat(history, 1, TILES, FIRST, LAST), OF_TILES),
    "heat by day": (lambda history: heat(history, 1, TILES, FIRST, LAST), f"{OF_TILE}>? AND day<?)"),
    "places": (
        lambda history: changed_blocks(history, 1, 0, FIRST, LAST, 5),
        f"SEARCH changes USING INDEX {DAYS_OF_ZOOM}",
    ),
    "last near": (lambda history: last_changes(history, 1, 0, COARSE, LAST), OF_AREA),
    "last far": (lambda history: last_changes(history, 1, 0, BLOCKS, LAST), OF_BLOCKS),
    "past_of": (lambda history: past_of(history, MAP, "a", FIRST, with_visits=True), ""),
    "events": (lambda history: events(history, first_layer(history), FIRST, LAST), f"{OF_TILE}>? AND day<?)"),
    "certainty": (lambda history: certainty(history, 1), ""),
    "spent": (lambda history: spent(history, MAP, LAST), ""),
    "tile_versions": (lambda history: tile_versions(history, MAP, LAYERS[0], A), ""),
    "begin": (begun, ""),
    "look_up": (lambda history: begun(history).look_up(Block(LAYERS[0], 0, 0, 0)), OF_TILES),
    "unchanged": (lambda history: record(begun(history), [found(Outcome.IGNORED, A)]), ""),
    "changed": (lambda history: record(begun(history), [found(Outcome.UPDATED, A)]), f"{OF_TILE}=?)"),
}
NO_TABLES: Final = {"asked", "kept", "blocks", "places", "CONSTANT", "maps"}
"""Which a plan may go through: names of maps, and what the database makes while it answers."""


@pytest.fixture(scope="module")
def filled() -> Iterator[History]:
    with History.open_temporary() as history:
        random_world(history, 7)
        yield history


@pytest.mark.parametrize(("question", "expected"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_no_table_is_gone_through(
    filled: History, question: Callable[[History], object], expected: str
) -> None:
    """Else the cost would grow with the height of the map or with the length of the history."""
    with filled.reading() as connection:
        driver = connection.connection.dbapi_connection
    # The pool gives the same connection again, as no other is in use.
    statements: list[str] = []
    driver.set_trace_callback(statements.append)
    question(filled)
    driver.set_trace_callback(None)
    queries = [
        statement
        for statement in statements
        if statement.startswith(("SELECT", "WITH", "INSERT INTO changes"))
    ]
    plan = [row[3] for query in queries for row in driver.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert any(expected in line for line in plan)
    for line in plan:
        word, *rest = line.split()
        # A subquery is a list without a value. What it reads of a table has a line of its own.
        assert word != "SCAN" or rest[0] in NO_TABLES or rest[0].startswith("(subquery")


@pytest.fixture
def history() -> Iterator[History]:
    with History.open_temporary() as opened:
        yield opened


def harvest(
    history: History, day: date, added: list[Tile], reason: str = "finished", kept: str | None = None
) -> None:
    begun = began(history, day)
    begun.note_walk("full", "a test", kept)
    record(begun, [found("add", tile, str(day).encode()) for tile in added])
    ended(begun, reason=reason)


def told(history: History, first: date = DAY, last: date = THIRD) -> list[tuple[date, int, str]]:
    layer = first_layer(history)
    without = certainty(history, layer.id).first_asked
    return [(one.first, one.tiles, one.kind) for one in events(history, layer, first, last, without)]


@pytest.mark.parametrize("seed", range(4))
def test_events_are_those_of_all_versions_of_the_deepest_zoom(history: History, seed: int) -> None:
    world = random_world(history, seed)
    first, last = FIRST + timedelta(days=4), FIRST + timedelta(days=DAYS - 6)
    changed: dict[date, list[Changed]] = {}
    for tile, versions in world.of(LAYERS[0], 0).items():
        was = False
        for day, image in sorted(versions.items()):
            if first <= day <= last:
                changed.setdefault(day, []).append((tile.x, tile.y, was, image is not None))
            was = image is not None
    expected = events_of(0, sorted(changed.items()))
    assert len(expected) > 3
    assert events(history, map_outline(history, MAP).layers[0], first, last) == sorted(
        expected, key=lambda event: (event.first, event.seed)
    )


def test_the_first_complete_harvest_is_no_event(history: History) -> None:
    harvest(history, DAY, [A])
    harvest(history, LATER, [B])
    assert told(history) == [(LATER, 1, "new")]


def test_what_a_map_begins_to_keep_has_not_come_into_being(history: History) -> None:
    harvest(history, DAY, [A], kept="one zone")
    harvest(history, LATER, [B], kept="two zones")
    harvest(history, THIRD, [C], kept="two zones")
    assert told(history) == [(THIRD, 1, "new")]


def test_a_known_tile_that_changes_while_others_are_first_asked_is_an_event(history: History) -> None:
    harvest(history, DAY, [A], kept="one zone")
    begun = began(history, LATER)
    begun.note_walk("full", "a test", "two zones")
    record(begun, [found("upd", A, b"another"), found("add", B)])
    ended(begun)
    assert told(history) == [(LATER, 1, "changed")]


def test_a_day_on_which_a_whole_map_changes_is_one_event(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    harvest(history, DAY, [A])
    far = Tile(0, 2001, -2001)
    begun = began(history, LATER)
    record(begun, [found("upd", A, b"another"), found("add", B), found("add", far)])
    ended(begun)
    monkeypatch.setattr(reading, "MOST_OF_A_DAY", 2)
    (event,) = events(history, first_layer(history), DAY + timedelta(days=1), THIRD)
    assert (event.changed, event.new, event.gone) == (1, 2, 0)
    assert event.area == TileRange.covering([A, B, far])


def test_a_day_that_is_harvested_by_the_hour_is_settled_when_the_next_has_begun(history: History) -> None:
    for day in (DAY, LATER):
        ended(began(history, day, segment=f"{day}T06+00:00"))
    assert certainty(history, first_layer(history).id).settled == DAY
