"""What every queue keeps to: who holds a request, when the queue takes it back, and the failure list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scheduler.driving import DAY, LEASE, entry
from tileharvest.errors import QueueError
from tileharvest.queue.port import Lane

if TYPE_CHECKING:
    from tests.scheduler.driving import Driven
    from tileharvest.queue.port import Lease

WAYS = ["finished", "failed", "returned", "cut_off"]


def ending(way: str, lease: Lease) -> dict[str, object]:
    return {way: [(lease, "no")] if way == "failed" else [lease]}


def leased(queue: Driven, body: str = "1", now: float = 0.0, attempt: int = 1) -> Lease:
    (lease,) = queue.exchange(1, now, pushed=[entry(body, attempt=attempt)]).leases
    return lease


# Holding


def test_a_leased_request_is_offered_to_nobody_else(queue: Driven) -> None:
    leased(queue)
    assert queue.bodies() == []
    assert queue.counts().leased == 1


def test_a_finished_request_does_not_come_again(queue: Driven) -> None:
    assert queue.exchange(finished=[leased(queue)]).refused == 0
    assert queue.bodies(now=10 * LEASE) == []
    assert queue.counts().done == 1


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_a_lease_ends_once(queue: Driven, first: str, second: str) -> None:
    lease = leased(queue)
    queue.exchange(**ending(first, lease))
    before = queue.counts()
    assert queue.exchange(**ending(second, lease)).refused == 1
    assert queue.counts() == before


def test_a_lease_twice_in_one_step_ends_once(queue: Driven) -> None:
    lease = leased(queue)
    changes = {"finished": [lease, lease], "failed": [(lease, "no"), (lease, "no")], "returned": [lease]}
    assert queue.exchange(**changes).refused == 4
    assert (queue.counts().done, queue.counts().failed) == (1, 0)


def test_a_request_that_fails_twice_in_one_step_is_once_on_the_list(queue: Driven) -> None:
    lease = leased(queue)
    assert queue.exchange(failed=[(lease, "first"), (lease, "second")]).refused == 1
    assert queue.reasons() == [("1", "first")]


def test_a_returned_request_keeps_its_attempt_and_place(queue: Driven) -> None:
    queue.push(entry("1"), entry("2"), entry("3"), entry("plus", 1))
    _, first, second = queue.lease(3)
    assert queue.exchange(returned=[second, first]).refused == 0
    again = queue.lease(9)
    assert [(lease.body, lease.attempt) for lease in again] == [(b"1", 1), (b"2", 1), (b"3", 1)]


def test_a_returned_request_can_be_leased_in_the_same_step(queue: Driven) -> None:
    lease = leased(queue)
    (again,) = queue.exchange(1, now=5.0, returned=[lease]).leases
    assert (again.id, again.attempt) == (lease.id, 1)
    assert queue.bodies(now=5.0 + LEASE - 0.001) == []
    assert queue.bodies(now=5.0 + LEASE) == ["1"]


def test_a_request_that_is_cut_off_keeps_its_place_and_has_one_more_attempt(queue: Driven) -> None:
    queue.push(entry("1"), entry("2"), entry("3"), entry("plus", 1))
    _, first, second = queue.lease(3)
    assert queue.exchange(cut_off=[second, first]).refused == 0
    assert queue.counts().leased == 1
    again = queue.lease(9)
    assert [(lease.body, lease.attempt) for lease in again] == [(b"1", 2), (b"2", 2), (b"3", 1)]


def test_a_request_is_not_given_up_however_often_it_is_cut_off(queue: Driven) -> None:
    lease = leased(queue)
    for attempt in range(2, 9):
        (lease,) = queue.exchange(1, cut_off=[lease]).leases
        assert lease.attempt == attempt
    assert queue.exchange(finished=[lease]).refused == 0
    assert queue.reasons() == []


# Expiry


def test_a_lease_holds_until_its_end(queue: Driven) -> None:
    lease = leased(queue)
    assert queue.bodies(now=LEASE - 0.001) == []
    assert queue.exchange(finished=[lease], now=LEASE - 0.001).refused == 0


def test_an_expired_request_comes_back_with_one_more_attempt(queue: Driven) -> None:
    lease = leased(queue)
    (again,) = queue.lease(now=LEASE)
    assert (again.id, again.body, again.attempt) == (lease.id, b"1", 2)


def test_an_expired_request_has_its_lane_and_place(queue: Driven) -> None:
    queue.push(entry("1"), entry("2"), entry("minus", -1), entry("plus", 1))
    assert queue.bodies(2) == ["plus", "1"]
    assert queue.bodies(9, now=LEASE) == ["plus", "1", "2", "minus"]


@pytest.mark.parametrize("way", WAYS)
def test_after_its_end_a_lease_is_refused_and_changes_nothing(queue: Driven, way: str) -> None:
    lease = leased(queue)
    assert queue.exchange(now=LEASE, **ending(way, lease)).refused == 1
    counts = queue.counts(LEASE)
    assert (counts.pending[Lane.NORMAL], counts.leased, counts.failed, counts.done) == (1, 0, 0, 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_former_holder_cannot_end_the_lease_of_the_next(queue: Driven, way: str) -> None:
    former = leased(queue)
    (holder,) = queue.lease(now=LEASE)
    assert queue.exchange(now=LEASE, **ending(way, former)).refused == 1
    assert queue.exchange(now=LEASE, finished=[holder]).refused == 0


def test_a_request_that_expires_at_every_attempt_is_a_failure(queue: Driven) -> None:
    queue.push(entry("1", -4))
    assert [queue.lease(now=LEASE * n)[0].attempt for n in range(3)] == [1, 2, 3]
    assert queue.lease(now=3 * LEASE) == []
    (failure,) = queue.failures()
    assert (failure.body, failure.segment, failure.priority) == (b"1", DAY, -4)
    assert (failure.attempts, failure.failed) == (3, 300.0)
    assert failure.reason == "not finished within 100 s in 3 attempts"


def test_attempts_made_before_it_was_pushed_count(queue: Driven) -> None:
    leased(queue, attempt=3)
    assert queue.lease(now=LEASE) == []
    assert [failure.attempts for failure in queue.failures()] == [3]


def test_an_extended_lease_lasts_for_the_full_time_again(queue: Driven) -> None:
    lease = leased(queue)
    assert queue.extend(lease, now=60.0) == 1
    assert queue.lease(now=159.9) == []
    assert queue.exchange(finished=[lease], now=159.9).refused == 0


def test_an_extended_lease_expires_at_its_new_end(queue: Driven) -> None:
    queue.extend(leased(queue), now=60.0)
    assert [lease.attempt for lease in queue.lease(now=160.0)] == [2]


def test_only_what_is_held_is_extended(queue: Driven) -> None:
    finished, held = (leased(queue, body) for body in "12")
    queue.exchange(finished=[finished])
    assert queue.extend(finished, held, now=50.0) == 1
    assert queue.extend(held, now=150.0) == 0


def test_leases_of_many_times_expire_each_at_its_own(queue: Driven) -> None:
    for number in range(50):
        leased(queue, str(number), now=float(number))
    for number in range(0, 50, 7):
        assert queue.bodies(now=LEASE + number)[-1] == str(number)


# Failures


def test_a_failed_request_is_kept_with_its_reason(queue: Driven) -> None:
    queue.exchange(failed=[(leased(queue), "503 at every attempt")], now=42.0)
    (failure,) = queue.failures()
    assert (failure.body, failure.segment, failure.attempts) == (b"1", DAY, 1)
    assert (failure.reason, failure.failed) == ("503 at every attempt", 42.0)


def test_a_failed_request_is_not_offered_and_not_done(queue: Driven) -> None:
    queue.exchange(failed=[(leased(queue), "no")])
    assert queue.bodies(now=10 * LEASE) == []
    assert queue.counts().done == 0


def test_failures_are_listed_oldest_first(queue: Driven) -> None:
    for body in "312":
        queue.exchange(failed=[(leased(queue, body), "no")])
    assert [body for body, _ in queue.reasons()] == ["3", "1", "2"]


def test_a_failure_that_is_taken_up_leaves_the_list(queue: Driven) -> None:
    for body in "12":
        queue.exchange(failed=[(leased(queue, body), "no")])
    first, _ = queue.failures()
    answer = queue.exchange(1, pushed=[entry(first.body, fingerprint=None)], taken_up=[first.id])
    assert [lease.body for lease in answer.leases] == [b"1"]
    assert queue.reasons() == [("2", "no")]


def test_to_take_up_what_is_no_failure_does_nothing(queue: Driven) -> None:
    lease = leased(queue)
    queue.exchange(taken_up=[lease.id, 999])
    assert queue.exchange(finished=[lease]).refused == 0


def test_the_failure_list_can_be_emptied(queue: Driven) -> None:
    for body in "12":
        queue.exchange(failed=[(leased(queue, body), "no")])
    assert (queue.clear_failures(), queue.failures(), queue.clear_failures()) == (2, [], 0)


# One worker at a time


def test_a_former_worker_loses_its_leases_at_once(local_queue: Driven) -> None:
    former = leased(local_queue)
    local_queue.restart(now=1.0)
    assert local_queue.exchange(now=1.0, finished=[former]).refused == 1
    assert [(lease.id, lease.attempt) for lease in local_queue.lease(now=1.0)] == [(former.id, 2)]


def test_a_request_that_ends_its_worker_every_time_is_a_failure(local_queue: Driven) -> None:
    leased(local_queue)
    for number in range(1, 4):
        local_queue.restart(now=float(number))
        local_queue.lease(now=float(number))
    (failure,) = local_queue.failures()
    assert (failure.body, failure.attempts, failure.failed) == (b"1", 3, 3.0)
    assert failure.reason == "its worker ended 3 times while it was under way"


def test_what_the_former_worker_gave_back_keeps_its_attempt(local_queue: Driven) -> None:
    local_queue.exchange(returned=[leased(local_queue)])
    local_queue.restart()
    assert [lease.attempt for lease in local_queue.lease()] == [1]


def test_a_second_worker_is_refused(local_queue: Driven) -> None:
    # A queue in memory has no second worker, only a mistake in the program.
    with pytest.raises((QueueError, RuntimeError)):
        local_queue.run(local_queue.make().open(0.0))
    assert leased(local_queue).body == b"1"


def test_the_only_worker_is_told_of_no_other(local_queue: Driven) -> None:
    assert local_queue.exchange(1, pushed=[entry("1")]).leased_elsewhere == 0
