"""A host that goes down under three workers, and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.end_to_end.gaps import gaps_between
from tests.fleet.gate import Slow, tiles_only
from tests.fleet.records import assert_harvested
from tests.servers.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.misbehaving import Misbehaving

AFTER: Final = 4
"""Failures in a row after which a worker only probes."""
PAUSE: Final = 0.4
"""Seconds before the first probe."""


def test_while_a_host_is_down_one_of_three_workers_probes_it_and_no_tile_is_lost(
    fleet: Fleet, large: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    site, outage = misbehaving(large.folder), Outage(120, probes=3)
    fleet.describe(site.url, concurrency=6)
    fleet.settings |= {"HOST_DOWN_AFTER": AFTER, "HOST_DOWN_PAUSE": PAUSE, "HOST_DOWN_LONGEST_PAUSE": 1}
    fleet.settings |= {"RETRY_PAUSE": 0.2}
    # Until all three are at work the whole map would take a quarter of a minute.
    site.rule_for_all = tiles_only(Slow(0.15))
    workers = fleet.start_several(3)
    fleet.await_until(lambda: fleet.at_work == 3)
    site.rule_for_all = outage
    fleet.assert_ended_together(*workers)
    assert_harvested(fleet, large)
    assert len(outage.failures) < len(large.paths())
    # Three workers that probe for themselves would make three probes at once.
    assert min(gaps_between(outage.probes)) > PAUSE
