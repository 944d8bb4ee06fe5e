"""Redis is killed in the middle of a harvest, and comes back from its disk half a minute later."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.fleet.gate import Gate, tiles_only
from tests.fleet.records import assert_harvested
from tests.servers.redis import AOF, redis_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.misbehaving import Misbehaving

AWAY: Final = 30.0
"""Seconds: long enough for whatever gives up too soon."""


def test_a_redis_that_was_away_for_half_a_minute_costs_nothing_but_the_time(
    fleet_on: Callable[..., Fleet], small: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    """It is killed while all workers wait for the site's answers, so that none is far ahead by then."""
    site, gate = misbehaving(small.folder), Gate(70, keeps_all=True)
    site.rule_for_all = tiles_only(gate)
    with redis_server(*AOF) as redis:
        fleet = fleet_on(redis.url)
        fleet.describe(site.url, requests_per_second=60)
        workers = fleet.start_several(3)
        fleet.await_until(lambda: gate.is_reached and len(fleet.known()) == 3)
        redis.kill()
        gate.open()
        time.sleep(AWAY)
        asked_without = len(site.received)
        assert not any(worker.has_ended for worker in workers)
        redis.start()
        fleet.assert_ended_together(*workers)
        assert_harvested(fleet, small)
    # They went on with what they had leased, which with a pace is half a second's.
    assert asked_without < 150
    asked = Counter((one.method, one.path) for one in site.received if one.path.endswith(".png"))
    assert set(asked.values()) == {1}
