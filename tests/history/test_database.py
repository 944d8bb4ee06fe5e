"""How histories are opened, what is refused, what their transactions and columns promise, and what only a
server can do: logins, rights, and to go away.
"""

import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from scrapy.settings import BaseSettings
from sqlalchemy import Connection, PoolProxiedConnection, insert, select

from tests.history.making import DAY, LATER, LAYER, B, began, ended, found, put_empty_history, record
from tests.servers.postgresql import PostgresqlServer, postgresql_server
from tileharvest.errors import ConfigurationError, HistoryError
from tileharvest.harvest.holdings import Holdings
from tileharvest.history.connection import file_of, parse_address, place_of
from tileharvest.history.costs import Cost
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import named_images, tile_versions
from tileharvest.history.schema import maps
from tileharvest.history.settings import database_url
from tileharvest.history.summaries import harvest_summaries
from tileharvest.store.files import FileStore
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome


def harvested(url: str) -> None:
    with History.open(url) as history:
        harvest = began(history)
        record(harvest, [found("add")])
        ended(harvest)


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize("opening", [History.open, History.open_read_only])
@pytest.mark.parametrize(
    ("revision", "line"),
    [
        ("9999", r"newer TileHarvest \(revision 9999\); nothing was changed; update TileHarvest"),
        ("0012", r"older TileHarvest \(revision 0012\); nothing was changed; name another place"),
        (None, r"is damaged or no history \(file is not a database\); it was not changed: restore it"),
    ],
)
def test_what_cannot_be_read_is_refused_and_not_changed(
    opening: type[History.open], url: str, file: Path, revision: str | None, line: str
) -> None:
    harvested(url)
    if revision is None:
        file.write_bytes(b"no database at all\n" * 500)
    else:
        change(file, f"UPDATE alembic_version SET version_num = '{revision}'")
    before = file.read_bytes()
    with pytest.raises(HistoryError, match=line):
        opening(url)
    assert file.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_not_changed(url: str, file: Path) -> None:
    file.parent.mkdir()
    change(file, "CREATE TABLE songs (title)")
    before = file.read_bytes()
    with pytest.raises(HistoryError, match=r"another program .* 'songs'.* nothing was changed"):
        History.open(url)
    assert file.read_bytes() == before


def test_a_history_that_is_locked_too_long_is_one_clear_line(url: str, file: Path) -> None:
    harvested(url)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            History.open(url, lock_timeout=0.01) as history,
            pytest.raises(
                HistoryError, match="is locked by another program for too long; nothing recorded was lost"
            ),
        ):
            began(history)


def test_reading_only_creates_nothing(url: str, file: Path) -> None:
    with pytest.raises(HistoryError, match=f"there is no history at {file} yet"):
        History.open_read_only(url)
    assert not file.parent.exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("data/history.sqlite", "names no database: write for example sqlite:///data/history.sqlite"),
        ("mysql://host/history", "SQLite or PostgreSQL, not mysql"),
        ("postgresql://host:port/history", "names no database"),
        ("sqlite://data/history.sqlite", "is named behind three slashes, or four"),
        ("sqlite:///:memory:", "in memory would be lost"),
    ],
)
def test_an_address_that_names_no_history_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        History.open(url)


def test_the_history_is_in_the_data_folder_whatever_that_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "100%25 of a map?"
    url = database_url(BaseSettings({"TILEHARVEST_DATA": str(folder), "DATABASE_URL": ""}))
    assert file_of(parse_address(url)) == folder / "history.sqlite"


def test_a_temporary_history_is_deleted_when_it_is_closed() -> None:
    with History.open_temporary() as history:
        record(began(history), [found("add")])
        place = Path(history.place)
        assert place.is_file()
    assert not place.parent.exists()


def test_a_dry_copy_knows_what_the_history_knows(history: History) -> None:
    harvest = began(history)
    record(harvest, [found("add", body=b"a"), found("add", B, b"b")])
    ended(harvest)
    with history.dry_copy("world") as copy:
        block = Block(LAYER, 0, 0, -1)
        known = began(copy, LATER).look_up(block)
        assert len(known.versions) == 2
        assert known == began(history, LATER).look_up(block)
        with pytest.raises(HistoryError, match="only written forwards"):
            began(copy, DAY - timedelta(days=1))


def add(history: History, name: str) -> None:
    history.write(lambda connection: connection.execute(insert(maps).values(name=name)))


def names(history: History) -> set[str]:
    return history.read(lambda connection: set(connection.execute(select(maps.c.name)).scalars()))


def test_what_several_calls_write_within_one_is_written_together_or_not_at_all(history: History) -> None:
    def both(_: Connection, *, fails: bool) -> None:
        add(history, f"first {fails}")
        add(history, f"second {fails}")
        if fails:
            raise LookupError

    history.write(lambda connection: both(connection, fails=False))
    with pytest.raises(LookupError):
        history.write(lambda connection: both(connection, fails=True))
    assert names(history) == {"first False", "second False"}


def test_each_connection_keeps_what_was_committed_in_a_power_loss(emptied_sqlite: History) -> None:
    expected = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}
    with emptied_sqlite.reading() as connection:
        found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in expected}
    assert found == expected


def test_a_reader_does_not_wait_for_a_writer(history: History) -> None:
    harvest = began(history)
    record(harvest, [found("add")])

    def write(connection: Connection) -> None:
        connection.execute(insert(maps).values(name="other"))
        assert reader.submit(harvest.counts).result(240) == {Outcome.ADDED: 1}

    with ThreadPoolExecutor(1) as reader:
        history.write(write)
    ended(harvest)


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
def test_a_value_that_cannot_be_is_one_line(emptied_sqlite: History, damage: str) -> None:
    harvest = began(emptied_sqlite)
    record(harvest, [found("add")])
    ended(harvest)
    emptied_sqlite.write(lambda connection: connection.exec_driver_sql(f"UPDATE versions SET {damage}"))
    with pytest.raises(HistoryError, match=r"is damaged or no history \(.*restore it from a backup"):
        (tile_versions(emptied_sqlite, "world"), named_images(emptied_sqlite))
    assert emptied_sqlite.damage()


def test_a_full_disk_says_so_and_loses_nothing(url: str) -> None:
    def fill(connection: Connection) -> None:
        (pages,) = connection.exec_driver_sql("PRAGMA page_count").one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        connection.exec_driver_sql("CREATE TABLE much AS SELECT zeroblob(1000000)")

    # An own history: a connection keeps this bound.
    with History.open(url) as history:
        with pytest.raises(HistoryError, match=r"disk full: .* nothing recorded was lost; free space"):
            history.write(fill)
        assert not history.damage()


def test_a_tile_that_names_the_version_of_another_one_is_one_line(emptied_sqlite: History) -> None:
    three_days(emptied_sqlite)
    pointing = "UPDATE tiles SET version = version - 1 WHERE version > 1"
    emptied_sqlite.write(lambda connection: connection.exec_driver_sql(pointing))
    with pytest.raises(HistoryError, match="is damaged"):
        began(emptied_sqlite, date(2021, 3, 1)).look_up(Block(LAYER, 0, -1, 0))


def three_days(emptied_sqlite: History) -> None:
    for number in range(3):
        harvest = began(emptied_sqlite, DAY + timedelta(days=number))
        outcome = "upd" if number else "add"
        tiles = [Tile(0, x, y) for x in (-3, -1, 1, 3) for y in (-1, 1)]
        record(harvest, [found(outcome, tile, f"{tile} {number}".encode()) for tile in tiles])
        ended(harvest)


def test_each_flipped_bit_is_found_or_changes_no_version(file: Path, url: str) -> None:
    """200 of them, drawn by a seed. `check-store` looks for the images that versions name."""
    put_empty_history(file)
    with History.open(url) as history:
        three_days(history)
        assert history.damage() == []
        images = {one.image for one in named_images(history)}
    body, truth, number_found = file.read_bytes(), recorded(file), 0
    lines: list[str] = []
    used = [place for place, byte in enumerate(body) if byte]
    for number in range(200):
        drawn, changed = Random(number), bytearray(body)
        changed[drawn.choice(used)] ^= 1 << drawn.randrange(8)
        file.write_bytes(changed)
        try:
            with History.open_read_only(url) as history:
                named = {one.image for one in named_images(history)}
                is_found = bool(history.damage()) or not named <= images
        except HistoryError as error:
            is_found = True
            lines.append(str(error))
        number_found += is_found
        assert is_found or recorded(file) == truth
    assert number_found > 50
    assert not [line for line in lines if len(line.splitlines()) != 1]


def recorded(file: Path) -> list[tuple[object, ...]]:
    """Returns all that is promised: which tile had which image from which day on, and how many changed."""
    with closing(sqlite3.connect(file)) as connection:
        shown = connection.execute(
            "SELECT maps.name, layers.name, factor, zoom, x, y, day, sha1, extension, size FROM versions"
            " JOIN layers ON layers.id = layer JOIN maps ON maps.id = map ORDER BY 1, 2, 4, 5, 6, 7"
        ).fetchall()
        return shown + connection.execute("SELECT * FROM changes ORDER BY 1, 2, 3, 4, 5").fetchall()


@pytest.fixture(scope="module")
def restarted() -> Iterator[PostgresqlServer]:
    """A server that tests may stop; each leaves it running."""
    with postgresql_server() as server:
        yield server


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("postgresql://user:secret@host/history", "user:***@host/history"),
        ("postgres://user:secret@host/history", "user:***@host/history"),
        ("postgresql+psycopg://host/history?user=me&password=secret", "host/history?user=me"),
    ],
)
def test_an_address_of_postgresql_means_psycopg_and_its_password_is_not_said(
    address: str, place: str
) -> None:
    assert place_of(parse_address(address)) == f"postgresql+psycopg://{place}"


def test_a_wrong_password_and_a_server_that_is_not_there_are_one_clear_line(
    postgresql: PostgresqlServer,
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    wrong = postgresql.tcp_url("postgres", password="another secret")
    for url in (wrong, f"postgresql://user:secret@127.0.0.1:{port}/history"):
        with pytest.raises(HistoryError) as caught:
            History.open(url)
        line = str(caught.value)
        assert f"history {place_of(parse_address(url))} cannot be reached, or its server refuses it (" in line
        assert "make sure that the server runs, and that user, password and database are right" in line
        assert "\n" not in line
        assert "secret" not in line


def test_where_no_harvest_has_begun_there_is_no_history_yet(postgresql: PostgresqlServer) -> None:
    with postgresql.database() as database:
        url = postgresql.url(database)
        with pytest.raises(HistoryError, match=r"there is no history at postgresql.* yet: the first harvest"):
            History.open_read_only(url)
        assert not History.is_begun(url)
        assert Holdings(url, FileStore(Path("tiles"))).begun_history() is None
        with Holdings(url, FileStore(Path("tiles")), "world").open_history() as dry:
            assert began(dry).counts() == {}
        assert postgresql.ask("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", database) == []


def test_a_harvest_goes_on_after_the_server_was_restarted(restarted: PostgresqlServer) -> None:
    with restarted.database() as name, History.open(restarted.url(name)) as history:
        harvest = began(history)
        record(harvest, [found("add")], Cost(1, 10, 100))
        restarted.kill()
        with ThreadPoolExecutor(1) as worker:
            recording = worker.submit(record, harvest, [found("add", B)], Cost(1, 10, 100))
            restarted.start()
            recording.result(240)
        assert harvest.counts() == {Outcome.ADDED: 2}
        ended(harvest)
        (summary,) = harvest_summaries(history, "world")
        assert summary.cost == Cost(2, 20, 200)


def test_a_server_that_stays_away_is_one_clear_line_once(restarted: PostgresqlServer, caplog: Any) -> None:
    with restarted.database() as name, History.open(restarted.url(name), patience=2.0) as history:
        harvest = began(history)
        restarted.stop()
        with pytest.raises(HistoryError, match=r"cannot be reached, .*; nothing recorded was lost"):
            record(harvest, [found("add")])
        with pytest.raises(HistoryError, match="cannot be reached"):
            harvest.counts()
        assert [line[:16] for line in caplog.messages] == ["trying again for"]
        restarted.start()
        record(harvest, [found("add")])
        assert harvest.counts() == {Outcome.ADDED: 1}


def test_a_beginning_whose_commit_got_no_answer_is_still_a_beginning(
    emptied_postgresql: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is committed, but the connection breaks before the answer comes."""
    dialect, lost = emptied_postgresql._engine.dialect, []
    commit = dialect.do_commit

    def losing(connection: PoolProxiedConnection) -> None:
        commit(connection)
        if not lost:
            lost.append("answer")
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, "do_commit", losing)
    assert not began(emptied_postgresql).continued
    assert len(harvest_summaries(emptied_postgresql, "world")) == 1
