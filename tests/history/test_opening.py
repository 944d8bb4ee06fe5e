from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.history.making import LATER, LAYER, B, began, ended, found, look_up, record
from tileharvest.errors import HistoryError
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import tile_versions
from tileharvest.history.summaries import map_summaries
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import Tile


@pytest.fixture
def history(sqlite_history: History) -> History:
    return sqlite_history


def harvested(url: str) -> None:
    with History.open(url) as history:
        harvest = began(history)
        record(harvest, [found("add")])
        ended(harvest)


def set_revision(file: Path, revision: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))


def test_an_empty_file_becomes_a_history(url: str, file: Path) -> None:
    """A kill between creating the file and the tables leaves such a file."""
    file.parent.mkdir()
    file.touch()
    with History.open(url) as history:
        assert map_summaries(history) == []


@pytest.mark.parametrize("opening", [History.open, History.open_read_only])
@pytest.mark.parametrize(
    ("revision", "line"),
    [
        ("9999", r"newer TileHarvest \(revision 9999\); nothing was changed; update TileHarvest"),
        ("0012", r"older TileHarvest \(revision 0012\); nothing was changed; name another place"),
    ],
)
def test_a_history_of_another_revision_is_refused_and_not_changed(
    opening: type[History.open], url: str, file: Path, revision: str, line: str
) -> None:
    harvested(url)
    set_revision(file, revision)
    before = file.read_bytes()
    with pytest.raises(HistoryError, match=line):
        opening(url)
    assert file.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_not_changed(url: str, file: Path) -> None:
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE songs (title)")
    before = file.read_bytes()
    with pytest.raises(HistoryError, match=r"another program .* 'songs'.* nothing was changed"):
        History.open(url)
    assert file.read_bytes() == before


@pytest.mark.parametrize("opening", [History.open, History.open_read_only])
def test_a_file_that_is_no_database_is_refused_and_not_changed(
    opening: type[History.open], url: str, file: Path
) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database at all\n" * 500)
    before = file.read_bytes()
    with pytest.raises(HistoryError) as caught:
        opening(url)
    assert str(caught.value) == (
        f"the history {file} cannot be read (file is not a database); it was not changed: restore it"
        " from a backup, or move it away to start a new history; the images in the store are unharmed"
    )
    assert file.read_bytes() == before


def test_a_damaged_page_is_reported_when_it_is_met(url: str, file: Path) -> None:
    with History.open(url) as history:
        record(began(history), [found("add", Tile(0, 1, 2 * number + 1)) for number in range(1_000)])
    damage_leaves(file, "versions")
    with History.open(url) as history:
        harvest = began(history)
        with pytest.raises(HistoryError, match=r"malformed.*restore it from a backup"):
            tile_versions(history, "world")
        with pytest.raises(HistoryError, match=r"malformed.*restore it from a backup"):
            _ = [look_up(harvest, Block(LAYER, 0, 0, row)) for row in range(-125, 0)]


def damage_leaves(file: Path, table: str) -> None:
    """Overwrites the pages at which the table's root page points."""
    with closing(sqlite3.connect(file)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(file.read_bytes())
    page = content[(root - 1) * size : root * size]
    # https://www.sqlite.org/fileformat2.html#b_tree_pages: type 5 is an interior page of a table, whose
    # header ends with the number of its rightmost child, and whose cells begin with that of a child.
    assert page[0] == 5
    child = int.from_bytes(page[8:12])
    content[(child - 1) * size : child * size] = b"\xa5" * size
    first_cell = int.from_bytes(page[12:14])
    child = int.from_bytes(page[first_cell : first_cell + 4])
    content[(child - 1) * size : child * size] = b"\xa5" * size
    file.write_bytes(content)


def test_a_file_in_the_way_of_the_folder_is_one_clear_line(url: str, file: Path) -> None:
    file.parent.write_text("in the way")
    with pytest.raises(
        HistoryError, match=r"history\.sqlite cannot be opened \(File exists\); nothing"
    ) as caught:
        History.open(url)
    assert "\n" not in str(caught.value)


def test_a_history_that_is_locked_too_long_is_one_clear_line(url: str, file: Path) -> None:
    harvested(url)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            History.open(url, lock_timeout=0.01) as history,
            pytest.raises(
                HistoryError, match="is locked by another program for too long; nothing recorded was lost"
            ),
        ):
            began(history)


def test_reading_only_creates_nothing(url: str, file: Path) -> None:
    with pytest.raises(HistoryError, match=f"there is no history at {file} yet"):
        History.open_read_only(url)
    assert not file.parent.exists()


def test_reading_only_refuses_an_empty_file(url: str, file: Path) -> None:
    file.parent.mkdir()
    file.touch()
    with pytest.raises(HistoryError, match="there is no history at"):
        History.open_read_only(url)
    assert file.read_bytes() == b""


def test_the_stamp_is_another_one_after_each_transaction(url: str) -> None:
    with History.open(url) as writer, History.open_read_only(url) as reader:
        assert reader.stamp() == reader.stamp()
        before = reader.stamp()
        harvest = began(writer)
        begun = reader.stamp()
        ended(harvest)
        assert len({before, begun, reader.stamp()}) == 3
        assert reader.stamp() == reader.stamp()


def test_reading_only_refuses_to_write(url: str) -> None:
    harvested(url)
    with History.open_read_only(url) as history, pytest.raises(HistoryError, match="cannot be written"):
        began(history)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("data/history.sqlite", "names no database: write for example sqlite:///data/history.sqlite"),
        ("nothing://x", "names no database"),
        ("mysql://host/history", "SQLite or PostgreSQL, not mysql"),
        ("sqlite://", "in memory would be lost"),
        ("sqlite:///:memory:", "in memory would be lost"),
    ],
)
def test_an_address_that_names_no_history_is_refused(url: str, message: str) -> None:
    with pytest.raises(HistoryError, match=message):
        History.open(url)


def test_a_path_may_have_signs_that_mean_something_in_a_url(tmp_path: Path) -> None:
    file = tmp_path / "50% of #1" / "a b.sqlite"
    harvested(f"sqlite:///{file}")
    assert file.is_file()


def test_a_temporary_history_is_deleted_when_it_is_closed() -> None:
    history = History.open_temporary()
    harvest = began(history)
    record(harvest, [found("add")])
    place = Path(history.place)
    assert place.is_file()
    history.close()
    assert not place.parent.exists()


def test_a_dry_copy_knows_what_the_history_knows(history: History) -> None:
    harvest = began(history)
    record(harvest, [found("add", body=b"a"), found("add", B, b"b")])
    ended(harvest)
    with history.dry_copy("world") as copy:
        block = Block(LAYER, 0, 0, -1)
        known = look_up(began(copy, LATER), block)
        assert len(known.versions) == 2
        assert known == look_up(began(history, LATER), block)


def test_a_dry_copy_of_an_unknown_map_is_empty(history: History) -> None:
    with history.dry_copy("new") as copy:
        assert map_summaries(copy) == []
