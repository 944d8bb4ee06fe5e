from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.history.making import EVERYWHERE, LATER, LAYER, began, ended, found, look_up, record
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord

SQUARE = [Tile(0, x, y) for x in range(-7, 8, 2) for y in range(-7, 8, 2)]
GONE = {Tile(0, -7, y) for y in range(-7, 8, 2)}
ASKED = {tile for tile in SQUARE if tile.y > 0}


@pytest.fixture
def harvest(history: History) -> HarvestRecord:
    return harvested(history)


def harvested(history: History) -> HarvestRecord:
    """8 x 8 tiles; the leftmost column is gone since the first harvest, the upper half asked again."""
    first = began(history)
    record(first, [found("add", tile) for tile in SQUARE])
    ended(first)
    second = began(history, LATER)
    record(second, [found("gone", tile) for tile in GONE])
    ended(second)
    third = began(history, LATER.replace(day=20))
    record(third, [found("ign", tile) for tile in sorted(ASKED - GONE)])
    return third


def random_areas() -> list[TileRange]:
    random = Random(13)
    areas = []
    for _ in range(25):
        x, y = random.randrange(-9, 8, 2), random.randrange(-9, 8, 2)
        areas.append(TileRange(0, x, x + 2 * random.randrange(6), y, y + 2 * random.randrange(6)))
    return areas


def inside(areas: list[TileRange], tiles: set[Tile]) -> set[Tile]:
    return {tile for tile in tiles if any(tile in area for area in areas)}


def test_a_look_up_goes_to_the_rows_of_the_block_directly(sqlite_history: History) -> None:
    """Else its cost would grow with the map."""
    harvest = harvested(sqlite_history)
    with sqlite_history.reading() as connection:
        driver = connection.connection.dbapi_connection
    # The pool gives the same connection again, as no other is in use.
    statements: list[str] = []
    driver.set_trace_callback(statements.append)
    look_up(harvest, Block(LAYER, 0, 0, -1))
    driver.set_trace_callback(None)
    queries = [statement for statement in statements if statement.startswith("SELECT")]
    plans = [row[3] for query in queries for row in driver.execute(f"EXPLAIN QUERY PLAN {query}")]
    block = "(layer=? AND zoom=? AND column=? AND row=?)"
    assert {plan for plan in plans if "proofs" not in plan and "SUBQUERY" not in plan} == {
        f"SEARCH blocks USING PRIMARY KEY {block}",
        "SEARCH tiles USING PRIMARY KEY (layer=? AND zoom=? AND x=? AND y>? AND y<?)",
        "SEARCH versions USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
        f"SEARCH validators USING PRIMARY KEY {block} LEFT-JOIN",
    }


@pytest.mark.parametrize("number", [1, 25])
def test_known_counts_each_tile_that_is_not_gone_once(harvest: HarvestRecord, number: int) -> None:
    areas = random_areas()[:number]
    assert harvest.known({LAYER: areas}) == len(inside(areas, set(SQUARE) - GONE))


@pytest.mark.parametrize("number", [1, 25])
def test_unasked_are_the_tiles_without_a_result_of_this_harvest(harvest: HarvestRecord, number: int) -> None:
    areas = random_areas()[:number]
    tiles = harvest.unasked({LAYER: areas}, 1000)
    assert {tile for _, tile in tiles} == inside(areas, set(SQUARE) - GONE - ASKED)
    assert len(tiles) == len(set(tiles))


def test_outcomes_are_those_of_the_tiles_that_this_harvest_has_recorded(harvest: HarvestRecord) -> None:
    never_there = [Tile(-1, 2 * x, 2 * y) for x in range(-25, 26, 2) for y in range(-25, 26, 2)]
    asked = [*SQUARE, *never_there]
    Random(5).shuffle(asked)
    assert set(harvest.outcomes(LAYER, asked)) == ASKED - GONE
    assert harvest.outcomes(LAYER, []) == {}


def test_vanished_are_those_found_gone_and_those_not_asked(harvest: HarvestRecord) -> None:
    found_gone = sorted(ASKED - GONE)[:5]
    record(harvest, [found("gone", tile) for tile in found_gone])
    assert harvest.vanished(EVERYWHERE) == (5, len(set(SQUARE) - GONE - ASKED))


def test_a_layer_that_the_harvest_does_not_have_is_refused(harvest: HarvestRecord) -> None:
    with pytest.raises(KeyError, match="night"):
        look_up(harvest, Block("night", 0, 0, 0))
    with pytest.raises(KeyError, match="night"):
        harvest.known({"night": []})
