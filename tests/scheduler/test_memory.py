"""The requests that wait in memory: their order, their time, and what is the same."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import Request

from tileharvest.queue.requests import is_offered, state_of
from tileharvest.scheduler.memory import RequestMemory

if TYPE_CHECKING:
    import pytest

DAY = "2026-11-20"


def request(name: str, priority: int = 0, **meta: object) -> Request:
    return Request(f"http://a.example/{name}", priority=priority, meta=dict(meta))


def names(memory: RequestMemory, now: float = 0.0) -> list[str]:
    """Returns the names of all requests that may start."""
    found = []
    while (taken := memory.take(now)) is not None:
        found.append(taken.url.rpartition("/")[2])
    return found


def test_the_highest_priority_is_first_and_equal_ones_are_in_the_order_in_which_they_came() -> None:
    memory = RequestMemory()
    for name, priority in (("a", 0), ("b", -1), ("c", 2), ("d", 0), ("e", 2)):
        memory.add(request(name, priority), DAY, None, "a reason")
    assert memory.waiting == 5
    assert names(memory) == ["c", "e", "a", "d", "b"]
    assert memory.waiting == 0


def test_the_very_request_is_returned() -> None:
    memory, added = RequestMemory(), request("a")
    memory.add(added, DAY, None, "a reason")
    assert memory.take(0.0) is added


def test_a_request_waits_for_its_time() -> None:
    memory = RequestMemory()
    memory.add(request("later", 5, not_before=10.0), DAY, None, "a reason")
    memory.add(request("now"), DAY, None, "a reason")
    assert names(memory, 9.9) == ["now"]
    assert memory.waiting == 1
    assert names(memory, 10.0) == ["later"]


def test_the_same_request_is_taken_once_per_segment() -> None:
    memory = RequestMemory()
    taken = [memory.add(request("a"), segment, b"a", "a reason") for segment in (DAY, DAY, "2026-11-21")]
    assert taken == [True, False, True]
    assert names(memory) == ["a", "a"]


def test_what_is_never_filtered_is_taken_each_time() -> None:
    memory = RequestMemory()
    assert [memory.add(request("a"), DAY, None, "a reason") for _ in range(2)] == [True, True]


def test_a_request_is_offered_as_if_it_had_been_written_and_read() -> None:
    memory, added = RequestMemory(), request("a", not_before=1.0, failure="it failed", kept=1)
    state_of(added).was_sent = False
    memory.add(added, DAY, None, "a reason")
    taken = memory.take(1.0)
    assert taken is not None
    assert is_offered(taken)
    assert state_of(taken).was_sent
    assert taken.meta.keys() == {"kept", "tileharvest"}


def test_the_log_says_it_once(caplog: pytest.LogCaptureFixture) -> None:
    memory = RequestMemory()
    with caplog.at_level(logging.WARNING):
        memory.add(request("a"), DAY, None, "its callback has no name")
        memory.add(request("b"), DAY, None, "another reason")
    (line,) = caplog.messages
    assert line.startswith("<GET http://a.example/a> waits in memory")
    assert "its callback has no name" in line
