"""How histories are opened, what is refused, and what their transactions and columns promise."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, select
from sqlalchemy.dialects import sqlite

from tests.history.making import LATER, LAYER, B, began, ended, found, look_up, record
from tileharvest.errors import HistoryError
from tileharvest.history.database import History
from tileharvest.history.schema import (
    UtcDateTime,
    insert_into,
    layers,
    maps,
    metadata,
)
from tileharvest.tiles.block import Block

if TYPE_CHECKING:
    from sqlalchemy import Connection


def harvested(url: str) -> None:
    with History.open(url) as history:
        harvest = began(history)
        record(harvest, [found("add")])
        ended(harvest)


def set_revision(file: Path, revision: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))


@pytest.mark.parametrize("opening", [History.open, History.open_read_only])
@pytest.mark.parametrize(
    ("revision", "line"),
    [
        ("9999", r"newer TileHarvest \(revision 9999\); nothing was changed; update TileHarvest"),
        ("0012", r"older TileHarvest \(revision 0012\); nothing was changed; name another place"),
    ],
)
def test_a_history_of_another_revision_is_refused_and_not_changed(
    opening: type[History.open], url: str, file: Path, revision: str, line: str
) -> None:
    harvested(url)
    set_revision(file, revision)
    before = file.read_bytes()
    with pytest.raises(HistoryError, match=line):
        opening(url)
    assert file.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_not_changed(url: str, file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE songs (title)")
    before = file.read_bytes()
    with pytest.raises(HistoryError, match=r"another program .* 'songs'.* nothing was changed"):
        History.open(url)
    assert file.read_bytes() == before


@pytest.mark.parametrize("opening", [History.open, History.open_read_only])
def test_a_file_that_is_no_database_is_refused_and_not_changed(
    opening: type[History.open], url: str, file: Path
) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database at all\n" * 500)
    before = file.read_bytes()
    with pytest.raises(HistoryError) as caught:
        opening(url)
    assert str(caught.value) == (
        f"the history {file} is damaged or no history (file is not a database); it was not changed: restore"
        " it from a backup, or move it away to start a new history; the images in the store are unharmed"
    )
    assert file.read_bytes() == before


def test_a_file_in_the_way_of_the_folder_is_one_clear_line(url: str, file: Path) -> None:
    file.parent.write_text("in the way")
    with pytest.raises(
        HistoryError, match=r"history\.sqlite cannot be opened or written here \(File exists\); nothing"
    ) as caught:
        History.open(url)
    assert "\n" not in str(caught.value)


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


def test_the_stamp_is_another_one_after_each_transaction(url: str) -> None:
    with History.open(url) as writer, History.open_read_only(url) as reader:
        assert reader.stamp() == reader.stamp()
        before = reader.stamp()
        harvest = began(writer)
        begun = reader.stamp()
        ended(harvest)
        assert len({before, begun, reader.stamp()}) == 3
        assert reader.stamp() == reader.stamp()


def test_reading_only_refuses_to_write(url: str) -> None:
    harvested(url)
    with (
        History.open_read_only(url) as history,
        pytest.raises(HistoryError, match="cannot be opened or written"),
    ):
        began(history)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("data/history.sqlite", "names no database: write for example sqlite:///data/history.sqlite"),
        ("nothing://x", "names no database"),
        ("mysql://host/history", "SQLite or PostgreSQL, not mysql"),
        ("sqlite://", "in memory would be lost"),
        ("sqlite:///:memory:", "in memory would be lost"),
    ],
)
def test_an_address_that_names_no_history_is_refused(url: str, message: str) -> None:
    with pytest.raises(HistoryError, match=message):
        History.open(url)


def test_a_temporary_history_is_deleted_when_it_is_closed() -> None:
    history = History.open_temporary()
    harvest = began(history)
    record(harvest, [found("add")])
    place = Path(history.place)
    assert place.is_file()
    history.close()
    assert not place.parent.exists()


def test_a_dry_copy_knows_what_the_history_knows(history: History) -> None:
    harvest = began(history)
    record(harvest, [found("add", body=b"a"), found("add", B, b"b")])
    ended(harvest)
    with history.dry_copy("world") as copy:
        block = Block(LAYER, 0, 0, -1)
        known = look_up(began(copy, LATER), block)
        assert len(known.versions) == 2
        assert known == look_up(began(history, LATER), block)


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


def test_several_calls_that_read_within_one_see_the_same_state(history: History) -> None:
    def look(connection: Connection) -> tuple[set[str], bool]:
        before = names(history)
        with history.reading() as joined:
            return before, joined is connection

    assert history.read(look) == (set(), True)
    add(history, "world")
    assert names(history) == {"world"}, "the next call has a transaction of its own"


def test_a_work_that_only_reads_cannot_write(history: History) -> None:
    with pytest.raises(RuntimeError, match="only reads"):
        history.read(lambda _: add(history, "world"))
    assert names(history) == set()


def test_sqlite_is_told_of_rows_that_are_there_as_by_its_own_insert() -> None:
    row = {"map": 1, "name": "day", "factor": 2}
    statements = sqlite.insert(layers).values(row), insert_into(layers).values(row)
    nothing = [one.on_conflict_do_nothing() for one in statements]
    more = [
        one.on_conflict_do_update(
            index_elements=["map", "name"],
            set_={"factor": layers.c.factor + one.excluded.factor},
            where=layers.c.factor < one.excluded.factor,
        )
        for one in statements
    ]
    for expected, said in (nothing, more):
        assert str(said.compile(dialect=sqlite.dialect())) == str(expected.compile(dialect=sqlite.dialect()))


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        UtcDateTime().process_bind_param(datetime(2021, 2, 13), sqlite.dialect())  # noqa: DTZ001


def test_a_time_comes_back_as_the_same_moment_in_utc(history: History) -> None:
    harvest = began(history)
    harvest.finish(
        datetime(2021, 2, 13, 9, 30, tzinfo=timezone(timedelta(hours=2))), "finished", finalise_gone=True
    )
    with history.reading() as connection:
        moment = connection.execute(select(metadata.tables["harvests"].c.ended)).scalar_one()
    assert moment == datetime(2021, 2, 13, 7, 30, tzinfo=UTC)
    assert moment.utcoffset() == timedelta(0)


def test_each_connection_keeps_what_was_committed_in_a_power_loss(sqlite_history: History) -> None:
    with sqlite_history.writing() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_a_transaction_that_raises_leaves_nothing(history: History) -> None:
    def insert_and_stop() -> None:
        with history.writing() as connection:
            connection.execute(insert(maps).values(name="world"))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        insert_and_stop()
    with history.reading() as connection:
        assert connection.execute(select(maps.c.name)).all() == []


def test_a_reader_does_not_wait_for_a_writer(history: History) -> None:
    harvest = began(history)
    record(harvest, [found("add")])
    with history.writing() as connection:
        connection.execute(insert(maps).values(name="other"))
        assert sum(harvest.counts().values()) == 1
    ended(harvest)
