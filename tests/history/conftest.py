from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.history.making import LATER, began, empty, ended, first_harvest, put_empty_history
from tests.history.random_world import Opening
from tests.servers.postgresql import PostgresqlServer
from tileharvest.history.database import History
from tileharvest.history.harvests import HarvestRecord


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the history is; its folder does not exist yet."""
    return tmp_path / "data" / "history.sqlite"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture(params=["sqlite", "postgresql"])
def history(request: pytest.FixtureRequest) -> History:
    """An empty one of each kind of database, one after the other."""
    history: History = request.getfixturevalue(f"emptied_{request.param}")
    return history


@pytest.fixture
def first(history: History) -> HarvestRecord:
    """One that has seen the pyramid and is not finished."""
    return first_harvest(history)


@pytest.fixture
def second(history: History, first: HarvestRecord) -> HarvestRecord:
    """The next one after it, of a later day."""
    ended(first)
    return began(history, LATER)


@pytest.fixture(scope="session")
def opening(request: pytest.FixtureRequest) -> Opening:
    """Opens a new history in a database of a kind, for as long as a block lasts."""

    @contextmanager
    def opened(database: str) -> Iterator[History]:
        if database == "sqlite":
            with History.open_temporary() as history:
                yield history
            return
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        with server.database() as name, History.open(server.url(name)) as history:
            yield history

    return opened


@pytest.fixture(scope="session")
def shared_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    file = tmp_path_factory.mktemp("shared") / "history.sqlite"
    put_empty_history(file)
    with History.open(f"sqlite:///{file}") as opened:
        yield opened


@pytest.fixture
def emptied_sqlite(shared_file: History) -> Iterator[History]:
    yield shared_file
    empty(shared_file)


@pytest.fixture(scope="session")
def shared_history(postgresql: PostgresqlServer) -> Iterator[History]:
    with postgresql.database() as name, History.open(postgresql.url(name)) as opened:
        yield opened


@pytest.fixture
def emptied_postgresql(shared_history: History) -> Iterator[History]:
    yield shared_history
    empty(shared_history)
