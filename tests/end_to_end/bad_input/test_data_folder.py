"""Data folders that cannot be written, and histories of which a page is damaged: exit status 1, one line, and
the data stay as they are."""

import sqlite3
from contextlib import closing

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, SECOND_DAY, Stage, visit
from tests.end_to_end.project import contents


@pytest.mark.parametrize("part", ["", "tiles"])
def test_a_file_in_place_of_the_data_folder_or_the_store(stage: Stage, part: str) -> None:
    place = stage.project.data / part
    place.parent.mkdir(exist_ok=True)
    place.write_text("a note", encoding="utf-8")
    done = visit(stage.project, FIRST_DAY)
    assert done.status == 1
    assert str(place) in done.error
    assert place.read_text(encoding="utf-8") == "a note"
    place.unlink()
    assert visit(stage.project, FIRST_DAY).counts == {"add": 20}


@pytest.mark.parametrize("table", ["harvests", "tiles", "versions"])
def test_a_damaged_page_ends_the_harvest_sooner_or_later(stage: Stage, table: str) -> None:
    """A harvest that has begun when it meets the page leaves no log beside the file: a log would spoil the
    backup that takes the file's place."""
    visit(stage.project, FIRST_DAY)
    files, database = contents(stage.project.data), stage.project.database
    with closing(sqlite3.connect(database)) as connection:
        ((page, size),) = connection.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = ?", (table,)
        )
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
    done = visit(stage.project, SECOND_DAY)
    assert done.status == 1
    assert "restore it from a backup" in done.error
    assert contents(stage.project.data).keys() == files.keys()
    database.write_bytes(files["history.sqlite"])
    assert visit(stage.project, SECOND_DAY).counts == {"ign": 20}
