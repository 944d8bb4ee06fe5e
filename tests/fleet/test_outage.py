"""A host that goes down under three workers, and comes back."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tests.fleet.records import assert_harvested
from tests.servers import rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aiohttp import web

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.misbehaving import Exchange, Misbehaving

AFTER: Final = 4
"""Failures in a row after which a worker only probes."""
PAUSE: Final = 0.4
"""Seconds before the first probe."""
AWAY: Final = 3.0
"""Seconds from the first failure on."""


class Outage:
    """A rule: after so many answers every connection is reset, until the time is over.

    A probe asks by HEAD for what was answered already, as nothing else does.
    """

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._answered: set[str] = set()
        self.began = float("inf")
        self.failures: list[float] = []
        self.probes: list[float] = []
        """When they came, those that were answered at last among them."""

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        now = time.monotonic()
        is_probe = exchange.request.method == "HEAD" and exchange.path in self._answered
        if is_probe:
            self.probes.append(now)
        self._answers -= 1
        if self._answers < 0:
            self.began = min(self.began, now)
        if now >= self.began + AWAY or self._answers >= 0:
            self._answered.add(exchange.path)
            return await exchange.send_properly()
        if not is_probe:
            self.failures.append(now)
        return await rules.reset()(exchange)


def test_while_a_host_is_down_one_of_three_workers_probes_it_and_no_tile_is_lost(
    fleet: Fleet, large: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    site, outage = misbehaving(large.folder), Outage(120)
    fleet.describe(site.url, concurrency=6)
    fleet.settings |= {"HOST_DOWN_AFTER": AFTER, "HOST_DOWN_PAUSE": PAUSE, "HOST_DOWN_LONGEST_PAUSE": 1}
    fleet.settings["RETRY_PAUSE"] = 0.2
    workers = fleet.start_several(3)
    fleet.await_until(lambda: len(fleet.known()) == 3)
    site.rule_for_all = outage
    fleet.assert_ended_together(*workers)
    assert_harvested(fleet, large)
    # Until each worker has had its failures in a row: those on the way with the last one come on top.
    assert len(outage.failures) <= 3 * (2 * AFTER + 6)
    down = [moment for moment in outage.probes if moment < outage.began + AWAY]
    assert 2 <= len(down) <= 8
    # Three that asked for themselves would come at the same moments.
    assert all(later - earlier > PAUSE / 2 for earlier, later in pairwise(down))
