"""What the processes of one machine keep of a host, in real processes and in files that were spoilt."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pytest

from tests.queue.test_locks import locks_on
from tileharvest.errors import QueueError
from tileharvest.maps.rates import Gap
from tileharvest.politeness.rate_limit import Account, Host, Pace
from tileharvest.queue.shared_states import StateFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tileharvest.politeness.rate_limit import Process

HOST = "map.example.net"
PACE = Pace(HOST, 100, host_concurrency=4, host_gap=Gap.of(1.0))

FILES = {"hosts.sqlite", "hosts.sqlite-journal", "locks"}

PROGRAM = """
import json, sys
from pathlib import Path
from tests.queue.test_hosts import Asker
asker = Asker(Path(sys.argv[1]), "other")
for line in sys.stdin:
    number = int(line)
    print(json.dumps([asker.take() for _ in range(number)] if number else asker.share()), flush=True)
"""
"""A program that reads numbers. For each it takes so many starts, or its share for 0."""


class Asker:
    """A process of a map, at a time that stands still."""

    def __init__(self, folder: Path, map_name: str, *, patience: float = 30.0) -> None:
        self.hosts = StateFile(folder, patience=patience)
        self.hosts.open()
        self.account = Account(map_name)
        self.change(lambda host, now: host.limit(self.own(host), PACE))

    def change(self, step: Callable[[Host, float], Any], host: str = HOST) -> Any:
        return asyncio.run(self.hosts.change(Host, host, 1000.0, step))

    def own(self, host: Host) -> Process:
        return host.tell(self.hosts.process, self.account, 1000.0)

    def look(self, host: str = HOST) -> Host:
        known: Host = self.change(lambda known, now: known, host)
        return known

    def share(self) -> int:
        def step(host: Host, now: float) -> int:
            return host.stand(self.own(host), PACE, wanted=0, now=now).share

        share: int = self.change(step)
        return share

    def take(self) -> float:
        def step(host: Host, now: float) -> float:
            taken = host.take_starts(self.own(host), 1, now=now, random=lambda: 0.5)
            return taken[0][0]

        start: float = self.change(step)
        return start


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    one = Asker(tmp_path, "one")
    yield one
    one.hosts.close()


@contextmanager
def other_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str], number: int) -> IO[str]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    return process.stdout


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# Several processes


def test_one_that_is_stopped_keeps_its_share_and_one_that_is_killed_frees_it_at_once(
    asker: Asker, tmp_path: Path
) -> None:
    with other_process(tmp_path) as other:
        assert json.loads(tell(other, 0).readline()) == 2
        other.send_signal(signal.SIGSTOP)
        assert asker.share() == 2
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert asker.share() == 4
    assert locks_on(tmp_path / "locks") == 1


def test_no_start_is_given_twice_to_processes_that_ask_at_the_same_time(asker: Asker, tmp_path: Path) -> None:
    with other_process(tmp_path) as other:
        # Both are there before they begin.
        tell(other, 0).readline()
        answer = tell(other, 300)
        own = [asker.take() for _ in range(300)]
        theirs = json.loads(answer.readline())
    assert sorted([*own, *theirs]) == [1000.0 + number for number in range(600)]


def test_one_that_ends_leaves_nothing_but_what_is_known_of_the_host(tmp_path: Path) -> None:
    asker = Asker(tmp_path, "one")
    asker.share()
    asker.hosts.close()
    asker.hosts.close()
    assert set(names(tmp_path)) == FILES
    assert locks_on(tmp_path / "locks") == 0


def test_what_one_keeps_is_known_to_another_and_of_this_host_only(asker: Asker, tmp_path: Path) -> None:
    asker.change(lambda host, now: host.rest(1100.0))
    other = Asker(tmp_path, "other")
    assert other.look().rests_until == 1100.0
    assert other.look("elsewhere.example.net").rests_until == 0.0
    other.hosts.close()


def test_without_a_folder_a_process_is_alone(tmp_path: Path) -> None:
    hosts, others = StateFile(), StateFile()
    for one in (hosts, others):
        one.open()
    asyncio.run(hosts.change(Host, HOST, 1000.0, lambda host, now: host.rest(1100.0)))
    assert asyncio.run(hosts.change(Host, HOST, 1000.0, lambda host, now: host.rests_until)) == 1100.0
    assert asyncio.run(others.change(Host, HOST, 1000.0, lambda host, now: host.rests_until)) == 0.0
    for one in (hosts, others):
        one.close()
    assert names(tmp_path) == []


def test_a_step_that_fails_changes_nothing(asker: Asker) -> None:
    def fail(host: Host, now: float) -> None:
        host.rest(1100.0)
        raise KeyError

    with pytest.raises(KeyError):
        asker.change(fail)
    assert asker.look().rests_until == 0.0


def test_a_file_that_another_holds_for_too_long_ends_the_harvest_with_a_word(tmp_path: Path) -> None:
    asker = Asker(tmp_path, "one", patience=0.0)
    held = sqlite3.connect(tmp_path / "hosts.sqlite", isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    with pytest.raises(QueueError, match=r"another process holds .*hosts\.sqlite for too long"):
        asker.take()
    held.close()
    assert asker.take() == 1000.0
    asker.hosts.close()


# Files


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe",
        b"\x00" * 300,
        b'{"written": "now"}',
        b'{"own": {"concurrency": 1, "gap": {"least": 5, "most": 1}}}',
        b'{"processes": [{"id": "../history", "account": {"map": "one"}, "heard": 0.0}]}',
    ],
)
def test_what_cannot_be_read_is_begun_anew_with_a_warning(
    asker: Asker, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    with sqlite3.connect(tmp_path / "hosts.sqlite") as spoiling:
        spoiling.execute("UPDATE hosts SET state = ?", (content,))
    assert asker.share() == 4
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "begun anew" in caplog.text
    assert [asker.take(), asker.take()] == [1000.0, 1001.0]


def test_a_file_that_is_no_database_is_begun_anew_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hosts.sqlite").write_bytes(b"no database" * 100)
    asker = Asker(tmp_path, "one")
    assert asker.share() == 4
    assert "begun anew" in caplog.text
    asker.hosts.close()


def test_a_file_that_another_process_has_begun_anew_first_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hosts.sqlite"
    file.write_bytes(b"no database" * 100)
    monkeypatch.setattr("tileharvest.queue.shared_states._say_unreadable", lambda *of: file.unlink())
    asker = Asker(tmp_path, "one")
    assert asker.share() == 4
    asker.hosts.close()


def test_a_file_that_was_put_in_the_place_of_the_open_one_is_used(asker: Asker, tmp_path: Path) -> None:
    (tmp_path / "hosts.sqlite").unlink()
    with other_process(tmp_path) as other:
        tell(other, 1).readline()
        newer = Asker(tmp_path, "newer")
        assert newer.take() == asker.take() - 1.0 == 1001.0
    newer.hosts.close()


def test_a_host_may_have_a_strange_name(asker: Asker) -> None:
    asker.change(lambda host, now: host.rest(1005.0), "../[::1]/x")
    assert asker.look("../[::1]/x").rests_until == 1005.0


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "hosts.sqlite").mkdir()
    with pytest.raises(QueueError, match=r"hosts\.sqlite.* cannot be read or written .*nothing was lost"):
        Asker(tmp_path, "one")


def test_a_folder_that_cannot_be_written_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(QueueError, match=r"file/hosts.* cannot be written \(Not a directory\); nothing was"):
        StateFile(tmp_path / "file" / "hosts").open()
