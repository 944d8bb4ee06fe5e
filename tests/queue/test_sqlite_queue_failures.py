"""What a person is told when the file of a queue, or its disk, cannot be used."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.scheduler.driving import Driven, entry
from tileharvest.errors import QueueError
from tileharvest.queue.sqlite.queue import SqliteQueue, has_requests_in, remarks_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AFRESH = "start afresh with -a fresh=1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "world.sqlite"


def at(file: Path) -> Driven:
    return Driven(lambda: SqliteQueue(file))


def refusal(file: Path) -> str:
    """Returns what opening says, as a worker and beside one, and what a glance says."""
    with at(file) as queue:
        with pytest.raises(QueueError) as as_worker:
            queue.open()
        with pytest.raises(QueueError) as beside:
            queue.run(queue.queue.open_beside())
    assert str(beside.value) == str(as_worker.value)
    if file.is_file():
        with pytest.raises(QueueError) as at_a_glance:
            remarks_in(file, "")
        assert str(at_a_glance.value) == str(beside.value)
    return str(as_worker.value)


def execute(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)


# The file


@pytest.mark.parametrize("version", [0, 3, 99])
def test_a_queue_of_another_version_is_refused_and_not_changed(file: Path, version: int) -> None:
    with at(file).open() as queue:
        queue.push(entry("1"))
    execute(file, f"PRAGMA user_version = {version}")
    before = file.read_bytes()
    assert refusal(file) == (
        f"the queue {file} was written by another version of TileHarvest (its format is {version}, this"
        f" one's 2); nothing was changed; finish it with that version or {AFRESH}"
    )
    assert file.read_bytes() == before


def test_a_queue_of_the_first_version_goes_on_where_it_was(file: Path) -> None:
    with at(file).open() as queue:
        queue.push(entry("1"), entry("2"))
    execute(file, "UPDATE requests SET body = substr(body, 1, length(body) - 4)")
    execute(file, "DROP TABLE surely_new")
    execute(file, "PRAGMA user_version = 1")
    assert has_requests_in(file)
    with at(file).open() as queue:
        assert queue.bodies() == ["1", "2"]
        assert queue.push(entry("3")).duplicates == 0


def test_a_database_of_another_program_is_refused_and_not_changed(file: Path) -> None:
    execute(file, "CREATE TABLE tiles (id INTEGER)")
    before = file.read_bytes()
    assert refusal(file) == (
        f"{file} is a database of another program; nothing was changed; name another place for the queue"
    )
    assert file.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_not_changed(file: Path) -> None:
    file.write_bytes(b"not a database, but longer than the header of one would be" * 20)
    assert refusal(file) == (
        f"the queue {file} cannot be read (file is not a database); it was not deleted, and the history is"
        f" unharmed: {AFRESH}, or move the file away"
    )
    assert file.read_bytes().startswith(b"not a database")


def test_a_damaged_queue_says_so(file: Path) -> None:
    with at(file).open() as queue:
        queue.push(*(entry(str(number)) for number in range(2000)))
    header = 2048
    with file.open("r+b") as damaged:
        damaged.seek(header)
        damaged.write(b"\xff" * (file.stat().st_size - header))
    with at(file) as queue, pytest.raises(QueueError, match=rf"malformed.*; it was not deleted.*{AFRESH}"):
        queue.open()


def test_an_empty_file_becomes_a_queue(file: Path) -> None:
    file.touch()
    with at(file).open() as queue:
        queue.push(entry("1"))
        assert queue.bodies() == ["1"]


def test_a_glance_sees_remarks_and_leaves_nothing_behind(file: Path) -> None:
    with at(file).open() as worker:
        worker.note("", "paused", "10:00")
        # Also what is not worked into the file yet.
        assert remarks_in(file, "") == {"paused": "10:00"}
    before = file.read_bytes()
    assert remarks_in(file, "") == {"paused": "10:00"}
    assert file.read_bytes() == before
    assert {one.name for one in file.parent.iterdir()} == {file.name, "locks"}


def test_a_glance_at_an_empty_file_sees_nothing_and_makes_nothing(file: Path) -> None:
    file.touch()
    assert remarks_in(file, "") == {}
    assert file.read_bytes() == b""


def test_a_glance_at_no_file_makes_none(file: Path) -> None:
    with pytest.raises(QueueError, match="cannot be opened"):
        remarks_in(file, "")
    assert not file.exists()


def test_after_a_refusal_the_same_object_can_be_opened(file: Path) -> None:
    file.write_bytes(b"not a database" * 100)
    with at(file) as queue:
        with pytest.raises(QueueError):
            queue.open()
        file.unlink()
        assert queue.open().bodies() == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "queues").touch()
    file = tmp_path / "queues" / "world.sqlite"
    said = refusal(file)
    assert said.startswith(f"the queue {file} cannot be opened (")
    assert said.endswith("make sure that its folder exists and is writable, or name another place")


# Starting afresh


def test_a_queue_is_discarded_whatever_it_is(file: Path) -> None:
    file.write_bytes(b"not a database" * 100)
    with at(file) as queue:
        queue.run(queue.queue.discard())
        assert queue.open().push(entry("1")).duplicates == 0


def test_a_discarded_queue_is_empty(file: Path) -> None:
    with at(file).open() as queue:
        queue.push(entry("1"))
        queue.stop()
        queue.run(queue.queue.discard())
        queue.run(queue.queue.discard())
        assert queue.open().bodies() == []
        assert queue.push(entry("1")).duplicates == 0


def test_a_queue_that_is_worked_on_is_not_discarded(file: Path) -> None:
    with at(file).open() as queue:
        queue.push(entry("1"))
        with pytest.raises(QueueError, match="being harvested by another process"):
            queue.run(SqliteQueue(file).discard())
        with pytest.raises(RuntimeError, match="open already"):
            queue.run(queue.queue.discard())
        assert queue.bodies() == ["1"]


# The disk: needs the right to mount one


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if sys.platform != "linux" or mount is None or subprocess.run(command, check=False).returncode != 0:
        pytest.skip("only the administrator of a Linux system can mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_clear_line_and_loses_nothing(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk, at(disk / "world.sqlite").open() as queue:
        taken = 0

        def push_for_ever() -> None:
            nonlocal taken
            while True:
                queue.push(*(entry(f"{taken + n} {'.' * 200}") for n in range(50)))
                taken += 50

        with pytest.raises(QueueError) as caught:
            push_for_ever()
        assert str(caught.value) == (
            f"disk full: the queue {disk / 'world.sqlite'} could not be written; no request in it was lost;"
            " free space and run again"
        )
        queue.stop()
        shutil.copytree(disk, tmp_path / "larger")
    with at(tmp_path / "larger" / "world.sqlite").open() as queue:
        assert [body.split()[0] for body in queue.bodies(10_000)] == [str(n) for n in range(taken)]
        assert queue.counts().seen == taken > 0


def test_on_a_full_disk_a_parent_is_not_finished_without_its_children(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk, at(disk / "world.sqlite").open() as queue:
        parent = queue.exchange(1, pushed=[entry("parent")]).leases
        children = [entry(bytes(2000), fingerprint=b"%d" % n) for n in range(1000)]
        with pytest.raises(QueueError, match="disk full"):
            queue.exchange(finished=parent, pushed=children)
        counts = queue.counts()
        assert (counts.leased, counts.seen, counts.done) == (1, 1, 0)
        assert queue.exchange(finished=parent, pushed=children[:10]).refused == 0


def test_a_disk_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk:
        with at(disk / "world.sqlite").open() as queue:
            queue.push(entry("1"))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with at(disk / "world.sqlite") as queue, pytest.raises(QueueError) as caught:
            queue.open()
    assert "no request in it was lost" in str(caught.value)
    assert "writable" in str(caught.value)


# The thread


def test_a_queue_for_which_no_thread_can_be_started_is_not_waited_for(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with at(file) as queue:
        with monkeypatch.context() as patched:
            patched.setattr(ThreadPoolExecutor, "submit", start)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                queue.open()
        queue.open()
        assert queue.push(entry("1")).duplicates == 0
