"""What the processes of one machine keep of a host, in real processes and in files that were spoilt."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import pytest

from tileharvest.errors import QueueError
from tileharvest.maps.rates import Gap
from tileharvest.politeness.host import Process, next_start, stand, take_starts
from tileharvest.politeness.pace import Pace
from tileharvest.queue.hosts import HostFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tileharvest.politeness.host import Host

HOST = "map.example.net"
PACE = Pace(HOST, 100, host_concurrency=4, host_gap=Gap.of(1.0))

PROGRAM = """
import json, sys
from pathlib import Path
from tests.queue.test_hosts import Asker
asker = Asker(Path(sys.argv[1]), "other")
for line in sys.stdin:
    number = int(line)
    print(json.dumps([asker.take() for _ in range(number)] if number else asker.share()), flush=True)
"""
"""For each number that it reads it takes so many starts, or its share for 0."""


class Asker:
    """A process of a map, at a time that stands still."""

    def __init__(self, folder: Path, map_name: str, *, patience: float = 30.0) -> None:
        self.hosts = HostFiles(folder, patience=patience)
        self.hosts.open()
        self.own = Process(self.hosts.process, map_name, 100)
        self.change(lambda host: host.limit(PACE))

    def change(self, work: Callable[[Host], Any], now: float = 1000.0) -> Any:
        return asyncio.run(self.hosts.change(HOST, now, work))

    def share(self) -> int:
        work = partial(stand, own=self.own, pace=PACE, in_flight=0, wanted=0, now=1000.0)
        share: int = self.change(work).share
        return share

    def take(self) -> float:
        work = partial(take_starts, own=self.own, pace=PACE, number=1, now=1000.0, random=lambda: 0.5)
        start: float = self.change(work)[0][0]
        return start

    def next_start(self, now: float) -> float:
        start: float = self.change(lambda host: next_start(host, self.own, PACE), now)
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
        assert json.loads(tell(other, 0).readline()) == 4
        other.send_signal(signal.SIGSTOP)
        assert asker.share() == 0
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert asker.share() == 4
    assert names(tmp_path) == [asker.hosts.process, f"{HOST}.json"]


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
    assert names(tmp_path) == [f"{HOST}.json"]


def test_who_only_looks_sees_what_others_keep_and_keeps_nothing(asker: Asker, tmp_path: Path) -> None:
    asker.change(lambda host: host.rest(1100.0))
    before = {file: file.read_bytes() for file in tmp_path.glob("*.json")}
    assert asyncio.run(asker.hosts.look(HOST, 1000.0)).rests_until == 1100.0
    assert asyncio.run(asker.hosts.look("elsewhere.example.net", 1000.0)).rests_until == 0.0
    assert {file: file.read_bytes() for file in tmp_path.glob("*.json")} == before


def test_a_file_that_another_holds_for_too_long_ends_the_harvest_with_a_word(tmp_path: Path) -> None:
    asker = Asker(tmp_path, "one", patience=0.0)
    with (tmp_path / f"{HOST}.json").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(QueueError, match=r"another process holds .*map\.example\.net\.json for too long"):
            asker.take()
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
        b'{"limits": {"concurrency": 1, "gap": {"least": 5, "most": 1}}}',
        b'{"processes": [{"id": "../history.sqlite", "map": "one", "concurrency": 1}]}',
    ],
)
def test_a_file_that_cannot_be_read_is_begun_anew_with_a_warning(
    asker: Asker, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / f"{HOST}.json").write_bytes(content)
    assert asker.share() == 4
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "begun anew" in caplog.text
    asker.take()
    assert asker.next_start(1000.0) == 1001.0


def test_what_is_known_may_become_less(
    asker: Asker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    others = [Asker(tmp_path, "other" * 50) for _ in range(20)]
    for other in others:
        other.share()
    for other in others:
        other.hosts.close()
    assert asker.share() == 4
    assert caplog.records == []


def test_maps_that_are_asked_no_more_are_forgotten(asker: Asker) -> None:
    asker.take()
    assert asker.change(lambda host: len(host.turns), 1000.0 + 23 * 3600) == 1
    assert asker.change(lambda host: len(host.turns), 1000.0 + 25 * 3600) == 0


def test_a_host_with_a_strange_name_has_its_file_in_the_folder(asker: Asker, tmp_path: Path) -> None:
    asyncio.run(asker.hosts.change("../[::1]/x", 0.0, lambda host: host.rest(5.0)))
    assert "..%2F%5B%3A%3A1%5D%2Fx.json" in names(tmp_path)


def test_when_the_clock_is_set_back_no_time_before_it_counts(asker: Asker) -> None:
    asker.share()
    asker.take()
    asker.change(lambda host: host.rest(5000.0))
    assert asker.next_start(990.0) == 1001.0
    assert asker.next_start(10.0) == 0.0
    assert asker.change(lambda host: (host.rests_until, len(host.processes)), 10.0) == (0.0, 1)


def test_a_folder_that_cannot_be_written_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(QueueError, match=r"file/hosts.* cannot be written \(Not a directory\); nothing was"):
        HostFiles(tmp_path / "file" / "hosts").open()
