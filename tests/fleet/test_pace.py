"""What a site's owner sees of three workers: one pace, one limit, one visitor who knows how to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.end_to_end.gaps import EARLY, assert_none_too_early, given_starts
from tests.fleet.records import assert_harvested
from tests.fleet.workers import MAP

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.nginx import Nginx

RATE: Final = 100
"""Requests per second."""


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
