"""What is particular to a queue in a file: its worker, its filter, its file."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.queue.driven import Driven, entry
from tileharvest.errors import ExitStatus, QueueError
from tileharvest.queue.sqlite.queue import SqliteQueue

AFRESH = "start afresh with --fresh, or a spider with -a fresh=1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "queues" / "world.sqlite"


@pytest.fixture
def queue(file: Path) -> Iterator[Driven]:
    with Driven(lambda: SqliteQueue(file, max_attempts=2, work="spider 'quotes'")) as driven:
        yield driven


# Its worker


def test_a_second_worker_is_refused_in_words_of_the_first(queue: Driven) -> None:
    queue.open()
    with Driven(queue.make) as second:
        with pytest.raises(QueueError, match="spider 'quotes' runs in another process already") as refused:
            second.open()
        assert refused.value.exit_status is ExitStatus.USAGE
        with pytest.raises(QueueError, match="spider 'quotes' runs in another process"):
            second.run(second.queue.discard())
        queue.run(queue.queue.close())
        second.open()


def test_the_leases_of_a_worker_that_ended_are_taken_back_at_once(queue: Driven) -> None:
    queue.open().tell(entry("1"), entry("2"))
    queue.lease(1)
    queue.run(queue.queue.close())
    queue.open()
    assert [(one.body, one.attempt) for one in queue.lease()] == [(b"1", 2), (b"2", 1)]


def test_a_request_whose_worker_ended_too_often_waits_last_and_is_then_given_up(queue: Driven) -> None:
    queue.open().tell(entry("1"), entry("2", -5))

    def lose_the_worker() -> None:
        assert queue.bodies(1) == ["1"]
        queue.run(queue.queue.close())
        queue.open()

    lose_the_worker()
    lose_the_worker()
    (other,) = queue.lease(1)
    assert other.body == b"2"
    queue.end(other)
    lose_the_worker()
    lose_the_worker()
    assert queue.failed == [("1", "its worker ended 4 times while it was under way")]
    assert queue.bodies() == []


# Its filter


def test_what_the_filter_takes_for_seen_is_looked_up_and_not_lost(queue: Driven) -> None:
    queue.open()
    queue.queue._filter.add = lambda _: True
    assert queue.tell(entry("1"), entry("2"), entry("1")).duplicates == [2]
    assert queue.bodies() == ["1", "2"]


def test_a_new_worker_fills_its_filter_which_grows_and_forgets_nothing(
    queue: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileharvest.queue.sqlite.queue._EXPECTED", 10)
    queue.open().tell(*(entry(str(number)) for number in range(100)))
    assert len(queue.queue._filter.filters) > 1
    queue.run(queue.queue.close())
    answer = queue.open().tell(*(entry(str(number)) for number in range(101)))
    assert answer.duplicates == list(range(100))
    assert all(queue.queue._filter.add(str(number).encode().hex()) for number in range(101))


# Its file


def test_a_file_that_is_deleted_in_the_middle_of_a_crawl_is_noticed(queue: Driven, file: Path) -> None:
    queue.open().tell(entry("1"))
    shutil.rmtree(file.parent)
    for call in (queue.tell, queue.counts, lambda: queue.run(queue.queue.notes())):
        with pytest.raises(QueueError, match="was emptied while a crawl worked on it"):
            call()


def _write_older(file: Path) -> None:
    with Driven(lambda: SqliteQueue(file)) as queue:
        queue.open()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 2")


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda file: file.write_bytes(b"somebody's text, not a database" * 99), f"not deleted.*{AFRESH}"),
        (_write_older, f"not of this version of TileHarvest \\(its format is 2, this one's 9\\).*{AFRESH}"),
    ],
    ids=["text", "older"],
)
def test_a_file_that_is_not_ours_is_refused_and_kept(queue: Driven, file: Path, write, said) -> None:
    file.parent.mkdir()
    write(file)
    before = file.read_bytes()
    for opening in (queue.open, lambda: queue.run(queue.queue.open_beside())):
        with pytest.raises(QueueError, match=said):
            opening()
    assert file.read_bytes() == before
    queue.run(queue.queue.discard())
    assert queue.open().bodies() == []


def test_a_flipped_bit_in_one_of_the_places_that_have_a_value_is_found_at_opening(
    queue: Driven, file: Path
) -> None:
    queue.open().tell(entry("1", slot="map.example.net"))
    queue.run(queue.queue.close())
    sound = file.read_bytes()
    # The table has it, and so has the index.
    assert sound.count(b"map.example.net") == 2
    file.write_bytes(sound.replace(b"map.example.net", b"map.axample.net", 1))
    with pytest.raises(QueueError, match=rf"cannot be read.*it was not deleted.*{AFRESH}"):
        queue.open()


def test_a_full_disk_says_so_and_loses_nothing(queue: Driven) -> None:
    queue.open().tell(entry("1"))
    (pages,) = queue.queue._connection.execute("PRAGMA page_count").fetchone()
    queue.queue._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(QueueError, match=r"disk full: .*; no request in it was lost"):
        queue.tell(*(entry(str(number) * 500) for number in range(100)))
    assert queue.bodies() == ["1"]


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "queues").write_text("a file")
    queue = Driven(lambda: SqliteQueue(tmp_path / "queues" / "world.sqlite"))
    with queue, pytest.raises(QueueError, match=r"failed \(File exists\).*see that it and its folder"):
        queue.open()
