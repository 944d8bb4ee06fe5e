"""Histories as earlier releases wrote them, brought up to date with what is in them."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from sqlalchemy import MetaData, create_engine, insert, select, text

from tests.history.making import A, began, ended, found, write_revision
from tileharvest.history.costs import Cost, spent
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.history.proofs import last_full, proofs
from tileharvest.history.schema import REVISION, validators
from tileharvest.history.summaries import failing, harvest_summaries
from tileharvest.renderers.overviewer import projection_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgresql import PostgresqlServer

HARVESTS = 6
LAYERS = (1, 2)
VersionRow = tuple[int, int, int, int, date, str | None, str | None, int | None, int]
NAMES = ("layer", "zoom", "x", "y", "day", "sha1", "extension", "size", "harvest")


def random_versions() -> list[VersionRow]:
    """By `NAMES`; each harvest has some images more."""
    random = Random(2)
    rows: list[VersionRow] = []
    for harvest in range(1, HARVESTS + 1):
        day = date(2021, 2, 13) + timedelta(days=3 * harvest)
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


def harvest_row(number: int) -> dict[str, object]:
    return {
        "map": 1,
        "segment": str(number),
        "day": date(2021, 3, number),
        "started": datetime(2021, 2, 13, 6, tzinfo=UTC),
        "ended": datetime(2021, 2, 13, 7, tzinfo=UTC),
        "renderer": "overviewer",
        "reason": "done",
        "requests": 5,
        "received_bytes": 6,
    }


def write_first_revision(url: str, versions: list[VersionRow]) -> None:
    write_revision(url, "0001")
    engine = create_engine(url)
    tables = MetaData()
    with engine.begin() as connection:
        tables.reflect(connection)
        rows = {
            "maps": [{"name": "world"}],
            "layers": [{"map": 1, "name": name} for name in ("day", "night")],
            "harvests": [harvest_row(number) for number in range(1, HARVESTS + 2)],
            "versions": [dict(zip(NAMES, version, strict=True)) for version in versions],
        }
        for name, new in rows.items():
            if new:
                connection.execute(insert(tables.tables[name]), new)
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def first(request: pytest.FixtureRequest, file: Path) -> str:
    """Returns the address of an empty database of each kind, for a first revision."""
    if request.param == "sqlite":
        file.parent.mkdir()
        return f"sqlite:///{file}"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.url(request.getfixturevalue("database"))


@pytest.fixture
def versions(first: str) -> list[VersionRow]:
    """Returns the versions of a history that the first release wrote, and that this one has opened since."""
    versions = random_versions()
    write_first_revision(first, versions)
    History.open(first).close()
    return versions


def query(url: str, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
    """A day comes from SQLite as a text, see `with_days`."""
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(text(sql), parameters)]
    engine.dispose()
    return rows


def with_days(rows: list[tuple[Any, ...]], column: int) -> list[tuple[Any, ...]]:
    return [(*row[:column], date.fromisoformat(str(row[column])), *row[column + 1 :]) for row in rows]


def test_the_changes_of_a_first_history_are_counted(first: str, versions: list[VersionRow]) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    for layer, zoom, x, y, day, *_ in versions:
        block = Tile(zoom, x, y).parent().parent().parent()
        expected[layer, zoom, block.x, block.y, day] += 1
    rows = with_days(query(first, "SELECT layer, zoom, x, y, day, tiles FROM changes"), 4)
    assert {tuple(key): tiles for *key, tiles in rows} == expected
    assert len(rows) == len(expected)


def test_each_image_of_a_first_history_was_stored_by_the_first_harvest_that_has_it(
    first: str, versions: list[VersionRow]
) -> None:
    stored_first: dict[tuple[str, str | None], tuple[int, int]] = {}
    for *_, sha1, extension, size, harvest in versions:
        if sha1 is not None and size is not None:
            stored_first.setdefault((sha1, extension), (harvest, size))
    expected: defaultdict[int, int] = defaultdict(int)
    for harvest, size in stored_first.values():
        expected[harvest] += size
    stored = query(first, "SELECT id, stored_bytes FROM harvests ORDER BY id")
    assert stored == [(number, expected[number]) for number in range(1, HARVESTS + 2)]
    assert all(expected[number] for number in range(1, HARVESTS + 1))


def test_nothing_else_of_a_first_history_is_touched(first: str, versions: list[VersionRow]) -> None:
    assert with_days(query(first, f"SELECT {', '.join(NAMES)} FROM versions ORDER BY id"), 4) == versions
    assert query(first, "SELECT DISTINCT requests, received_bytes FROM harvests") == [(5, 6)]
    assert query(first, "SELECT version_num FROM alembic_version") == [(REVISION,)]
    if first.startswith("sqlite"):
        assert query(first, "PRAGMA foreign_key_check") == []


def test_a_first_history_is_copied_before(file: Path) -> None:
    file.parent.mkdir()
    versions = random_versions()
    write_first_revision(f"sqlite:///{file}", versions)
    History.open(f"sqlite:///{file}").close()
    with closing(sqlite3.connect(file.with_name("history.sqlite.revision-0001.backup"))) as backup:
        assert backup.execute("SELECT count(*) FROM versions").fetchall() == [(len(versions),)]
        assert backup.execute("SELECT name FROM sqlite_master WHERE name = 'changes'").fetchall() == []


def test_an_upgraded_history_can_be_harvested(first: str, versions: list[VersionRow]) -> None:
    """A tile of the day on which the last release had recorded it is not counted again, another one is."""
    day = max(version[4] for version in versions)
    known = next(Tile(*version[1:4]) for version in versions if version[4] == day)
    of_day = "SELECT sum(tiles) FROM changes WHERE day = :day"
    [(before,)] = query(first, of_day, day=day.isoformat())
    with History.open(first) as history:
        harvest = began(history, day)
        harvest.record([found("rep", known), found("add", A.ancestor(2))], Cost(1, 10, 5))
        ended(harvest)
        of_the_day = [one for one in harvest_summaries(history, "world") if one.day == day]
        assert of_the_day[-1].cost.stored_bytes == 5
    assert query(first, of_day, day=day.isoformat()) == [(before + 1,)]


def test_a_first_history_without_versions_is_upgraded(first: str) -> None:
    write_first_revision(first, [])
    History.open(first).close()
    assert query(first, "SELECT count(*) FROM changes") == [(0,)]
    assert query(first, "SELECT DISTINCT stored_bytes FROM harvests") == [(0,)]


THIRD_REVISION = """
    INSERT INTO maps (name) VALUES ('world');
    INSERT INTO layers (map, name) VALUES (1, 'day');
    INSERT INTO harvests
        (map, segment, day, started, ended, reason, renderer, requests, received_bytes, stored_bytes)
    VALUES
        (1, 'a', '2021-02-13', '2021-02-13 06:00', '2021-02-13 07:00', 'finished', 'overviewer', 5, 60, 7),
        (1, 'b', '2021-02-16', '2021-02-16 06:00', NULL, NULL, 'overviewer', 8, 90, 10);
    INSERT INTO harvest_layers (harvest, layer, depth, image_extension, tile_size, north_direction)
    VALUES (1, 1, 10, 'png', 384, 0), (2, 1, 10, 'png', 384, 0);
    INSERT INTO versions (layer, zoom, x, y, day, sha1, extension, size, etag, harvest)
    VALUES (1, 0, 1, 1, '2021-02-13', 'a', 'png', 7, '"1"', 1);
    INSERT INTO tiles (layer, zoom, x, y, version, harvest, outcome, reason)
    VALUES
        (1, 0, 1, 1, 1, 2, 'fail', '500'),
        (1, 0, 3, 1, NULL, 1, 'fail', '403'),
        (1, 0, 1, -1, NULL, 2, '404', NULL),
        (1, -1, 2, 2, NULL, NULL, NULL, NULL)
"""
"""A finished and an unfinished harvest as revision 0003 has them."""

KEPT = [
    "SELECT id, map, segment, day, started, ended, reason, renderer FROM harvests ORDER BY id",
    "SELECT id, requests, received_bytes, stored_bytes FROM harvests ORDER BY id",
    "SELECT layer, zoom, x, y, version, harvest, outcome, reason FROM tiles ORDER BY layer, zoom, x, y",
    "SELECT * FROM versions ORDER BY id",
]


@pytest.fixture
def third(first: str) -> str:
    """One that the release before this one wrote."""
    write_revision(first, "0003")
    engine = create_engine(first)
    with engine.begin() as connection:
        for statement in THIRD_REVISION.split(";"):
            connection.exec_driver_sql(statement)
    engine.dispose()
    return first


def test_the_costs_are_added_to_a_third_history_and_all_else_is_kept(third: str) -> None:
    before = [query(third, statement) for statement in KEPT]
    History.open(third).close()
    assert [query(third, statement) for statement in KEPT] == before
    added = query(third, "SELECT DISTINCT expected, seconds, spared_bytes, stopped FROM harvests")
    assert added == [(0, 0.0, 0, None)]


def test_what_harvests_of_a_third_history_have_cost_was_spent_on_their_days(third: str) -> None:
    with History.open(third) as history:
        began(history, date(2021, 2, 16), segment="b").record([], Cost(2, 10))
        costs = [spent(history, "world", date(2021, 2, day)) for day in (13, 16, 17)]
    assert costs == [Cost(5, 60, 7), Cost(10, 100, 10), Cost()]


def test_what_had_failed_in_a_third_history_has_failed_once_and_fails_on(third: str) -> None:
    with History.open(third) as history:
        assert failing(history, "world") == {("day", A): 1, ("day", Tile(0, 3, 1)): 1}
        began(history, date(2021, 2, 16), segment="b").record([found("fail", A)])
        began(history, date(2021, 2, 17)).record([found("fail", A)])
        assert failing(history, "world") == {("day", A): 2, ("day", Tile(0, 3, 1)): 1}


def test_nothing_is_remembered_or_proved_of_a_history_without_walks(third: str) -> None:
    """Its harvests were full, but what they asked is not known: the next one trusts nothing."""
    with History.open(third) as history:
        assert proofs(history, "world") == {}
        assert last_full(history, "world") == {"world": (date(2021, 2, 13), {None})}
        harvest = began(history, date(2021, 2, 16), segment="b")
        with history.reading() as connection:
            assert connection.execute(select(validators)).all() == []
        harvest.record([replace(found("ign", A), step=Step(seen=Validator('"1"')))])
        ended(harvest)
        assert [summary.walk for summary in harvest_summaries(history, "world")] == [None, None]


def test_layers_of_older_releases_get_overviewers_projection(third: str) -> None:
    """All that they knew were Overviewer's."""
    History.open(third).close()
    with History.open(third) as history:
        (layer,) = map_outline(history, "world").layers
    described = layer.described(date(2021, 2, 13))
    assert described.projection == projection_of(384, 0)
    assert described.pyramid == Pyramid(10)


def test_tiles_of_older_releases_are_squares(third: str) -> None:
    History.open(third).close()
    with History.open(third) as history:
        (layer,) = map_outline(history, "world").layers
    assert layer.described(date(2021, 2, 13)).tile_size == (384, 384)
