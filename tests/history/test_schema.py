from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, select
from sqlalchemy.dialects import sqlite

from tests.history.making import began, ended, found, record
from tileharvest.history.schema import (
    UtcDateTime,
    insert_into,
    layers,
    maps,
    metadata,
)

if TYPE_CHECKING:
    from tileharvest.history.database import History


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
