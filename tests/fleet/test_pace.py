"""What a site's owner sees of three workers: one pace, one limit, one visitor who knows how to wait."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from tests.end_to_end.gaps import EARLY, assert_none_too_early, given_starts
from tests.fleet.gate import Slow, tiles_only
from tests.fleet.records import assert_harvested
from tests.fleet.workers import MAP

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx

RATE: Final = 100
"""Requests per second."""
CONCURRENCY: Final = 5


def test_three_workers_together_keep_the_pace_of_the_map_evenly(
    fleet: Fleet, large: Rendering, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(large.folder)
    fleet.describe(server.url, requests_per_second=RATE, concurrency=16)
    fleet.settings |= {"LOG_LEVEL": "DEBUG"}
    fleet.await_ends(fleet.start(command=("pause", MAP), day=None))
    workers = fleet.start_several(3)
    # None comes so late that the others have done all.
    fleet.await_until(lambda: all(f"map '{MAP}' is paused since" in worker.log for worker in workers))
    fleet.await_ends(fleet.start(command=("resume", MAP), day=None))
    fleet.assert_ended_together(*workers)
    assert_harvested(fleet, large)
    lines = list(server.log())
    given = [given_starts(worker.log, MAP) for worker in workers]
    starts = [start for some in given for start in some]
    # Those before the first tile keep the pace, too.
    assert len(starts) == len(lines)
    # Each worker tells Redis' time by its own clock, which takes as long as a call. It adds up to nothing.
    in_order = sorted(starts)
    assert in_order[-1] - in_order[0] > (len(in_order) - 1) / RATE - EARLY
    assert_none_too_early(lines, starts)


def test_three_workers_together_never_have_more_requests_on_the_way_than_the_map_allows(
    fleet: Fleet, large: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    """Not while one joins, nor while one leaves."""
    site, slow = misbehaving(large.folder), Slow(0.1)
    site.rule_for_all = tiles_only(slow)
    fleet.describe(site.url, concurrency=CONCURRENCY)
    leaving, staying = fleet.start_several(2)
    fleet.await_until(lambda: len(site.received) > 20)
    joining = fleet.start()
    fleet.await_until(lambda: fleet.at_work == 3)
    leaving.send(signal.SIGTERM)
    fleet.await_ends(leaving)
    fleet.assert_ended_together(staying, joining)
    assert_harvested(fleet, large)
    assert slow.most <= CONCURRENCY
