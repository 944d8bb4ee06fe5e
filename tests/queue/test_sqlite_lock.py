"""The lock of a queue's one worker."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

import pytest

from tileharvest.errors import QueueError
from tileharvest.queue.sqlite.lock import WorkerLock

if TYPE_CHECKING:
    from pathlib import Path


def never(seconds: float) -> None:
    """Nobody lets go meanwhile."""


def test_a_lock_that_another_worker_keeps_is_refused_with_its_process(tmp_path: Path) -> None:
    queue = tmp_path / "world.sqlite"
    worker = WorkerLock(queue)
    worker.acquire()
    with pytest.raises(QueueError, match=r"map 'world' is being harvested by another process \(pid \d+\)"):
        WorkerLock(queue, never).acquire()
    worker.release()


def test_who_only_looks_whether_a_worker_is_there_turns_none_away(tmp_path: Path) -> None:
    queue = tmp_path / "world.sqlite"
    with queue.with_name("world.sqlite.lock").open("a+") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        lock = WorkerLock(queue, pause=lambda seconds: fcntl.flock(looking, fcntl.LOCK_UN))
        lock.acquire()
        lock.release()
