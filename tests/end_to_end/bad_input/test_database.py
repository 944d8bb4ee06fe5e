"""Histories that the program cannot read or must not change: exit status 1, one line, no byte changed."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, SECOND_DAY, Stage, visit
from tests.end_to_end.project import contents


@pytest.fixture(scope="module")
def kept(shared_stage: Stage) -> Path:
    """A copy of the data folder after a first harvest."""
    visit(shared_stage.project, FIRST_DAY)
    return shared_stage.project.data.rename(shared_stage.project.folder / "kept")


@pytest.fixture
def harvested(shared_stage: Stage, kept: Path) -> Iterator[Stage]:
    shutil.copytree(kept, shared_stage.project.data)
    yield shared_stage
    shutil.rmtree(shared_stage.project.data)


def newer(database: Path) -> None:
    change(database, "UPDATE alembic_version SET version_num = '9001'")


def no_database(database: Path) -> None:
    database.write_bytes(b"no database at all, but longer than SQLite's header" * 100)


def foreign(database: Path) -> None:
    database.unlink()
    change(database, "CREATE TABLE recipes (name TEXT)")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (newer, "was written by a newer TileHarvest (revision 9001)"),
        (no_database, "restore it from a backup"),
        (foreign, "is a database of another program"),
        # The first page of a table is damaged, so all its rows are lost.
        (lambda database: damage(database, "harvests"), "restore it from a backup"),
    ],
)
def test_what_cannot_be_read_is_left_alone(
    harvested: Stage, spoil: Callable[[Path], None], said: str
) -> None:
    spoil(harvested.project.database)
    before = harvested.project.kept()
    done = visit(harvested.project, SECOND_DAY)
    assert done.status == 1
    assert str(harvested.project.database) in done.error
    assert said in done.error
    assert harvested.project.kept() == before


@pytest.mark.parametrize("table", ["tiles", "versions"])
def test_a_damaged_page_that_is_noticed_later_ends_the_harvest(
    harvested: Stage, kept: Path, table: str
) -> None:
    """The harvest has begun when it meets the page. It leaves no log beside the file: a log would spoil the
    backup that takes the file's place."""
    damage(harvested.project.database, table)
    files = contents(harvested.project.data)
    done = visit(harvested.project, SECOND_DAY)
    assert done.status == 1
    assert "restore it from a backup" in done.error
    assert contents(harvested.project.data).keys() == files.keys()
    shutil.copy(kept / "history.sqlite", harvested.project.database)
    assert visit(harvested.project, SECOND_DAY).counts == {"ign": 20}


def change(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


def damage(database: Path, table: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        ((page, size),) = connection.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = ?", (table,)
        )
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
