"""What `make torture` finds: any row in which a history is not as it should be."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.middlewares.making import DAY, FIRST_LEVEL, added, remember
from tests.torture.whole_history import differences, whole_history

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.whole_history import Rows


def history(folder: Path, change: str = "") -> dict[str, Rows]:
    """Two harvests of a tile each, and a change that none has made."""
    folder.mkdir()
    for number, tile in enumerate(FIRST_LEVEL[:2]):
        asyncio.run(remember(folder, added(tile), day=DAY.replace(day=1 + number)))
    file = folder / "history.sqlite"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(change)
    return whole_history(f"sqlite:///{file}")


@pytest.mark.parametrize(
    ("change", "places"),
    [
        ("UPDATE harvests SET requests = 17, seconds = 3", []),
        ("UPDATE versions SET sha1 = 'x' WHERE id = 2", ["versions.sha1"]),
        ("DELETE FROM harvest_counts WHERE harvest = 1", ["harvest_counts: missing"]),
        ("UPDATE tiles SET version = 1", ["tiles.version"]),
        ("UPDATE layers SET name = 'other'", ["layers: missing", "layers: too much"]),
    ],
    ids=["the run alone", "a value", "a row", "a row that is meant", "a name"],
)
def test_two_histories_differ_where_a_row_does(tmp_path: Path, change: str, places: list[str]) -> None:
    plain, changed = history(tmp_path / "plain"), history(tmp_path / "changed", change)
    found = {one.place for one in differences(changed, plain)}
    assert found >= set(places)
    assert bool(found) == bool(places)
