"""Beside whom a worker must not work."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from tileharvest.errors import QueueError
from tileharvest.queue.port import Worker
from tileharvest.scheduler.open_queue import refuse_company

OWN = Worker(socket.gethostname(), "here", os.getpid(), "2026-11-20", 0.0)
BESIDE = Worker("box-1", "here", 7, "2026-11-20", 0.0)
ELSEWHERE = Worker("box-2", "there", 8, "2026-11-20", 0.0)
EARLIER = Worker("box-1", "here", 9, "2026-11-19", 0.0)


def refused(*others: Worker, is_fresh: bool = False, is_history_local: bool = False) -> None:
    refuse_company([OWN, *others], "2026-11-20", is_fresh=is_fresh, is_history_local=is_history_local)


@pytest.mark.parametrize(
    ("other", "how", "said"),
    [
        (EARLIER, {}, r"the crawl of 2026-11-19 is still under way at box-1 \(pid 9\); nothing was asked"),
        (BESIDE, {"is_fresh": True}, r"cannot start afresh while others work on it: box-1 \(pid 7\)"),
        (
            ELSEWHERE,
            {"is_history_local": True},
            r"box-2 \(pid 8\) on another one works on the same queue.*DATABASE_URL=postgresql\+psycopg://",
        ),
    ],
    ids=["another segment", "afresh", "a history in a file of another machine"],
)
def test_a_worker_that_must_not_join_is_refused(other: Worker, how: dict[str, Any], said: str) -> None:
    with pytest.raises(QueueError, match=said):
        refused(other, **how)


def test_others_may_join() -> None:
    refused(BESIDE, ELSEWHERE)
    refused(BESIDE, is_history_local=True)
    refused(is_fresh=True, is_history_local=True)
