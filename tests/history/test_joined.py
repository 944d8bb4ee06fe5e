"""Calls within the work of `read` or `write` join its transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, select

from tileharvest.history.schema import maps

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tileharvest.history.database import History


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


def test_what_is_read_within_a_work_that_writes_has_what_it_has_written(history: History) -> None:
    def write(_: Connection) -> set[str]:
        add(history, "world")
        return names(history)

    assert history.write(write) == {"world"}


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
