"""Values that a disk has changed: one line, and no traceback."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.history.making import DAY, LAYER, began, ended, found, look_up, put_empty_history, record
from tileharvest.errors import HistoryError
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import named_images, tile_versions
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import Tile

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
    record(harvest, [found("add")])
    ended(harvest)
    with history.writing() as connection:
        connection.exec_driver_sql(f"UPDATE versions SET {damage}")
    with pytest.raises(HistoryError, match=r"is damaged or no history \(.*restore it from a backup"):
        (tile_versions(history, "world"), named_images(history))
    assert history.damage()


def test_a_mistake_of_the_program_in_a_transaction_is_not_told_as_damage(history: History) -> None:
    with pytest.raises(ValueError, match="a mistake"), history.writing():
        raise ValueError("a mistake")


def test_a_sound_history_has_no_damage(history: History) -> None:
    three_days(history)
    assert history.damage() == []


def test_a_tile_that_names_the_version_of_another_one_is_one_line(history: History) -> None:
    three_days(history)
    with history.writing() as connection:
        connection.exec_driver_sql("UPDATE tiles SET version = version - 1 WHERE version > 1")
    with pytest.raises(HistoryError, match="is damaged"):
        look_up(began(history, date(2021, 3, 1)), Block(LAYER, 0, -1, 0))


def test_each_flipped_bit_is_found_or_changes_no_version(file: Path, url: str) -> None:
    """200 of them, drawn by a seed. `check-store` looks for the images that versions name."""
    put_empty_history(file)
    with History.open(url) as history:
        three_days(history)
        images = {one.image for one in named_images(history)}
    body, truth = file.read_bytes(), recorded(file)
    used = [place for place, byte in enumerate(body) if byte]
    found = 0
    for number in range(200):
        drawn, changed = Random(number), bytearray(body)
        changed[drawn.choice(used)] ^= 1 << drawn.randrange(8)
        file.write_bytes(changed)
        try:
            with History.open_read_only(url) as history:
                is_found = (
                    bool(history.damage()) or not {one.image for one in named_images(history)} <= images
                )
        except HistoryError as error:
            told, is_found = str(error), True
            assert_one_line(told)
        if is_found:
            found += 1
        else:
            assert recorded(file) == truth
    assert found > 50


def three_days(history: History) -> None:
    for number in range(3):
        harvest = began(history, DAY + timedelta(days=number))
        outcome = "upd" if number else "add"
        tiles = [Tile(0, x, y) for x in (-3, -1, 1, 3) for y in (-1, 1)]
        record(harvest, [found(outcome, tile, f"{tile} {number}".encode()) for tile in tiles])
        ended(harvest)


def recorded(file: Path) -> list[tuple[object, ...]]:
    """Returns all that is promised: which tile had which image from which day on, and how many changed."""
    with closing(sqlite3.connect(file)) as connection:
        shown = connection.execute(
            "SELECT maps.name, layers.name, factor, zoom, x, y, day, sha1, extension, size FROM versions"
            " JOIN layers ON layers.id = layer JOIN maps ON maps.id = map ORDER BY 1, 2, 4, 5, 6, 7"
        ).fetchall()
        return shown + connection.execute("SELECT * FROM changes ORDER BY 1, 2, 3, 4, 5").fetchall()


def assert_one_line(told: str) -> None:
    assert len(told.splitlines()) == 1
