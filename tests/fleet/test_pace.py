"""What a site's owner sees of three workers: one pace, one limit, one visitor who knows how to wait."""

from __future__ import annotations

import signal
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from tests.fleet.gate import OnceTooMany, Slow, tiles_only
from tests.fleet.records import assert_harvested

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx

RATE: Final = 100
"""Requests per second."""
EARLY: Final = 0.05
"""Seconds: what nginx, Redis and two other clocks take for the same moment."""
CONCURRENCY: Final = 5
REST: Final = 2
"""Seconds."""
NEWS: Final = 0.2
"""Seconds in which all workers have heard of it."""


def most_within(seconds: float, times: list[float]) -> int:
    """So many of the times, which are sorted, lie in one span of this length."""
    return max(bisect_left(times, moment + seconds) - place for place, moment in enumerate(times))


def test_three_workers_together_keep_the_pace_of_the_map_evenly(
    fleet: Fleet, large: Rendering, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(large.folder)
    fleet.describe(server.url, requests_per_second=RATE, concurrency=16)
    workers = fleet.start_several(3)
    fleet.assert_ended_together(*workers)
    assert_harvested(fleet, large)
    times = sorted(line.time - line.duration for line in server.log() if line.path.endswith(".png"))
    # The last ones go down the pyramid one after the other.
    first, last = times[0], times[len(times) * 19 // 20]
    assert 0.95 * RATE <= len(times) * 19 // 20 / (last - first) <= 1.05 * RATE
    # None comes before its time. On a busy machine some come late, and then several at once; so may the first
    # one of all, which a worker sends while it opens its connections: a later one then tells when it was due.
    ahead = [moment - first - number / RATE for number, moment in enumerate(times)]
    assert min(ahead) - min(ahead[: round(EARLY * RATE)]) > -EARLY
    assert most_within(1.0, times) <= 1.2 * RATE
    taken = [worker.stats["scheduler/leased_in_all"] for worker in workers]
    assert sum(taken) == len(times)
    assert min(taken) > 0


def test_three_workers_together_never_have_more_requests_on_the_way_than_the_map_allows(
    fleet: Fleet, small: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    """Not while one joins, nor while one leaves."""
    site, slow = misbehaving(small.folder), Slow(0.1)
    site.rule_for_all = tiles_only(slow)
    fleet.describe(site.url, concurrency=CONCURRENCY)
    leaving, staying = fleet.start_several(2)
    fleet.await_until(lambda: len(site.received) > 20)
    joining = fleet.start()
    fleet.await_until(lambda: len([known for known in fleet.known() if known.leased]) == 3)
    leaving.send(signal.SIGTERM)
    fleet.await_ends(leaving)
    fleet.assert_ended_together(staying, joining)
    assert_harvested(fleet, small)
    assert slow.most == CONCURRENCY


def test_after_a_429_with_retry_after_no_worker_asks_before_the_time(
    fleet: Fleet, small: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    site, slow = misbehaving(small.folder), tiles_only(Slow(0.05))
    site.rule_for_all = slow
    fleet.describe(site.url, concurrency=6)
    fleet.start_several(3)
    fleet.await_until(lambda: len([known for known in fleet.known() if known.leased]) == 3)
    site.rule_for_all = too_many = OnceTooMany(REST, slow)
    fleet.assert_ended_together(*fleet.workers)
    assert_harvested(fleet, small)
    assert too_many.answered is not None
    since = [request.time - too_many.answered for request in site.received]
    assert [seconds for seconds in since if NEWS < seconds < REST] == []
