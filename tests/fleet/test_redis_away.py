"""Redis is killed in the middle of a harvest, and comes back from its disk half a minute later."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.end_to_end.project import answered
from tests.fleet.records import assert_harvested
from tests.servers.redis import AOF, redis_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.nginx import Nginx

AWAY: Final = 30.0
"""Seconds: long enough for whatever gives up too soon."""


def test_a_redis_that_was_away_for_half_a_minute_costs_nothing_but_the_time(
    fleet_on: Callable[..., Fleet], small: Rendering, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(small.folder)
    with redis_server(*AOF) as redis:
        fleet = fleet_on(redis.url)
        fleet.describe(server.url, requests_per_second=60)
        workers = fleet.start_several(3)
        fleet.await_until(lambda: answered(server) >= 80)
        redis.kill()
        time.sleep(AWAY)
        asked_without = answered(server)
        assert not any(worker.has_ended for worker in workers)
        redis.start()
        fleet.assert_ended_together(*workers)
        assert_harvested(fleet, small)
    # They went on with what they had leased, which with a pace is half a second's.
    assert asked_without < 150
    asked = Counter((line.method, line.path) for line in server.log() if line.path.endswith(".png"))
    assert set(asked.values()) == {1}
