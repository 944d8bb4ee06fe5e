"""Several workers and threads that write at the same time."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import Connection, func, select

from tests.history.making import DAY, LATER, TileResult, began, ended, found, found_blocks, record
from tests.servers.postgresql import PostgresqlServer
from tileharvest.history.connection import PassingError
from tileharvest.history.costs import Cost
from tileharvest.history.database import Batcher, History
from tileharvest.history.schema import changes
from tileharvest.history.summaries import harvest_summaries, map_summaries
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome

WORKERS, MAPS, BATCH = 3, 8, 3
# Of different strengths, so that it does not matter who comes first.
OUTCOMES = ["fail", "404", "ign", "add"]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Gives the address of a history that does not exist yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('workers') / 'history.sqlite'}"
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    with server.database() as name:
        yield server.url(name)


@pytest.fixture(scope="module")
def given(new_url: str) -> list[list[tuple[str, bool]]]:
    """Per worker, and of each map, the identity of its harvest and whether it is continued. Each worker has
    connections of its own, as processes have, and all begin at once."""
    at_once = threading.Barrier(WORKERS)

    def work(worker: int) -> list[tuple[str, bool]]:
        at_once.wait(240)
        with History.open(new_url) as history:
            harvests = [began(history, name=f"map{number}") for number in range(MAPS)]
            results = results_of(worker)
            for start in range(0, len(results), BATCH):
                record(harvests[0], results[start : start + BATCH], Cost(3, 50, 7))
            return [(harvest.identity, harvest.continued) for harvest in harvests]

    with ThreadPoolExecutor(WORKERS) as threads:
        return list(threads.map(work, range(WORKERS)))


def results_of(worker: int) -> list[TileResult]:
    """What a worker records of a map: of its own tiles, and of those that all have asked."""
    random = Random(worker)
    own = [Tile(0, 2 * worker + 1, y) for y in range(-31, 32, 2)]
    shared = [Tile(0, -1, y) for y in range(-31, 32, 2)]
    return random.sample(
        [
            found(random.choice(OUTCOMES), tile, f"image {random.randrange(5)}".encode())
            for tile in [*own, *shared]
        ],
        len(own) + len(shared),
    )


def test_of_all_who_begin_at_once_one_begins_and_the_others_continue_its_harvest(
    new_url: str, given: list[list[tuple[str, bool]]]
) -> None:
    for harvests in zip(*given, strict=True):
        assert len({identity for identity, _ in harvests}) == 1
        assert sorted(continued for _, continued in harvests) == [False] + [True] * (WORKERS - 1)
    with History.open_read_only(new_url) as history:
        assert [summary.name for summary in map_summaries(history)] == [f"map{n}" for n in range(MAPS)]
        assert len(harvest_summaries(history, "map0")) == 1


@pytest.mark.usefixtures("given")
def test_what_several_record_at_once_adds_up_exactly(new_url: str) -> None:
    recorded = [result for worker in range(WORKERS) for result in results_of(worker)]
    strongest: dict[object, str] = {}
    for result in recorded:
        outcomes = (result.outcome.value, strongest.get(result.tile, OUTCOMES[0]))
        strongest[result.tile] = max(outcomes, key=OUTCOMES.index)
    batches = sum(-(-len(results_of(worker)) // BATCH) for worker in range(WORKERS))
    with History.open(new_url) as history:
        ended(began(history, name="map0"))
        summary = map_summaries(history)[0]
        last = harvest_summaries(history, "map0")[-1]
        assert {outcome.value: tiles for outcome, tiles in last.counts.items()} == Counter(strongest.values())
        assert last.cost[:3] == (3 * batches, 50 * batches, 7 * batches)
        assert summary.versions == list(strongest.values()).count("add")
        with history.reading() as connection:
            of_day = select(func.sum(changes.c.tiles)).where(changes.c.day == DAY)
            assert connection.execute(of_day).scalar_one() == summary.versions


@contextmanager
def held(
    history: History, work: Callable[[Connection], object], postgresql: PostgresqlServer
) -> Iterator[None]:
    """Does the work in a transaction that ends when another one waits for it."""
    done = threading.Event()

    def hold(connection: Connection) -> None:
        work(connection)
        done.set()
        await_waiting(postgresql, str(history._engine.url.database))

    with ThreadPoolExecutor(1) as thread:
        holding = thread.submit(history.write, hold)
        assert done.wait(240)
        yield
        holding.result(240)


def await_waiting(postgresql: PostgresqlServer, database: str) -> None:
    waiting = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'"
    end = time.monotonic() + 240
    while not postgresql.ask(waiting):
        assert time.monotonic() < end, "nobody waits"
        time.sleep(0.01)


@pytest.mark.parametrize("is_known", [False, True])
def test_who_begins_while_another_does_waits_and_continues_its_harvest(
    emptied_postgresql: History, postgresql: PostgresqlServer, is_known: bool
) -> None:
    if is_known:
        ended(began(emptied_postgresql))
    with held(emptied_postgresql, lambda _: began(emptied_postgresql, LATER), postgresql):
        second = began(emptied_postgresql, LATER)
    assert second.continued
    assert second.id == harvest_summaries(emptied_postgresql, "world")[-1].id


def test_who_ends_while_another_records_waits_and_counts_what_was_recorded(
    emptied_postgresql: History, postgresql: PostgresqlServer
) -> None:
    harvest = began(emptied_postgresql)

    def write(connection: Connection) -> None:
        for block, found_there in found_blocks([found("add")]):
            harvest.record_block(connection, block, found_there, Cost(1, 2, 3))

    with held(emptied_postgresql, write, postgresql):
        ended(began(emptied_postgresql))
    (summary,) = harvest_summaries(emptied_postgresql, "world")
    assert (summary.cost.requests, summary.counts) == (1, {Outcome.ADDED: 1})


class Database:
    """Notes what each transaction has written. The first waits until it may go on."""

    def __init__(self) -> None:
        self.transactions: list[list[str]] = []
        self.begun = threading.Event()
        self.may_go_on = threading.Event()

    def write(self, work: Callable[[Any], list[str]]) -> list[str]:
        self.begun.set()
        assert self.may_go_on.wait(240)
        written: list[str] = []
        results = work(written)
        self.transactions.append(written)
        return results


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def writer(database: Database) -> Iterator[Batcher]:
    """Its first transaction is begun."""
    writer = Batcher(database)  # type: ignore[arg-type]
    writer.submit(partial(write, text="first"))
    assert database.begun.wait(240)
    yield writer
    database.may_go_on.set()
    writer.close()


def write(written: Any, text: str) -> str:
    if text == "bad":
        raise ValueError("a harvest's own mistake")
    written.append(text)
    return text.upper()


def test_what_waits_while_another_transaction_runs_shares_the_next_one(
    writer: Batcher, database: Database
) -> None:
    later = [writer.submit(partial(write, text=text)) for text in ("second", "third")]
    database.may_go_on.set()
    assert [future.result(240) for future in later] == ["SECOND", "THIRD"]
    assert database.transactions == [["first"], ["second", "third"]]


def test_a_work_that_fails_takes_no_other_with_it(writer: Batcher, database: Database) -> None:
    good, bad, better = [writer.submit(partial(write, text=text)) for text in ("good", "bad", "better")]
    database.may_go_on.set()
    assert (good.result(240), better.result(240)) == ("GOOD", "BETTER")
    with pytest.raises(ValueError, match="own mistake"):
        bad.result(240)
    assert database.transactions == [["first"], ["good"], ["better"]]


def test_a_server_that_stays_away_is_awaited_once_for_all(writer: Batcher, database: Database) -> None:
    works = Mock(side_effect=PassingError("the server is away"))
    futures = [writer.submit(works) for _ in range(3)]
    database.may_go_on.set()
    assert [type(future.exception(240)) for future in futures] == [PassingError] * 3
    assert works.call_count == 1


def test_if_the_server_goes_away_within_a_call_all_of_the_call_is_done_again(emptied_sqlite: History) -> None:
    inner = Mock(side_effect=[PassingError("the server is away"), "answer"])
    outer = Mock(side_effect=lambda _: emptied_sqlite.read(inner))
    assert emptied_sqlite.write(outer) == "answer"
    assert outer.call_count == 2
