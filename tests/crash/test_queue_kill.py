"""SIGKILL at any moment of a worker's steps on a queue in a file: nothing is lost or done twice."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT = Path(__file__).parents[2]


def run_until_killed(file: Path, lines: int) -> list[str]:
    """Kills the program after it has written so many lines. Returns its whole lines; a last one that was cut
    off is left out."""
    program = [sys.executable, "-m", "tests.crash.queue_worker", str(file)]
    with subprocess.Popen(program, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        said += process.stdout.readlines()
    assert process.returncode == -9
    return [line for line in said if line.endswith("\n")]


def confirmed(lines: Iterable[str]) -> dict[str, set[int]]:
    """Returns the numbers that follow the words pushed, finished and failed, by the word."""
    found: dict[str, set[int]] = defaultdict(set)
    what = ""
    for word in " ".join(lines).split():
        if word.isdigit():
            found[what].add(int(word))
        else:
            what = word
    return found


def numbers(file: Path, statement: str) -> set[int]:
    """Returns the numbers that a statement selects. Asserts that none occurs twice."""
    with closing(sqlite3.connect(file)) as connection:
        rows = [int(row[0]) for row in connection.execute(statement)]
    assert len(rows) == len(set(rows))
    return set(rows)


def assert_sound(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_sigkill_at_any_moment_loses_nothing_and_repeats_nothing_finished(tmp_path: Path, kills: int) -> None:
    """The worker does not wait for the kill, so the moments fall anywhere in its work."""
    random = Random(20)
    file = tmp_path / "world.sqlite"
    lines: list[str] = []
    for _ in range(kills):
        lines += run_until_killed(file, random.randint(1, 40))
        assert_sound(file)
        said = confirmed(lines)
        seen = numbers(file, "SELECT fingerprint FROM seen")
        queued = numbers(file, "SELECT body FROM requests WHERE state != 'failed'")
        failed = numbers(file, "SELECT body FROM requests WHERE state = 'failed'")
        finished = seen - queued - failed
        assert said["pushed"] <= seen
        assert queued | failed <= seen
        assert said["finished"] <= finished
        assert said["failed"] <= failed
        assert not queued & failed
        # A parent is finished and its children are pushed in one step, so neither is there without the other.
        assert seen == {1} | {child for n in finished for child in (2 * n, 2 * n + 1)}
    assert len(said["finished"]) > 10 * kills
