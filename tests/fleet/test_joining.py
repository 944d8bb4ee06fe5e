"""Workers that come late: while the last request is under way, and after the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fleet.gate import Gate
from tests.fleet.records import assert_harvested

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.misbehaving import Misbehaving


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
