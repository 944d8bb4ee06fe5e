"""Three workers that are steered from another terminal: what one is told, all do."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

from tests.fleet.records import assert_harvested
from tests.fleet.workers import HARVEST, MAP

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet, Worker
    from tests.servers.nginx import LogLine, Nginx

NEWS: Final = 2.0
"""Seconds in which all workers have heard of what they were told."""
LEASE: Final = 1.0
"""Seconds."""
RATE: Final = 30
"""Requests per second."""


def tell(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """By a command of another terminal: what it wrote."""
    monkeypatch.setenv("REDIS_URL", fleet.redis_url)
    return fleet.project.scrapy(*words).stdout


def start(fleet: Fleet, server: Nginx) -> list[Worker]:
    """Three that work, of a harvest that has begun."""
    fleet.settings["LEASE_SECONDS"] = LEASE
    fleet.describe(server.url, requests_per_second=RATE)
    workers = fleet.start_several(3)
    fleet.await_until(lambda: len([one for one in fleet.known() if one.finished]) == 3)
    return workers


def starts(server: Nginx) -> list[float]:
    return sorted(line.time - line.duration for line in server.log() if is_tile(line))


def is_tile(line: LogLine) -> bool:
    return line.path.endswith(".png")


def test_all_pause_within_two_seconds_go_on_at_another_rate_and_ask_for_each_tile_once(
    fleet: Fleet, small: Rendering, nginx: Callable[..., Nginx], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = nginx(small.folder)
    workers = start(fleet, server)
    assert "requests on the way finish, no further one starts" in tell(fleet, monkeypatch, "pause", MAP)
    paused = time.time()
    fleet.await_until(lambda: all(f"map '{MAP}' is paused since" in one.log for one in workers))
    assert time.time() - paused < NEWS
    # For longer than a lease.
    fleet.await_until(lambda: time.time() > paused + NEWS + 2 * LEASE)
    assert [moment for moment in starts(server) if moment > paused + NEWS] == []
    assert sum(one.leased for one in fleet.known()) > 0
    tell(fleet, monkeypatch, "rate", MAP, "60/s")
    resumed = time.time()
    assert tell(fleet, monkeypatch, "resume", MAP) == f"map '{MAP}' goes on\n"
    fleet.assert_ended_together(*workers)
    assert_harvested(fleet, small)
    asked = Counter((line.method, line.path) for line in server.log() if is_tile(line))
    assert set(asked.values()) == {1}
    gaps = [after - before for before, after in pairwise(starts(server)) if before > resumed]
    assert median(gaps) < 0.75 / RATE


def test_all_end_when_the_map_is_stopped_and_its_next_harvest_continues(
    fleet: Fleet, small: Rendering, nginx: Callable[..., Nginx], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while it is paused."""
    server = nginx(small.folder)
    workers = start(fleet, server)
    tell(fleet, monkeypatch, "pause", MAP)
    fleet.await_until(lambda: all(f"map '{MAP}' is paused since" in one.log for one in workers))
    assert f"map '{MAP}' is stopping" in tell(fleet, monkeypatch, "stop", MAP)
    fleet.assert_ended_together(*workers, within=NEWS)
    assert all("run it again to continue" in one.log for one in workers)
    tell(fleet, monkeypatch, "resume", MAP)
    last = fleet.start(command=HARVEST)
    fleet.await_ends(last)
    assert last.status == 0
    assert_harvested(fleet, small)
    asked = Counter((line.method, line.path) for line in server.log() if is_tile(line))
    assert set(asked.values()) == {1}
