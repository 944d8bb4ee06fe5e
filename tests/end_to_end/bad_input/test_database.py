"""Histories of which a page is damaged: exit status 1, one line, and a backup can take their place."""

import shutil
import sqlite3
from collections.abc import Iterator
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


@pytest.mark.parametrize("table", ["harvests", "tiles", "versions"])
def test_a_damaged_page_ends_the_harvest_sooner_or_later(harvested: Stage, kept: Path, table: str) -> None:
    """A harvest that has begun when it meets the page leaves no log beside the file: a log would spoil the
    backup that takes the file's place."""
    damage(harvested.project.database, table)
    files = contents(harvested.project.data)
    done = visit(harvested.project, SECOND_DAY)
    assert done.status == 1
    assert "restore it from a backup" in done.error
    assert contents(harvested.project.data).keys() == files.keys()
    shutil.copy(kept / "history.sqlite", harvested.project.database)
    assert visit(harvested.project, SECOND_DAY).counts == {"ign": 20}


def damage(database: Path, table: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        ((page, size),) = connection.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = ?", (table,)
        )
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
