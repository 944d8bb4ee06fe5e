"""How several workers on a queue in Redis divide one budget, while some of them are killed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tileharvest.errors import QueueError
from tileharvest.maps.budgets import Budget
from tileharvest.queue.pace import Amount, Granted, Worked

if TYPE_CHECKING:
    from tests.queue.redis_maps import RedisMap
    from tests.scheduler.driving import Driven

NOTHING = Amount()


def spender(world: RedisMap, budget: Budget, now: float = 0.0) -> Driven:
    """A worker that has opened the purse."""
    worker = world.worker()
    worker.extend(now=now)
    worker.run(worker.queue.open_purse(budget))
    return worker


def grant(worker: Driven, requests: int = 0, size: int = 0, returned: Amount = NOTHING) -> Granted:
    return worker.run(worker.queue.grant(Amount(requests, size), returned))


@pytest.mark.parametrize("seed", range(4))
def test_all_grants_together_never_exceed_the_budget_whoever_is_killed(world: RedisMap, seed: int) -> None:
    chance, lost = Random(seed), NOTHING
    held = {spender(world, Budget(40, 4000)): NOTHING}
    for _ in range(150):
        if len(held) < 3 and chance.random() < 0.2:
            # Who comes while others are at it changes nothing.
            held[spender(world, Budget(10**6))] = NOTHING
        worker = chance.choice([*held])
        own, others = held.pop(worker), [*held.values(), lost]
        if held and chance.random() < 0.1:
            lost = plus(lost, own)
            continue
        back = Amount(chance.randint(0, own.requests), chance.randint(0, own.received_bytes))
        wanted = Amount(chance.randint(0, 9), chance.randint(0, 900))
        kept = Amount(own.requests - back.requests, own.received_bytes - back.received_bytes)
        total = plus(kept, wanted, *others)
        is_granted = worker.run(worker.queue.grant(wanted, back)).is_granted
        assert is_granted == (total.requests <= 40 and total.received_bytes <= 4000)
        held[worker] = plus(kept, wanted) if is_granted else kept


def plus(*amounts: Amount) -> Amount:
    return Amount(sum(one.requests for one in amounts), sum(one.received_bytes for one in amounts))


def test_more_than_was_granted_is_not_returned(world: RedisMap) -> None:
    """Nor is it a second time."""
    worker = spender(world, Budget(requests=5))
    grant(worker, 2)
    for _ in range(2):
        assert not grant(worker, 6, returned=Amount(9, 9)).is_granted
    assert grant(worker, 5).is_granted


def test_a_run_begins_anew_when_nobody_is_at_it_any_more(world: RedisMap) -> None:
    first = spender(world, Budget(requests=5))
    assert grant(first, 5).is_granted
    # Killed, but that is not known yet.
    assert not grant(spender(world, Budget(requests=7), 29.0), 1).is_granted
    world.close_workers()
    assert grant(spender(world, Budget(requests=9), 30.0), 9).is_granted


def test_others_hold_what_they_may_return_until_they_ask_in_vain_end_or_are_silent(world: RedisMap) -> None:
    first, second, third = (spender(world, Budget(requests=5)) for _ in range(3))
    assert grant(first, 5) == Granted(is_granted=True)
    assert grant(second, 1) == Granted(is_granted=False, others_hold=True)
    assert grant(first, 1) == grant(second, 1) == Granted(is_granted=False)
    assert grant(second, 3, returned=Amount(3)) == Granted(is_granted=False)
    assert grant(first, 0, returned=Amount(3)) == Granted(is_granted=True)
    assert grant(first, 1).is_granted
    assert grant(second, 3) == Granted(is_granted=False, others_hold=True)
    first.stop()
    assert grant(second, 3) == Granted(is_granted=False)
    assert grant(third, 2) == Granted(is_granted=True)
    for now, others_hold in ((29.0, True), (30.0, False)):
        third.extend(now=now)
        second.extend(now=now)
        assert grant(second, 1) == Granted(is_granted=False, others_hold=others_hold)


def test_who_returns_all_that_is_left_is_waited_for_by_nobody_until_it_is_granted_more(
    world: RedisMap,
) -> None:
    first, second = (spender(world, Budget(requests=5)) for _ in range(2))
    assert grant(first, 4).is_granted
    assert grant(second, 2) == Granted(is_granted=False, others_hold=True)
    assert grant(first, 0).is_granted
    assert grant(second, 2) == Granted(is_granted=False)
    assert grant(first, 1).is_granted
    assert grant(second, 2) == Granted(is_granted=False, others_hold=True)


def worked(worker: Driven, seconds: float) -> Worked:
    return worker.run(worker.queue.worked(seconds))


def test_who_comes_late_or_again_counts_from_where_the_others_are(world: RedisMap) -> None:
    first, killed = (spender(world, Budget(seconds=60.0)) for _ in range(2))
    assert worked(first, 40.5) == Worked(40.5)
    assert worked(killed, 41.0) == Worked(41.0)
    # What is left of the day is less for who comes later; that of the run is not.
    late = spender(world, Budget(seconds=10.0))
    assert worked(late, 0.0) == Worked(41.0)
    assert worked(first, 40.75) == Worked(41.0)
    assert worked(late, 60.0) == Worked(60.0, is_spent=True)
    assert worked(first, 50.0) == Worked(60.0, is_spent=True)


def test_the_time_of_a_run_begins_anew_when_nobody_is_at_it_any_more(world: RedisMap) -> None:
    worked(spender(world, Budget(seconds=60.0)), 59.0)
    world.close_workers()
    assert worked(spender(world, Budget(seconds=60.0), 30.0), 0.0) == Worked(0.0)


def test_a_purse_that_redis_has_lost_is_told(world: RedisMap) -> None:
    worker = spender(world, Budget(requests=5))
    world.ask("DEL", "purse")
    with pytest.raises(QueueError, match=r"lost what may yet be spent: .*; run again"):
        grant(worker, 1)
    with pytest.raises(QueueError, match="lost what may yet be spent"):
        worked(worker, 1.0)


def test_strange_contents_of_a_purse_do_no_harm(world: RedisMap) -> None:
    worker = spender(world, Budget(requests=5))
    world.ask("HSET", "purse", f"held by {worker.queue._session.client}", b"x", "held by nobody", b"")
    assert grant(worker, 2, returned=Amount(4)).is_granted
    assert not grant(worker, 4).is_granted


def test_without_a_purse_everything_is_granted(world: RedisMap) -> None:
    assert grant(world.worker(), 10**6, 10**12) == Granted(is_granted=True)


def test_what_is_no_amount_and_who_is_no_worker_is_refused(world: RedisMap) -> None:
    with pytest.raises(ValueError, match="cannot be granted"):
        grant(world.worker(), -1)
    beside = world.beside()
    with pytest.raises(RuntimeError, match="only a worker"):
        grant(beside, 1)
