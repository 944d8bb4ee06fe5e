"""A block is looked up as it was recorded, and recording it again changes nothing."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.history.making import DAY, LATER, LAYER, began, ended, found, image_of, look_up, record
from tileharvest.history.blocks import FoundBlock, KnownBlock
from tileharvest.history.costs import NO_COST
from tileharvest.history.summaries import failed_tiles
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator, Version
from tileharvest.walk.trust import RememberedValidator

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord


BLOCK = Block(LAYER, -1, -1, 2)
FIRST, LAST = 0, 63
SEEN = Validator('"1"', "Sat, 13 Feb 2021 06:00:00 GMT")
FOUND = FoundBlock(
    {Outcome.ADDED: 1 << FIRST | 1 << LAST, Outcome.NOTHING: 1 << 1, Outcome.FAILED: 1 << 2},
    images={FIRST: image_of(b"first"), LAST: image_of(b"last")},
    validators={FIRST: SEEN},
    reasons={2: "500 Internal Server Error"},
    seen={FIRST: SEEN},
)


def record_block(harvest: HarvestRecord, block: Block, found: FoundBlock) -> None:
    harvest.history.writer.submit(harvest.record_blocks, (block, found, NO_COST)).result(240)


def test_of_a_block_that_was_never_asked_nothing_is_known(history: History) -> None:
    assert look_up(began(history), BLOCK) == KnownBlock()


def test_a_block_is_looked_up_as_it_was_recorded(history: History) -> None:
    harvest = began(history)
    record_block(harvest, BLOCK, FOUND)
    known = look_up(harvest, BLOCK)
    assert known.versions == {
        FIRST: Version(DAY, image_of(b"first"), SEEN),
        LAST: Version(DAY, image_of(b"last")),
    }
    assert known.remembered == {FIRST: RememberedValidator(SEEN.etag, SEEN.last_modified, False)}
    assert known.outcomes == FOUND.outcomes
    assert (known.asked, known.failed) == (1 << FIRST | 1 << LAST | 0b110, 0b100)


def test_the_rest_of_a_block_that_was_cut_short_joins_what_was_recorded(history: History) -> None:
    harvest = began(history)
    record_block(harvest, BLOCK, FOUND)
    record_block(harvest, BLOCK, FoundBlock({Outcome.NOTHING: 0b1100}))
    assert harvest.counts() == {Outcome.ADDED: 2, Outcome.NOTHING: 3}
    assert failed_tiles(history, "world") == []


def test_the_next_harvest_knows_what_was_found_and_has_asked_nothing(history: History) -> None:
    first = began(history)
    record_block(first, BLOCK, FOUND)
    ended(first)
    known = look_up(began(history, LATER), BLOCK)
    assert (len(known.versions), known.asked) == (2, 0)
    assert known.remembered == {FIRST: RememberedValidator(SEEN.etag, SEEN.last_modified, True)}


def test_of_a_zoom_that_is_not_kept_only_failures_count(history: History) -> None:
    harvest = began(history)
    found = FoundBlock(
        {Outcome.IGNORED: 0b01, Outcome.FAILED: 0b10}, reasons={1: "it broke"}, seen={0: SEEN}, is_kept=False
    )
    record_block(harvest, BLOCK, found)
    assert harvest.counts() == {Outcome.FAILED: 1}
    assert list(look_up(harvest, BLOCK).remembered) == [0]


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
