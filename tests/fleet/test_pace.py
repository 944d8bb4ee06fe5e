"""What a site's owner sees of three workers: one pace, one limit, one visitor who knows how to wait."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Final

from tests.end_to_end.gaps import assert_none_too_early, begun, gaps_between, given_starts
from tests.fleet.gate import OnceTooMany, Slow, tiles_only
from tests.fleet.records import assert_harvested
from tests.fleet.workers import MAP

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx
    from tests.servers.redis import RedisServer

RATE: Final = 100
"""Requests per second."""
CONCURRENCY: Final = 5
REST: Final = 4
"""Seconds."""


def test_three_workers_together_keep_the_pace_of_the_map_evenly(
    fleet: Fleet, large: Rendering, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(large.folder)
    fleet.describe(server.url, requests_per_second=RATE, concurrency=16)
    fleet.settings["LOG_LEVEL"] = "DEBUG"
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
    assert len(starts) == len(begun(lines))
    assert min(gaps_between(starts)) > 0.99 / RATE
    assert_none_too_early(lines, starts)
    taken = [worker.stats["scheduler/leased_in_all"] for worker in workers]
    assert taken == [len(some) for some in given]
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
    fleet: Fleet, redis: RedisServer, small: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    def is_told() -> bool:
        (host,) = redis.ask("KEYS", "tileharvest:limit:*")
        return bool(json.loads(redis.ask("GET", host))["rests_until"])

    site, slow = misbehaving(small.folder), tiles_only(Slow(0.05))
    site.rule_for_all = slow
    fleet.describe(site.url, concurrency=6)
    fleet.start_several(3)
    fleet.await_until(lambda: len([known for known in fleet.known() if known.leased]) == 3)
    site.rule_for_all = too_many = OnceTooMany(REST, slow)
    fleet.await_until(is_told)
    asked, leased = len(site.received), fleet.counts().leased
    too_many.go_on()
    fleet.assert_ended_together(*fleet.workers)
    assert_harvested(fleet, small)
    assert too_many.answered is not None
    during = [one for one in site.received[asked:] if one.time < too_many.answered + REST]
    # A worker hears of the rest when it asks for more: what it had leased before, it may have begun.
    assert len(during) <= leased
    # More was left to ask for.
    assert len(site.received) > asked + len(during)
