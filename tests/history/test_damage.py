"""Values that a disk has changed: one line, and no traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.history.making import began, ended, found, put_empty_history
from tileharvest.errors import HistoryError
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import named_images, tile_versions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def history(file: Path, url: str) -> Iterator[History]:
    put_empty_history(file)
    with History.open(url) as history:
        yield history


@pytest.mark.parametrize(
    "damage",
    [
        "day = '2024\r05-01'",
        "sha1 = 'b592ef3fc93d11cb003a3dcf2c0b61f1:5c0c3a4'",
        "extension = 'pog'",
        "zoom = 7",
    ],
    ids=["a day", "a sha1", "an extension", "a zoom"],
)
def test_a_value_that_cannot_be_is_one_line(history: History, damage: str) -> None:
    harvest = began(history)
    harvest.record([found("add")])
    ended(harvest)
    with history.writing() as connection:
        connection.exec_driver_sql(f"UPDATE versions SET {damage}")
    with pytest.raises(HistoryError, match=r"cannot be read \(a value cannot be: .*restore it from a backup"):
        (tile_versions(history, "world"), named_images(history))
