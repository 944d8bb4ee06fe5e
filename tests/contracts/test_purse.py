"""What every queue that keeps a pace grants of a budget."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tileharvest.maps.budgets import Budget
from tileharvest.queue.pace import Worked

if TYPE_CHECKING:
    from tests.contracts.paces import AskedHost


def test_a_purse_grants_all_that_was_asked_for_or_none_of_it(asked: AskedHost) -> None:
    worker = asked.map("one")
    worker.open_purse(Budget(requests=5, received_bytes=100))
    assert worker.grant(3, 60).is_granted
    assert not worker.grant(1, 41).is_granted
    assert worker.grant(2, 40).is_granted
    assert not worker.grant(1).is_granted
    assert not worker.grant(0, 1).is_granted
    assert worker.grant().is_granted


def test_what_has_no_limit_is_always_granted(asked: AskedHost) -> None:
    worker = asked.map("one")
    worker.open_purse(Budget(requests=2, seconds=60.0))
    assert worker.grant(2, 10**12).is_granted
    assert not worker.grant(1, 0).is_granted


def test_what_is_returned_is_granted_again_and_never_more(asked: AskedHost) -> None:
    worker, chance = asked.map("one"), Random(2)
    worker.open_purse(Budget(requests=10))
    held = 0
    for _ in range(60):
        returned, wanted = chance.randint(0, held), chance.randint(0, 6)
        held -= returned
        is_granted = worker.grant(wanted, returned=(returned, 0)).is_granted
        assert is_granted == (held + wanted <= 10)
        held += wanted * is_granted


def test_the_time_of_a_run_is_spent_when_it_has_been_worked_for_so_long(asked: AskedHost) -> None:
    worker = asked.map("one")
    worker.open_purse(Budget(seconds=60.0))
    assert worker.worked(59.5) == Worked(59.5)
    assert worker.worked(60.0) == Worked(60.0, is_spent=True)


def test_time_has_no_end_without_a_limit(asked: AskedHost) -> None:
    worker = asked.map("one")
    assert worker.worked(10.0**9) == Worked(10.0**9)
    worker.open_purse(Budget(requests=2))
    assert worker.worked(10.0**9) == Worked(10.0**9)
