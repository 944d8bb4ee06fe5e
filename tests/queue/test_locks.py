"""The locks of one machine, many in one file."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tileharvest.errors import ExitStatus, QueueError
from tileharvest.queue.locks import Locks, locks_in

PROGRAM = """
import sys
from pathlib import Path
from tileharvest.queue.locks import locks_in
print(locks_in(Path(sys.argv[1])).take("world"), flush=True)
sys.stdin.read()
"""


def locks_on(file: Path) -> int:
    """Returns how many locks this process has on the file, by what the system says of its open files.

    The system's list of all locks is no help: a lock of another program that ends while the list is read may
    hide one that lasts.
    """
    here = [one.name for one in Path("/proc/self/fd").iterdir() if one.exists() and one.samefile(file)]
    told = (Path("/proc/self/fdinfo", number).read_text(encoding="ascii") for number in here)
    return sum(line.startswith("lock:") for text in told for line in text.splitlines())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_lock_is_one_holders_whether_in_this_process_or_not(tmp_path: Path) -> None:
    one, other = Locks(tmp_path / "locks"), Locks(tmp_path / "locks")
    assert one.take("world")
    assert not one.take("world")
    assert not other.take("world")
    one.drop("world")
    assert other.take("world")
    other.drop("world")


def test_looking_takes_a_lock_from_nobody_and_tells_of_each_by_itself(tmp_path: Path) -> None:
    one, other = Locks(tmp_path / "locks"), Locks(tmp_path / "locks")
    one.take("world")
    assert (one.is_taken("world"), other.is_taken("world")) == (True, True)
    assert (one.is_taken("nether"), other.is_taken("nether")) == (False, False)
    one.drop("world")
    assert (one.is_taken("world"), other.is_taken("world")) == (False, False)


def test_whoever_does_not_hold_a_lock_cannot_drop_it(tmp_path: Path) -> None:
    one, other = Locks(tmp_path / "locks"), Locks(tmp_path / "locks")
    one.take("world")
    other.take("nether")
    other.drop("world")
    assert other.is_taken("world")


def test_hundreds_need_one_open_file_and_none_when_they_are_dropped(tmp_path: Path) -> None:
    before, locks = open_files(), locks_in(tmp_path)
    names = [f"map-{number}" for number in range(500)]
    assert all(locks.take(name) for name in names)
    assert locks_on(tmp_path / "locks") == 500
    assert open_files() == before + 1
    for name in names:
        locks.drop(name)
    assert open_files() == before


def test_what_is_taken_after_the_file_was_deleted_is_seen_by_all(tmp_path: Path) -> None:
    one, other = Locks(tmp_path / "locks"), Locks(tmp_path / "locks")
    one.take("world")
    (tmp_path / "locks").unlink()
    assert one.take("nether")
    assert other.is_taken("nether")
    assert not other.take("nether")
    before = open_files()
    one.drop("world")
    one.drop("nether")
    assert open_files() == before - 2


def test_a_process_that_may_open_no_more_files_calls_nobody_dead(tmp_path: Path) -> None:
    one, other = Locks(tmp_path / "locks"), Locks(tmp_path / "locks")
    one.take("world")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert other.is_taken("world")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_killed_process_lets_go_of_its_locks(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert not locks_in(tmp_path).take("world")
        process.kill()
        process.wait()
        assert locks_in(tmp_path).take("world")
    locks_in(tmp_path).drop("world")


def test_elsewhere_than_on_linux_one_line_tells_that_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(QueueError, match="needs Linux, and this is darwin") as told:
        locks_in(tmp_path)
    assert told.value.exit_status is ExitStatus.USAGE
    assert not list(tmp_path.iterdir())


def test_where_no_lock_was_taken_none_is_seen_and_no_file_is_made(tmp_path: Path) -> None:
    assert not locks_in(tmp_path / "nowhere").is_taken("world")
    assert not list(tmp_path.iterdir())
