"""What three workers may spend together, as nginx saw it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.fleet.gate import Gate
from tests.fleet.records import assert_harvested
from tests.fleet.workers import HARVEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx

CONCURRENCY: Final = 4
RATE: Final = 50
"""Requests per second."""


def spend(fleet: Fleet) -> None:
    """All of the budget, by three workers."""
    workers = [fleet.start(command=HARVEST) for _ in range(3)]
    fleet.await_ends(*workers)
    assert [worker.status for worker in workers] == [4, 4, 4], [worker.log for worker in workers]


def test_three_workers_together_make_as_many_requests_as_the_budget_has_and_others_go_on(
    fleet: Fleet, large: Rendering, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(large.folder)
    fleet.describe(server.url, budget={"requests": 150})
    spend(fleet)
    spent = list(server.log())
    assert len(spent) == 150
    fleet.describe(server.url)
    fleet.assert_ended_together(*fleet.start_several(2))
    assert_harvested(fleet, large)
    asked = Counter(line.path for line in server.log() if line.method == "HEAD")
    assert set(asked.values()) == {1}


def test_who_may_have_no_request_on_the_way_keeps_nobody_waiting_when_the_budget_is_spent(
    fleet: Fleet, large: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    site, gate = misbehaving(large.folder), Gate(after=99)
    site.rule_for_all = gate
    fleet.describe(site.url, budget={"requests": 100}, concurrency=1)
    workers = [fleet.start(command=HARVEST) for _ in range(3)]
    # The worker that waits for its last answer is heard of all the time, so nobody takes it for gone.
    fleet.await_until(lambda: sum(worker.has_ended for worker in workers) == 2)
    gate.open()
    fleet.await_ends(*workers)
    assert [worker.status for worker in workers] == [4, 4, 4]
    assert len(site.received) == 100


def test_three_workers_together_use_up_the_bytes_of_the_budget_and_exceed_them_by_what_is_on_the_way(
    fleet: Fleet, large: Rendering, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(large.folder)
    budget = sum(file.stat().st_size for file in large.folder.rglob("*.png")) // 3
    largest = max(file.stat().st_size for file in large.folder.rglob("*.png"))
    fleet.describe(server.url, budget={"bytes": budget}, concurrency=CONCURRENCY, requests_per_second=RATE)
    spend(fleet)
    # What one has received the others hear of within a second.
    unheard = CONCURRENCY + 2 * RATE
    assert budget <= sum(line.size for line in server.log()) < budget + unheard * largest
