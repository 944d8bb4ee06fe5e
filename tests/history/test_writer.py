"""What several harvests write at the same time is written in one transaction."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tileharvest.history.database import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Database:
    """Notes what each transaction has written. The first waits until it may go on."""

    def __init__(self) -> None:
        self.transactions: list[list[str]] = []
        self.begun = threading.Event()
        self.may_go_on = threading.Event()

    def write(self, work: Callable[[Any], None]) -> None:
        self.begun.set()
        assert self.may_go_on.wait(240)
        written: list[str] = []
        work(written)
        self.transactions.append(written)


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    writer = Writer(database.write)
    yield writer
    database.may_go_on.set()
    writer.close()


def writing(text: str) -> Callable[[Any], None]:
    return lambda written: written.append(text)


def failing(written: Any) -> None:
    raise ValueError("a harvest's own mistake")


def test_what_waits_while_another_transaction_runs_shares_the_next_one(
    writer: Writer, database: Database
) -> None:
    first = writer.submit(writing("first"))
    assert database.begun.wait(240)
    later = [writer.submit(writing(text)) for text in ("second", "third", "fourth")]
    assert not first.done()
    database.may_go_on.set()
    assert [future.result(240) for future in (first, *later)] == [None] * 4
    assert database.transactions == [["first"], ["second", "third", "fourth"]]


def test_a_work_that_fails_takes_no_other_with_it(writer: Writer, database: Database) -> None:
    writer.submit(writing("first"))
    assert database.begun.wait(240)
    good, bad, better = [writer.submit(work) for work in (writing("good"), failing, writing("better"))]
    database.may_go_on.set()
    assert (good.result(240), better.result(240)) == (None, None)
    with pytest.raises(ValueError, match="own mistake"):
        bad.result(240)
    assert database.transactions == [["first"], ["good"], ["better"]]


def test_a_hundred_at_most_share_a_transaction(writer: Writer, database: Database) -> None:
    writer.submit(writing("first"))
    assert database.begun.wait(240)
    futures = [writer.submit(writing(str(number))) for number in range(150)]
    database.may_go_on.set()
    for future in futures:
        future.result(240)
    assert [len(written) for written in database.transactions] == [1, 100, 50]


def test_closing_waits_for_what_was_submitted(database: Database) -> None:
    writer = Writer(database.write)
    database.may_go_on.set()
    future = writer.submit(writing("last"))
    writer.close()
    assert future.done()
