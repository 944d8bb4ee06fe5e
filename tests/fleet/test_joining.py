"""Workers that come late: while the last request is under way, after the end, and when they must not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.fleet.gate import Gate, tiles_only
from tests.fleet.records import assert_harvested
from tests.fleet.workers import HARVEST, MAP
from tests.queue.driven import Driven
from tests.servers.redis import queue_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet, Worker
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.redis import RedisServer


def test_a_worker_that_joins_at_the_end_ends_with_the_others_and_a_later_one_asks_for_nothing(
    fleet: Fleet, small: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    site, gate = misbehaving(small.folder), Gate()
    fleet.describe(site.url)
    # The one answer that is missing.
    site.rules[f"/{small.layer}{max(small.paths())}.png"] = gate
    first = fleet.start()
    fleet.await_until(lambda: gate.is_reached)
    fleet.await_until(lambda: fleet.counts().left == 1)
    late = fleet.start()
    fleet.await_until(lambda: [known.leased for known in fleet.known()] == [1, 0])
    gate.open()
    fleet.assert_ended_together(first, late)
    assert_harvested(fleet, small)
    asked = len(site.received)
    after = fleet.start()
    fleet.await_ends(after)
    assert after.status == 0
    assert "is already harvested" in after.log
    assert len(site.received) == asked


class Held:
    """A harvest that is under way for as long as it is wanted, by one worker."""

    def __init__(self, fleet: Fleet, site: Misbehaving) -> None:
        self.fleet = fleet
        self.site = site
        self._gate = Gate()
        site.rule_for_all = tiles_only(self._gate)
        self.worker = fleet.start()
        fleet.await_until(lambda: self._gate.is_reached and fleet.counts().left == 1)

    def assert_refused(self, worker: Worker, *words: str) -> None:
        (line,) = worker.errors
        assert worker.status == 1
        assert all(word in line for word in words), line

    def assert_goes_on(self, rendering: Rendering) -> None:
        self._gate.open()
        self.fleet.assert_ended_together(self.worker)
        assert_harvested(self.fleet, rendering)


@pytest.fixture
def held(fleet: Fleet, small: Rendering, misbehaving: Callable[[Path], Misbehaving]) -> Held:
    site = misbehaving(small.folder)
    fleet.describe(site.url)
    return Held(fleet, site)


def test_who_must_not_join_is_refused_in_one_line_and_disturbs_nobody(held: Held, small: Rendering) -> None:
    fleet, pid = held.fleet, f"(pid {held.worker.process.pid})"
    asked = len(held.site.received)
    next_day = fleet.start(day="2021-02-14", command=HARVEST)
    afresh = fleet.start("-a", "fresh=1", command=HARVEST)
    fleet.await_ends(next_day, afresh)
    held.assert_refused(next_day, "the crawl of 2021-02-13 is still under way", pid)
    held.assert_refused(afresh, "cannot start afresh while others work on it", pid)
    assert len(held.site.received) == asked
    held.assert_goes_on(small)


def test_a_history_in_a_file_is_refused_beside_a_worker_of_another_machine(
    fleet: Fleet,
    redis: RedisServer,
    small: Rendering,
    misbehaving: Callable[[Path], Misbehaving],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = misbehaving(small.folder)
    fleet.describe(site.url)
    monkeypatch.setattr("tileharvest.queue.redis.queue._machine", lambda: ("box-2", "another"))
    with Driven(lambda: queue_on(redis, MAP, server_clock=True)).open():
        worker = fleet.start(command=HARVEST)
        fleet.await_ends(worker)
    (line,) = worker.errors
    assert worker.status == 1
    assert f"box-2 (pid {os.getpid()}) on another one works on the same queue" in line
    assert "DATABASE_URL=postgresql+psycopg://" in line
    assert site.received == []
