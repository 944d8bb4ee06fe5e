"""Logins, rights, and a server that goes away: cases that only a history on a server can meet."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import PoolProxiedConnection

from tests.history.making import B, began, ended, found, look_up, record
from tests.servers.postgresql import PostgresqlServer, postgresql_server
from tileharvest.errors import HistoryError
from tileharvest.harvest.holdings import Holdings
from tileharvest.history.connection import parse_address, place_of
from tileharvest.history.costs import Cost
from tileharvest.history.database import History
from tileharvest.history.summaries import harvest_summaries
from tileharvest.store.files import FileStore
from tileharvest.tiles.block import Block, bit_of
from tileharvest.tiles.outcomes import Outcome


@pytest.fixture(scope="module")
def restarted() -> Iterator[PostgresqlServer]:
    """A server that tests may stop; each leaves it running."""
    with postgresql_server() as server:
        yield server


def said(url: str) -> str:
    """The one line with which opening fails."""
    with pytest.raises(HistoryError) as caught:
        History.open(url)
    line = str(caught.value)
    assert "\n" not in line
    assert "secret" not in line
    return line


# ---------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_an_address_of_postgresql_means_psycopg(scheme: str) -> None:
    address = parse_address(f"{scheme}://user:secret@host/history")
    assert address.drivername == "postgresql+psycopg"
    assert address.password == "secret"
    assert place_of(address) == "postgresql+psycopg://user:***@host/history"


def test_a_password_in_the_query_is_not_told() -> None:
    address = parse_address("postgresql://host/history?user=me&password=secret")
    assert place_of(address) == "postgresql+psycopg://host/history?user=me"


# -------------------------------------------------------------------------------------------- logins


def test_a_wrong_password_is_one_clear_line(postgresql: PostgresqlServer) -> None:
    line = said(postgresql.tcp_url("postgres", password="another secret"))
    assert "cannot be reached, or its server refuses it (" in line
    assert "make sure that the server runs, and that user, password and database are right" in line


def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    line = said(f"postgresql://user:secret@127.0.0.1:{port}/history")
    assert f"history postgresql+psycopg://user:***@127.0.0.1:{port}/history cannot be reached" in line


# ------------------------------------------------------------------------------------------- reading


def test_where_no_harvest_has_begun_there_is_no_history_yet(
    postgresql: PostgresqlServer, database: str
) -> None:
    url = postgresql.url(database)
    with pytest.raises(HistoryError, match=r"there is no history at postgresql.* yet: the first harvest"):
        History.open_read_only(url)
    assert not History.is_begun(url)
    with Holdings(url, partial(FileStore, Path("tiles"))).open_to_look() as history:
        assert history is None
    with Holdings(url, partial(FileStore, Path("tiles")), "world").open_history() as dry:
        assert began(dry).counts() == {}
    assert postgresql.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", database) == []


# ---------------------------------------------------------------------------- a server that goes away


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
        assert (summary.cost.requests, summary.cost.received_bytes, summary.cost.stored_bytes) == (2, 20, 200)


def test_a_server_that_stays_away_is_one_clear_line(restarted: PostgresqlServer) -> None:
    with restarted.database() as name, History.open(restarted.url(name), patience=2.0) as history:
        harvest = began(history)
        restarted.stop()
        with pytest.raises(HistoryError, match=r"cannot be reached, .*; nothing recorded was lost"):
            record(harvest, [found("add")])
        restarted.start()
        record(harvest, [found("add")])
        assert harvest.counts() == {Outcome.ADDED: 1}


def lose_answers(history: History, monkeypatch: pytest.MonkeyPatch, number: int = 1) -> list[str]:
    """The next transactions are committed, but the connection breaks before the answer comes."""
    dialect, lost = history._engine.dialect, []
    commit = dialect.do_commit

    def losing(connection: PoolProxiedConnection) -> None:
        commit(connection)
        if len(lost) < number:
            lost.append("answer")
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, "do_commit", losing)
    return lost


def test_a_beginning_whose_commit_got_no_answer_is_still_a_beginning(
    emptied_postgresql: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(emptied_postgresql, monkeypatch)
    assert not began(emptied_postgresql).continued
    assert len(harvest_summaries(emptied_postgresql, "world")) == 1


def test_there_are_more_ids_of_versions_than_four_bytes_hold(
    postgresql: PostgresqlServer, database: str
) -> None:
    with History.open(postgresql.url(database)) as history:
        postgresql.ask(f"SELECT setval('versions_id_seq', {1 << 31})", database)
        harvest = began(history)
        record(harvest, [found("add", B)])
        assert list(look_up(harvest, Block("day", 0, 0, -1)).versions) == [bit_of(B)]
    assert postgresql.ask("SELECT version FROM tiles", database) == [((1 << 31) + 1,)]
