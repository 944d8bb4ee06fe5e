from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

from tests.history.making import began, ended, found, write_revision
from tileharvest.history.recorder import _COUNT_CHANGES, _UPSERT_TILES
from tileharvest.history.revisions import MIGRATIONS
from tileharvest.history.schema import (
    REVISION,
    TILE,
    UtcDateTime,
    insert_into,
    layers,
    maps,
    metadata,
    replace_into,
    versions,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine

    from tests.servers.postgresql import PostgresqlServer
    from tileharvest.history.database import History


@pytest.fixture
def migrated_file(tmp_path: Path) -> Path:
    """An empty history that all migrations have made, one after the other."""
    file = tmp_path / "migrated.sqlite"
    write_revision(f"sqlite:///{file}", REVISION)
    return file


@pytest.fixture
def migrated_database(postgresql: PostgresqlServer, database: str) -> str:
    """The address of one on a server."""
    write_revision(postgresql.url(database), REVISION)
    return postgresql.url(database)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_migrations_give_the_tables_of_the_metadata(kind: str, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('migrated_file')}"
    else:
        url = request.getfixturevalue("migrated_database")
    engine = create_engine(url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_a_new_history_is_made_of_the_same_sql_as_by_the_migrations(
    sqlite_history: History, file: Path, migrated_file: Path
) -> None:
    """Constraints and WITHOUT ROWID too, which compare_metadata does not look at, and the note of Alembic."""

    def tables(path: Path) -> dict[str, set[str]]:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            return {
                # A column that was added later stands on the line of the one before it.
                name: {line.strip().rstrip(",") for line in re.split(r"\n|, (?=\w+ [A-Z])", sql)}
                for name, sql in rows
            }

    def revision(path: Path) -> list[tuple[str]]:
        with closing(sqlite3.connect(path)) as connection:
            return list(connection.execute("SELECT * FROM alembic_version"))

    assert tables(file) == tables(migrated_file)
    assert revision(file) == revision(migrated_file) == [(REVISION,)]


def test_a_new_history_on_a_server_has_the_same_constraints_as_by_the_migrations(
    emptied_postgresql: History, migrated_database: str
) -> None:
    engine = create_engine(migrated_database)

    def rules(engine: Engine) -> set[tuple[str, str]]:
        with engine.connect() as connection:
            query = """
                SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
                WHERE connamespace = 'public'::regnamespace
                UNION SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
            """
            return {tuple(row) for row in connection.exec_driver_sql(query)}

    assert rules(emptied_postgresql._engine) == rules(engine)
    engine.dispose()


def test_the_program_names_the_newest_revision_as_its_own() -> None:
    assert ScriptDirectory(MIGRATIONS).get_current_head() == REVISION


def test_every_table_and_upsert_can_be_said_to_postgresql() -> None:
    dialect = postgresql.dialect()
    for table in metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
    for upsert in (_COUNT_CHANGES, _UPSERT_TILES, replace_into(versions, *TILE, "day")):
        assert "ON CONFLICT" in str(upsert.compile(dialect=dialect))


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
        datetime(2021, 2, 13, 9, 30, tzinfo=timezone(timedelta(hours=2))), "finished", settle_gone=True
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
    harvest.record([found("add")])
    with history.writing() as connection:
        connection.execute(insert(maps).values(name="other"))
        assert sum(harvest.counts().values()) == 1
    ended(harvest)
