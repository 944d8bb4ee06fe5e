from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from hashlib import sha1
from random import Random
from typing import TYPE_CHECKING

from tests.end_to_end.forking import Forked
from tests.history.making import EVERYWHERE, began
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import tile_versions
from tileharvest.history.summaries import harvest_summaries
from tileharvest.store.files import FileStore

if TYPE_CHECKING:
    from pathlib import Path


def run_until_killed(url: str, store: Path, lines: int) -> int:
    """Kills the program some moment after its n-th line; gives the last number that it called durable."""
    process = Forked("tests.history.killed_writer", [url, str(store)], os.environ)
    said = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    said += process.stdout.readlines()
    assert process.wait() == -signal.SIGKILL
    process.close()
    return max((int(line) for line in said if line.endswith("\n")), default=0)


def test_sigkill_at_any_moment_loses_nothing(url: str, file: Path, tmp_path: Path, kills: int) -> None:
    """The writer runs on while it is being killed, so the moments fall anywhere in its work."""
    random = Random(20)
    store = tmp_path / "images"
    durable = 0
    for _ in range(kills):
        durable = max(durable, run_until_killed(url, store, random.randint(1, 6)))
        assert_sound(file)
        assert_every_image_exists(url, store)
        with History.open(url) as history:
            known = began(history).known(EVERYWHERE)
            assert known >= durable
            (summary,) = harvest_summaries(history, "world")
            assert summary.cost.requests == 2 * known
    assert durable > kills


def assert_sound(file: Path) -> None:
    if file.exists():
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def assert_every_image_exists(url: str, folder: Path) -> None:
    store = FileStore(folder)
    with History.open(url) as history:
        began(history)
        for recorded in tile_versions(history, "world"):
            image = recorded.version.image
            assert image is not None
            assert sha1(store.named(image.file_name)).hexdigest() == image.sha1
