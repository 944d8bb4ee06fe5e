"""How SQLite answers a viewer's questions: by going to the rows, never through a whole table or layer."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest
from sqlalchemy import Select
from sqlalchemy.dialects import postgresql

from tests.history.making import A
from tests.history.random_world import DAYS, FIRST, MAP, random_world
from tileharvest.history import changes, outlines, recorded_versions
from tileharvest.history.areas import AreaQuery
from tileharvest.history.changes import (
    changed_blocks,
    changed_days,
    changed_days_in_blocks,
    heat,
    last_changes,
)
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.history.past import pasts
from tileharvest.history.recorded_versions import shown, story
from tileharvest.tiles.grid import TileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAST = FIRST + timedelta(days=DAYS)
TILES, COARSE, BLOCKS = TileRange(0, -7, 7, -7, 7), TileRange(-1, -6, 6, -6, 6), TileRange(-3, -8, 8, -8, 8)

QUESTIONS: Final[dict[str, Callable[[History], object]]] = {
    "map_outline": lambda history: map_outline(history, MAP),
    "shown": lambda history: shown(history, 1, TILES, LAST),
    "story": lambda history: story(history, 1, A),
    "changed_days": lambda history: changed_days(history, 1, TILES),
    "changed_days_in_blocks": lambda history: changed_days_in_blocks(history, 1, 0, BLOCKS),
    "heat": lambda history: heat(history, 1, TILES, FIRST, LAST),
    "places": lambda history: changed_blocks(history, 1, 0, FIRST, LAST, 5),
    "last_changes above tiles": lambda history: last_changes(history, 1, 0, COARSE, LAST),
    "pasts": lambda history: pasts(history, {MAP: ("2021", FIRST), "other": ("2022", LAST)}, [MAP]),
    "last_changes above blocks": lambda history: last_changes(history, 1, 0, BLOCKS, LAST),
}
NO_TABLES: Final = {"asked", "kept", "block_columns", "blocks", "CONSTANT"}
"""Which a plan may go through: the database makes them while it answers."""
AREA: Final = "(layer=? AND zoom=? AND x=? AND y>? AND y<?)"
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


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_no_table_is_gone_through(filled: History, question: Callable[[History], object]) -> None:
    for line in plan(filled, question):
        word, *rest = line.split()
        # Names of maps are all there is to tell of maps.
        assert word != "SCAN" or rest[0] in {"maps", *NO_TABLES}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shown", f"SEARCH tiles USING PRIMARY KEY {AREA}"),
        ("shown", f"SEARCH its_versions USING COVERING INDEX sqlite_autoindex_versions_1 ({TILE} AND day<?)"),
        ("changed_days", f"SEARCH versions USING COVERING INDEX sqlite_autoindex_versions_1 {AREA}"),
        ("changed_days_in_blocks", f"SEARCH changes USING PRIMARY KEY {AREA}"),
        ("heat", f"SEARCH tiles USING PRIMARY KEY {AREA}"),
        (
            "heat",
            f"SEARCH versions USING COVERING INDEX sqlite_autoindex_versions_1 ({TILE} AND day>? AND day<?)",
        ),
        ("places", f"SEARCH changes USING PRIMARY KEY ({TILE} AND day>? AND day<?)"),
        ("last_changes above tiles", f"SEARCH tiles USING PRIMARY KEY {AREA}"),
        ("last_changes above blocks", f"SEARCH changes USING PRIMARY KEY ({TILE} AND day<?)"),
    ],
)
def test_it_goes_to_the_columns_tiles_and_days_that_were_asked_for(
    filled: History, name: str, expected: str
) -> None:
    """Else the cost would grow with the height of the map or with the length of the history."""
    assert expected in plan(filled, QUESTIONS[name])


def test_every_question_can_be_said_to_postgresql() -> None:
    statements = [
        value for module in (outlines, recorded_versions, changes) for value in vars(module).values()
    ]
    queries = [value for value in statements if isinstance(value, Select)]
    for area_query in (value for value in statements if isinstance(value, AreaQuery)):
        queries += [area_query.in_columns, area_query.in_range]
    assert len(queries) > 10
    for query in queries:
        assert "SELECT" in str(query.compile(dialect=postgresql.dialect()))
