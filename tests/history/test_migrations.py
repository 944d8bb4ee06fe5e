"""Histories as earlier releases wrote them, brought up to date with what is in them."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from datetime import date, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from alembic import command
from sqlalchemy import create_engine

from tests.history.making import A, began, ended, found
from tileharvest.history import upgrading
from tileharvest.history.database import History
from tileharvest.history.reading import harvest_summaries
from tileharvest.history.schema import REVISION
from tileharvest.maps.grid import Tile

if TYPE_CHECKING:
    from pathlib import Path

HARVESTS = 6
LAYERS = (1, 2)
VersionRow = tuple[int, int, int, int, str, str | None, str | None, int | None, int]


def random_versions() -> list[VersionRow]:
    """layer, zoom, x, y, day, sha1, extension, size, harvest; each harvest has some images more."""
    random = Random(2)
    rows: list[VersionRow] = []
    for harvest in range(1, HARVESTS + 1):
        day = (date(2021, 2, 13) + timedelta(days=3 * harvest)).isoformat()
        for layer in LAYERS:
            for zoom in (0, -1, -4):
                unit = 1 << -zoom
                for x in range(-21 * unit, 22 * unit, 2 * unit):
                    y = random.randrange(-21, 22, 2) * unit
                    name = random.choice([None, *"0123456789abcdef"[: 2 + 2 * harvest]])
                    image = (
                        (name * 40, random.choice(["png", "jpg"]), 100 * ord(name)) if name else (None,) * 3
                    )
                    rows.append((layer, zoom, x, y, day, *image, harvest))
    return rows


def write_first_revision(url: str, file: Path, versions: list[VersionRow]) -> None:
    file.parent.mkdir()
    engine = create_engine(url)
    config = upgrading._config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO maps (id, name) VALUES (1, 'world')")
        connection.executemany(
            "INSERT INTO layers (id, map, name) VALUES (?, 1, ?)", [(1, "day"), (2, "night")]
        )
        connection.executemany(
            "INSERT INTO harvests"
            " (id, map, segment, day, started, ended, renderer, reason, requests, received_bytes)"
            " VALUES (?, 1, ?, ?, '2021-02-13 06:00:00', '2021-02-13 07:00:00', 'overviewer', 'done', 5, 6)",
            [(number, str(number), f"2021-03-0{number}") for number in range(1, HARVESTS + 2)],
        )
        connection.executemany(
            "INSERT INTO versions (layer, zoom, x, y, day, sha1, extension, size, harvest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            versions,
        )


@pytest.fixture
def versions(url: str, file: Path) -> list[VersionRow]:
    """Those of a history that the first release wrote and that was then opened by this one."""
    versions = random_versions()
    write_first_revision(url, file, versions)
    History.open(url).close()
    return versions


def query(file: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(sql).fetchall()


def test_the_changes_of_a_first_history_are_counted(file: Path, versions: list[VersionRow]) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    for layer, zoom, x, y, day, *_ in versions:
        block = Tile(zoom, x, y).parent().parent().parent()
        expected[layer, zoom, block.x, block.y, day] += 1
    rows = query(file, "SELECT layer, zoom, x, y, day, tiles FROM changes")
    assert {tuple(key): tiles for *key, tiles in rows} == expected
    assert len(rows) == len(expected)


def test_each_image_of_a_first_history_was_stored_by_the_first_harvest_that_has_it(
    file: Path, versions: list[VersionRow]
) -> None:
    first: dict[tuple[str, str | None], tuple[int, int]] = {}
    for *_, sha1, extension, size, harvest in versions:
        if sha1 is not None and size is not None:
            first.setdefault((sha1, extension), (harvest, size))
    expected: defaultdict[int, int] = defaultdict(int)
    for harvest, size in first.values():
        expected[harvest] += size
    stored = query(file, "SELECT id, stored_bytes FROM harvests")
    assert stored == [(number, expected[number]) for number in range(1, HARVESTS + 2)]
    assert all(expected[number] for number in range(1, HARVESTS + 1))


def test_nothing_else_of_a_first_history_is_touched(url: str, file: Path, versions: list[VersionRow]) -> None:
    assert (
        query(file, "SELECT layer, zoom, x, y, day, sha1, extension, size, harvest FROM versions") == versions
    )
    assert query(file, "SELECT DISTINCT requests, received_bytes FROM harvests") == [(5, 6)]
    assert query(file, "PRAGMA foreign_key_check") == []
    assert query(file, "SELECT version_num FROM alembic_version") == [(REVISION,)]


def test_a_first_history_is_copied_before(file: Path, versions: list[VersionRow]) -> None:
    backup = file.with_name("history.sqlite.revision-0001.backup")
    assert query(backup, "SELECT count(*) FROM versions") == [(len(versions),)]
    assert query(backup, "SELECT name FROM sqlite_master WHERE name = 'changes'") == []


def test_an_upgraded_history_can_be_harvested(url: str, file: Path, versions: list[VersionRow]) -> None:
    """A tile of the day on which the last release had recorded it is not counted again, another one is."""
    day = date.fromisoformat(max(version[4] for version in versions))
    known = next(Tile(*version[1:4]) for version in versions if version[4] == day.isoformat())
    before = query(file, f"SELECT sum(tiles) FROM changes WHERE day = '{day}'")[0][0]
    with History.open(url) as history:
        harvest = began(history, day)
        harvest.record([found("rep", known), found("add", A.ancestor(2))], 1, 10, 5)
        ended(harvest)
        assert harvest_summaries(history, "world")[-1].stored_bytes == 5
    assert query(file, f"SELECT sum(tiles) FROM changes WHERE day = '{day}'") == [(before + 1,)]


def test_a_first_history_without_versions_is_upgraded(url: str, file: Path) -> None:
    write_first_revision(url, file, [])
    History.open(url).close()
    assert query(file, "SELECT count(*) FROM changes") == [(0,)]
    assert query(file, "SELECT DISTINCT stored_bytes FROM harvests") == [(0,)]
