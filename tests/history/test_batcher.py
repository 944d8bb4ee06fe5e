"""What waits is done in one transaction, and a mistake takes nothing else with it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tileharvest.history.database import Batcher

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
def writer(database: Database) -> Iterator[Batcher]:
    """Its first transaction is begun."""
    writer = Batcher(database, writes=True)  # type: ignore[arg-type]
    writer.submit(write, "first")
    assert database.begun.wait(240)
    yield writer
    database.may_go_on.set()
    writer.close()


def write(written: Any, texts: list[str]) -> list[str]:
    if "bad" in texts:
        raise ValueError("a harvest's own mistake")
    written.append(" ".join(texts))
    return [text.upper() for text in texts]


def write_twice(written: Any, texts: list[str]) -> list[str]:
    return write(written, texts * 2)[: len(texts)]


def test_what_waits_while_another_transaction_runs_shares_the_next_one(
    writer: Batcher, database: Database
) -> None:
    works = [write, write_twice, write]
    later = [writer.submit(*one) for one in zip(works, ("second", "third", "fourth"), strict=True)]
    database.may_go_on.set()
    assert [future.result(240) for future in later] == ["SECOND", "THIRD", "FOURTH"]
    assert database.transactions == [["first"], ["second fourth", "third third"]]


def test_a_work_that_fails_takes_no_other_with_it(writer: Batcher, database: Database) -> None:
    good, bad, better = [writer.submit(write, text) for text in ("good", "bad", "better")]
    database.may_go_on.set()
    assert (good.result(240), better.result(240)) == ("GOOD", "BETTER")
    with pytest.raises(ValueError, match="own mistake"):
        bad.result(240)
    assert database.transactions == [["first"], ["good"], ["better"]]


def test_a_hundred_at_most_share_a_transaction(writer: Batcher, database: Database) -> None:
    futures = [writer.submit(write, str(number)) for number in range(150)]
    database.may_go_on.set()
    writer.close()
    assert all(future.done() for future in futures)
    assert [len(written[0].split()) for written in database.transactions] == [1, 100, 50]
