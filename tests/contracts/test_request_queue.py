"""What every queue keeps to: order, ageing, delays, bytes. See also the suites of leases and of segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scheduler.driving import DAY, entry, pending

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scheduler.driving import Driven


# Order


def test_lanes_are_served_one_after_another(queue: Driven) -> None:
    queue.push(entry("minus", -1), entry("normal"), entry("plus", 1))
    assert queue.bodies() == ["plus", "normal", "minus"]


def test_within_a_lane_the_highest_priority_is_first(queue: Driven) -> None:
    queue.push(*(entry(str(priority), priority) for priority in (-5, 2, -1, 9, 3, -2)))
    assert queue.bodies() == ["9", "3", "2", "-1", "-2", "-5"]


@pytest.mark.parametrize("priority", [7, 0, -7])
def test_what_is_equal_is_first_in_first_out(queue: Driven, priority: int) -> None:
    wanted = [str(number) for number in range(20)]
    queue.push(*(entry(body, priority) for body in wanted[:10]))
    queue.push(*(entry(body, priority) for body in wanted[10:]))
    assert queue.bodies(7) + queue.bodies(3) + queue.bodies(20) == wanted


def test_what_comes_later_in_a_better_lane_goes_first(queue: Driven) -> None:
    queue.push(entry("1"), entry("2"))
    assert queue.bodies(1) == ["1"]
    queue.push(entry("get", 100))
    assert queue.bodies(2) == ["get", "2"]


def test_no_more_are_leased_than_wanted(queue: Driven) -> None:
    queue.push(*(entry(str(number)) for number in range(5)))
    assert len(queue.lease(2)) == 2
    assert pending(queue) == (0, 3, 0)


def test_nothing_wanted_leases_nothing(queue: Driven) -> None:
    assert queue.exchange(0, pushed=[entry("1")]).leases == []
    assert pending(queue) == (0, 1, 0)


def test_a_negative_number_cannot_be_wanted(queue: Driven) -> None:
    with pytest.raises(ValueError, match="-1 requests"):
        queue.lease(-1)


def test_what_is_pushed_can_be_leased_in_the_same_step(queue: Driven) -> None:
    (lease,) = queue.exchange(1, pushed=[entry("1")]).leases
    assert lease.body == b"1"


# Ageing


def test_one_of_so_many_offers_is_taken_from_minus(making: Callable[..., Driven]) -> None:
    with making(minus_share=4).open() as queue:
        queue.push(*(entry(f"n{number}") for number in range(7)))
        queue.push(*(entry(f"m{number}", -1) for number in range(3)))
        assert queue.bodies(10) == ["n0", "n1", "n2", "m0", "n3", "n4", "n5", "m1", "n6", "m2"]


def test_ageing_counts_offers_across_exchanges(making: Callable[..., Driven]) -> None:
    with making(minus_share=4).open() as queue:
        queue.push(*(entry(f"n{number}") for number in range(7)))
        queue.push(*(entry(f"m{number}", -1) for number in range(3)))
        assert [queue.bodies(1)[0][0] for _ in range(8)] == list("nnnmnnnm")


def test_ageing_takes_the_best_of_minus(making: Callable[..., Driven]) -> None:
    with making(minus_share=2).open() as queue:
        queue.push(entry("plus", 1), entry("far", -9), entry("near", -1), entry("normal"))
        assert queue.bodies() == ["plus", "near", "normal", "far"]


def test_ageing_goes_on_to_the_other_lanes_where_minus_is_empty(making: Callable[..., Driven]) -> None:
    with making(minus_share=2).open() as queue:
        queue.push(*(entry(str(number)) for number in range(4)))
        assert queue.bodies() == ["0", "1", "2", "3"]


# Delays


def test_a_delayed_request_is_offered_from_its_time_on(queue: Driven) -> None:
    queue.push(entry("1", due=10.0))
    assert queue.bodies(now=9.999) == []
    assert queue.bodies(now=10.0) == ["1"]


def test_a_delayed_request_that_is_due_has_its_lane_and_place(queue: Driven) -> None:
    queue.push(entry("first", due=10.0), entry("plus", 1, due=10.0), entry("second"), entry("minus", -1))
    assert queue.bodies(now=10.0) == ["plus", "first", "second", "minus"]


def test_the_time_of_the_next_delayed_request_is_told(queue: Driven) -> None:
    assert queue.push(entry("1")).next_due is None
    assert queue.push(entry("2", due=30.0), entry("3", due=20.0)).next_due == 20.0
    assert queue.exchange(now=20.0).next_due == 30.0
    assert queue.exchange(now=30.0).next_due is None


def test_what_was_due_already_is_not_delayed(queue: Driven) -> None:
    answer = queue.exchange(1, now=50.0, pushed=[entry("1", due=50.0)])
    assert [lease.body for lease in answer.leases] == [b"1"]
    assert answer.next_due is None


# Bytes and values


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(bodies=st.lists(st.binary(max_size=300), max_size=20))
def test_bytes_come_out_as_they_went_in(queue: Driven, bodies: list[bytes]) -> None:
    queue.push(*(entry(body, fingerprint=None) for body in bodies))
    leases = queue.lease(100)
    queue.exchange(finished=leases)
    assert [lease.body for lease in leases] == bodies


def test_a_lease_has_the_values_of_its_request(queue: Driven) -> None:
    queue.push(entry("1", priority=-(2**40), attempt=2), now=5.0)
    (lease,) = queue.lease(now=7.5)
    assert (lease.body, lease.segment, lease.priority) == (b"1", DAY, -(2**40))
    assert lease.attempt == 2
