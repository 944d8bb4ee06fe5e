"""How databases answer questions: by going to the rows, never through a whole table or layer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pytest

from tests.history.making import A, found, look_up, record
from tests.history.random_world import DAYS, FIRST, LAYERS, MAP, random_world
from tileharvest.history.changes import (
    changed_blocks,
    changes_below,
    deepest_changes,
    heat,
    last_changes,
)
from tileharvest.history.costs import spent
from tileharvest.history.database import History
from tileharvest.history.events import certainty, events
from tileharvest.history.harvest_row import Beginning
from tileharvest.history.harvests import begin
from tileharvest.history.outlines import map_outline
from tileharvest.history.recorded_versions import shown, story, tile_versions
from tileharvest.history.summaries import finished_at, is_unfinished, pasts
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.history.outlines import LayerOutline

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
    return begin(history, Beginning(MAP, "the next", day, started, "overviewer", layers))


HARVESTS: Final[dict[str, Callable[[History], object]]] = {
    "begin": begun,
    "look_up": lambda history: look_up(begun(history), Block(LAYERS[0], 0, 0, 0)),
    "unchanged": lambda history: record(begun(history), [found(Outcome.IGNORED, A)]),
    "changed": lambda history: record(begun(history), [found(Outcome.UPDATED, A)]),
    "finished_at": lambda history: finished_at(history, MAP, "the next"),
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
