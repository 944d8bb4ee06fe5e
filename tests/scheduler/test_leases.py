"""Which of a worker's leases starts next, and when."""

from __future__ import annotations

import pytest

from tileharvest.queue.port import Lease
from tileharvest.scheduler.worker import Leases

NOW = 1000.0


def lease(number: int, start: float = NOW, *, priority: int = 0, attempt: int = 1) -> Lease:
    return Lease(number, attempt, b"", "", priority, start)


def waiting(*starts: float, rests_until: float | None = None) -> Leases:
    """Leases 0, 1, ..., with these starts, seen at the present moment."""
    leases = Leases()
    leases.take(NOW, 1)
    leases.add([lease(number, start) for number, start in enumerate(starts)], rests_until)
    return leases


def test_without_leases_nothing_may_start() -> None:
    leases = waiting()
    assert (leases.earliest, leases.waiting) == (None, 0)


def test_the_first_start_is_the_next() -> None:
    leases = waiting(NOW + 2, NOW + 3)
    assert leases.earliest == NOW + 2
    assert [one.id for one in leases.take(NOW + 2, 2)] == [0]
    assert (leases.earliest, leases.waiting) == (NOW + 3, 1)


def test_while_the_host_rests_nothing_starts_until_an_answer_says_that_it_rests_no_more() -> None:
    leases = waiting(NOW, rests_until=NOW + 60)
    assert leases.earliest == NOW + 60
    leases.add([], None)
    assert leases.earliest == NOW


# Lanes


def test_the_plus_lane_takes_the_next_start() -> None:
    leases = waiting(NOW + 2)
    leases.add([lease(7, NOW + 5, priority=1), lease(8, NOW + 6, priority=-1)], None)
    assert leases.earliest == NOW + 2
    assert [one.id for one in leases.take(NOW + 9, 3)] == [7, 0, 8]


def test_what_is_put_back_starts_next_in_the_same_order() -> None:
    leases = waiting(NOW, NOW, NOW + 5)
    leases.add([lease(7, NOW + 5, priority=1)], None)
    taken = leases.take(NOW, 2)
    leases.put_back([*taken[1:], lease(8)])
    assert (leases.earliest, leases.waiting) == (NOW, 4)
    assert [one.id for one in leases.take(NOW + 9, 9)] == [0, 8, 1, 2]


def test_what_is_put_back_has_not_started_for_the_spacing() -> None:
    leases = waiting(NOW, NOW)
    leases.keep_apart(30.0)
    leases.started(NOW - 30)
    leases.put_back(leases.take(NOW, 1))
    assert leases.earliest == NOW


# What is held


def test_a_lease_is_held_until_it_is_let_go_whether_it_has_started_or_not() -> None:
    leases = waiting(NOW, NOW)
    first = leases.take(NOW, 1)
    assert ({one.id for one in leases.held}, leases.waiting) == ({0, 1}, 1)
    leases.let_go(first)
    assert [one.id for one in leases.held] == [1]


def test_a_lease_that_was_lost_does_not_let_go_of_the_one_that_came_after_it() -> None:
    leases = waiting(NOW)
    lost, again = leases.take(NOW, 1), lease(0, attempt=2)
    leases.add([again], None)
    leases.let_go(lost)
    assert list(leases.held) == [again]


def test_what_is_withdrawn_waits_no_more_and_is_held() -> None:
    leases = waiting(NOW)
    leases.add([lease(7, priority=1)], None)
    assert [one.id for one in leases.withdraw()] == [7, 0]
    assert (leases.waiting, leases.earliest, leases.withdraw()) == (0, None, [])
    assert {one.id for one in leases.held} == {0, 7}


def test_the_leases_that_would_start_last_are_withdrawn_first() -> None:
    leases = waiting(NOW, NOW + 1)
    leases.add([lease(7, NOW + 2, priority=1), lease(8, NOW + 3, priority=1)], None)
    assert [one.id for one in leases.withdraw(but=1)] == [8, 0, 1]
    assert (leases.waiting, leases.earliest) == (1, NOW)
    assert [one.id for one in leases.take(NOW, 1)] == [7]


# Between two starts


def test_leases_that_are_late_are_kept_apart() -> None:
    leases = waiting(NOW - 9, NOW - 8)
    leases.keep_apart(2.0)
    assert [one.id for one in leases.take(NOW, 2)] == [0]
    assert leases.earliest == NOW + 2


def test_what_starts_later_than_it_was_taken_keeps_the_next_one_back_from_then_on() -> None:
    """What it has cost had to be recorded first."""
    leases = waiting(NOW, NOW + 2)
    leases.keep_apart(2.0)
    leases.take(NOW, 1)
    leases.started(NOW + 1.5)
    assert leases.earliest == NOW + 3.5


@pytest.mark.parametrize("spacing", [5.0, 0.5, 0.0])
def test_a_new_distance_counts_from_the_last_start(spacing: float) -> None:
    leases = waiting(NOW, NOW)
    leases.keep_apart(2.0)
    leases.take(NOW, 1)
    leases.keep_apart(spacing)
    assert leases.earliest == NOW + spacing


# Where the clock is set back


def test_a_start_goes_back_with_the_clock() -> None:
    leases = waiting(NOW + 2, NOW + 3)
    leases.take(NOW - 600, 1)
    assert leases.earliest == NOW - 598
    leases.take(NOW - 598, 1)
    assert leases.earliest == NOW - 597


def test_the_end_of_a_rest_goes_back_with_the_clock() -> None:
    leases = waiting(NOW, rests_until=NOW + 60)
    leases.take(NOW - 600, 1)
    assert leases.earliest == NOW - 540


def test_the_distance_from_the_last_start_goes_back_with_the_clock() -> None:
    leases = waiting(NOW, NOW)
    leases.keep_apart(2.0)
    leases.take(NOW, 1)
    leases.take(NOW - 600, 1)
    assert leases.earliest == NOW - 598


def test_it_goes_back_again_only_by_what_the_clock_goes_back_again() -> None:
    leases = waiting(NOW + 2)
    leases.take(NOW - 600, 1)
    leases.take(NOW - 599, 1)
    leases.take(NOW - 604, 1)
    assert leases.earliest == NOW - 603


def test_a_clock_that_is_kept_right_in_small_steps_moves_nothing() -> None:
    leases = waiting(NOW + 2, rests_until=NOW + 3)
    leases.take(NOW - 1, 1)
    assert leases.earliest == NOW + 3


def test_where_nothing_may_start_yet_none_is_taken() -> None:
    leases = waiting(NOW + 2)
    assert leases.take(NOW + 1, 1) == []
    assert (leases.waiting, leases.earliest) == (1, NOW + 2)


def test_a_clock_that_is_put_forward_moves_nothing() -> None:
    leases = waiting(NOW + 2, NOW + 900)
    leases.take(NOW + 600, 1)
    assert leases.earliest == NOW + 900
