"""Workers that are out of step: frozen beyond their leases, or with clocks that are hours apart."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from tests.end_to_end.gaps import assert_none_too_early, gaps_between, given_starts
from tests.fleet.gate import Gate, tiles_only
from tests.fleet.processes import with_clock
from tests.fleet.records import assert_harvested
from tests.fleet.workers import MAP

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet, Worker
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx

LEASE: Final = 2
"""Seconds."""
RATE: Final = 60
"""Requests per second."""


def first_words(worker: Worker) -> datetime:
    """When the worker began to speak, by its own clock."""
    found = re.match(r"\S+ \S+", worker.log)
    assert found is not None
    return datetime.fromisoformat(found[0])


def test_a_worker_that_was_frozen_until_the_others_had_ended_ends_as_they_did(
    fleet: Fleet, small: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    site, gate = misbehaving(small.folder), Gate()
    fleet.describe(site.url)
    fleet.settings["LEASE_SECONDS"] = LEASE
    workers = fleet.start_several(2)
    fleet.await_until(lambda: len(fleet.known()) == 2)
    site.rule_for_all = tiles_only(gate)
    fleet.await_until(lambda: gate.is_reached and fleet.counts().left == 1)
    # Nothing is left but the request that waits at the gate.
    (frozen,) = (worker for worker in workers if fleet.leased_by(worker))
    (other,) = (worker for worker in workers if worker is not frozen)
    frozen.freeze()
    fleet.assert_ended_together(other)
    assert_harvested(fleet, small)
    # The answer is there when it wakes.
    gate.open()
    frozen.wake()
    fleet.assert_ended_together(frozen)
    assert frozen.errors == []
    assert_harvested(fleet, small)


def test_what_a_worker_that_was_frozen_beyond_its_leases_says_of_them_is_refused(
    fleet: Fleet, small: Rendering, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(small.folder)
    fleet.describe(server.url, requests_per_second=RATE)
    fleet.settings["LEASE_SECONDS"] = LEASE
    frozen, other = fleet.start_several(2)
    fleet.await_until(lambda: fleet.leased_by(frozen) > 1)
    frozen.freeze()
    held = fleet.leased_by(frozen)
    fleet.await_until(lambda: fleet.leased_by(frozen) == 0)
    frozen.wake()
    fleet.assert_ended_together(frozen, other)
    assert 1 <= frozen.stats["scheduler/refused"] <= held
    assert_harvested(fleet, small)
    asked = Counter((line.method, line.path) for line in server.log() if line.path.endswith(".png"))
    assert asked.total() - len(asked) <= held


def test_workers_whose_clocks_are_two_hours_apart_harvest_together_at_one_pace(
    fleet: Fleet, small: Rendering, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(small.folder)
    fleet.describe(server.url, requests_per_second=RATE)
    fleet.settings["LOG_LEVEL"] = "DEBUG"
    early, late = (fleet.start(through=with_clock(hours)) for hours in (-1, 1))
    fleet.assert_ended_together(early, late)
    assert first_words(late) - first_words(early) > timedelta(hours=1, minutes=59)
    assert_harvested(fleet, small)
    lines = list(server.log())
    asked = [line for line in lines if line.path.endswith(".png")]
    assert len({(line.method, line.path) for line in asked}) == len(asked)
    given = [given_starts(worker.log, MAP) for worker in (early, late)]
    # Both tell moments of Redis' clock.
    starts = [start for some in given for start in some]
    assert min(gaps_between(starts)) > 0.99 / RATE
    assert_none_too_early(lines, starts)
    assert all(given)
