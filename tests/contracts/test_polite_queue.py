"""What every queue that keeps a pace keeps to: gaps, shares, rests and probes."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.scheduler.driving import LEASE
from tileharvest.maps.rates import Gap
from tileharvest.politeness.rate_limit import ALONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.contracts.paces import AskedHost, Asking


def asked_for(
    asked: AskedHost, workers: Sequence[Asking], seconds: float, *, late: Sequence[float] = ()
) -> list[list[float]]:
    """The starts that each is given, who asks so many seconds, else a moment, after it is told to."""
    found: list[list[float]] = [[] for _ in workers]
    moments = [(asked.clock.now, place) for place in range(len(workers))]
    end = asked.clock.now + seconds
    while moments[0][0] < end:
        asked.clock.now, place = heappop(moments)
        answer = workers[place].ask(asked.chance.randint(1, 5))
        assert all(lease.start >= asked.clock.now for lease in answer.leases)
        found[place] += [lease.start for lease in answer.leases]
        again = answer.held_until or asked.clock.now
        heappush(moments, (again + (late[place] if late else asked.chance.uniform(0.001, 0.02)), place))
    return found


def gaps(*found: Sequence[float]) -> list[float]:
    return [later - sooner for sooner, later in pairwise(sorted(chain(*found)))]


# Without a reason to wait


def test_a_map_that_asks_alone_and_without_a_gap_is_not_held_up(asked: AskedHost) -> None:
    worker = asked.map("one", 7)
    worker.fill(20)
    answer = worker.ask(12)
    assert len(answer.leases) == 12
    assert all(lease.start <= asked.clock.now for lease in answer.leases)
    assert (answer.held_until, answer.rests_until, answer.share) == (None, None, 7)


# Gaps


def test_a_fixed_gap_lies_between_all_starts(asked: AskedHost) -> None:
    worker = asked.map("one", gap=Gap.of(0.25))
    worker.fill(40)
    (found,) = asked_for(asked, [worker], 6.0)
    assert len(found) >= 24
    assert gaps(found) == pytest.approx([0.25] * (len(found) - 1))


def test_a_random_gap_stays_in_its_range_and_varies_over_all_of_it(asked: AskedHost) -> None:
    worker = asked.map("one", gap=Gap.of([0.1, 0.3]))
    worker.fill(100)
    (found,) = asked_for(asked, [worker], 12.0)
    drawn = gaps(found)
    assert len(drawn) >= 50
    assert all(0.1 - 1e-6 <= gap <= 0.3 + 1e-6 for gap in drawn)
    assert len({round(gap, 6) for gap in drawn}) > 40
    assert min(drawn) < 0.12
    assert max(drawn) > 0.28


def test_the_gap_of_a_host_lies_between_the_starts_of_all_its_maps(asked: AskedHost) -> None:
    workers = [asked.map(name, host_gap=Gap.of(0.2)) for name in ("one", "other")]
    for worker in workers:
        worker.fill(40)
    found = asked_for(asked, workers, 8.0)
    assert all(len(starts) >= 10 for starts in found)
    together = gaps(*found)
    assert together == pytest.approx([0.2] * len(together))


def test_a_map_that_begins_later_does_not_shorten_the_gap_that_another_keeps_at_its_host(
    asked: AskedHost,
) -> None:
    """As when the tiles of a map lie on the host of another map, which knows nothing of it."""
    workers = [asked.map("guest", host_gap=Gap.of(0.2)), asked.map("own", gap=Gap.of(0.2))]
    for worker in workers:
        worker.fill(40)
    assert min(gaps(*asked_for(asked, workers, 8.0))) >= 0.2 - 1e-6


def test_a_map_that_is_always_a_little_faster_leaves_others_their_turns(asked: AskedHost) -> None:
    workers = [asked.map(name, host_gap=Gap.of(2.0)) for name in ("one", "other")]
    for worker in workers:
        worker.fill(30)
    found = asked_for(asked, workers, 40.0, late=[0.001, 0.002])
    assert len(gaps(*found)) >= 19
    assert all(len(starts) >= 6 for starts in found)


def test_each_map_keeps_its_own_gap_besides_that_of_the_host(asked: AskedHost) -> None:
    host_gap = Gap.of(0.1)
    slow = asked.map("slow", gap=Gap.of(1.0), host_gap=host_gap)
    fast = asked.map("fast", host_gap=host_gap)
    for worker in (slow, fast):
        worker.fill(100)
    found = asked_for(asked, [slow, fast], 6.0)
    assert min(gaps(found[0])) >= 1 - 1e-6
    assert min(gaps(*found)) >= 0.1 - 1e-6
    assert len(found[0]) >= 4
    assert len(found[1]) >= 45


def test_what_was_not_asked_is_not_made_up_for(asked: AskedHost) -> None:
    worker = asked.map("one", gap=Gap.of(0.1), host_gap=Gap.of(0.2))
    worker.fill(20)
    worker.ask(1)
    asked.clock.now += 60
    assert worker.starts(4) == pytest.approx([1060.0, 1060.2, 1060.4, 1060.6])


def test_who_was_held_up_learns_when_to_ask_again(asked: AskedHost) -> None:
    worker = asked.map("one", gap=Gap.of(9.0))
    worker.fill(2)
    answer = worker.ask(5)
    assert len(answer.leases) == 1
    assert answer.held_until == pytest.approx(1009 - ALONE / 2)
    assert worker.ask(0).held_until is not None
    asked.clock.now = 1009 - ALONE / 2
    assert worker.starts(5) == pytest.approx([1009.0])
    assert [worker.ask(5).held_until, worker.ask(0).held_until] == [None, None]


def test_nobody_is_held_up_where_nothing_waits(asked: AskedHost) -> None:
    worker = asked.map("one", gap=Gap.of(3.0))
    worker.fill(1)
    worker.ask(5)
    worker.rest(asked.host, 60.0)
    assert worker.ask(5).held_until is None


# Another pace


@pytest.mark.parametrize(("before", "after"), [(0.1, 2.0), (20.0, 0.3)])
def test_another_gap_holds_from_the_last_start_on(asked: AskedHost, before: float, after: float) -> None:
    worker = asked.map("one", gap=Gap.of(before))
    worker.fill(20)
    last = worker.starts(1)
    worker.set_pace(asked.pace(gap=Gap.of(after)))
    (found,) = asked_for(asked, [worker], 5.0)
    assert gaps(last, found) == pytest.approx([after] * len(found))


def test_another_concurrency_is_told_with_the_next_exchange(asked: AskedHost) -> None:
    worker = asked.map("one", 4)
    assert worker.ask().share == 4
    for concurrency in (2, 9):
        worker.set_pace(asked.pace(concurrency))
        assert worker.ask().share == concurrency


# Shares


def test_maps_share_the_concurrency_of_their_host_when_the_others_are_known_to_have_less(
    asked: AskedHost,
) -> None:
    first = asked.map("one", 10, host_concurrency=4)
    assert first.ask().share == 4
    second = asked.map("other", 10, host_concurrency=4)
    assert second.ask().share == 0
    assert first.ask(in_flight=1).share == 2
    # It may have begun more before it heard of that.
    assert second.ask().share == 0
    assert first.ask(in_flight=3).share == 2
    assert second.ask().share == 1
    first.ask(in_flight=2)
    assert second.ask().share == 2
    first.stop()
    assert second.ask().share == 4


def test_a_map_that_wants_less_leaves_the_rest_of_the_host_to_others(asked: AskedHost) -> None:
    small, large = asked.map("small", 1, host_concurrency=8), asked.map("large", 20, host_concurrency=8)
    assert [small.ask().share, large.ask().share] == [1, 7]


def test_without_a_limit_of_the_host_each_map_has_all_of_its_own(asked: AskedHost) -> None:
    maps = [asked.map(str(number), number) for number in (3, 5)]
    assert [worker.ask().share for worker in maps] == [3, 5]


def test_a_map_without_a_share_leases_nothing_and_looks_again_soon(asked: AskedHost) -> None:
    asked.map("one", host_concurrency=1).ask()
    late = asked.map("other", host_concurrency=1)
    late.fill(3)
    answer = late.ask(3)
    assert (answer.share, answer.leases) == (0, [])
    assert answer.held_until is not None
    assert 1000 < answer.held_until <= 1001


@pytest.mark.parametrize("seed", range(3))
def test_all_maps_together_never_have_more_on_the_way_than_the_host_allows(
    asked: AskedHost, seed: int
) -> None:
    chance = Random(seed)
    limit = chance.randint(1, 7)
    shares: dict[Asking, int] = {}
    on_the_way: dict[Asking, int] = {}

    def exchange(worker: Asking) -> None:
        told = on_the_way[worker]
        # It starts more while the answer is on its way, which may tell it of a smaller share.
        on_the_way[worker] = max(told, chance.choice([0, shares[worker]]))
        shares[worker] = worker.ask(in_flight=told).share or 0
        on_the_way[worker] = chance.choice([0, on_the_way[worker], max(on_the_way[worker], shares[worker])])

    for step in range(60):
        come = not shares or (len(shares) < 4 and chance.random() < 0.2)
        worker = asked.map(str(step), 5, host_concurrency=limit) if come else chance.choice([*shares])
        if come:
            on_the_way[worker], shares[worker] = 0, 0
        elif chance.random() < 0.1:
            worker.stop()
            del on_the_way[worker], shares[worker]
            continue
        exchange(worker)
        assert sum(on_the_way.values()) <= limit
    for _ in range(2):
        for worker in shares:
            shares[worker] = worker.ask().share or 0
    assert sum(shares.values()) == min(limit, 5 * len(shares))
    assert not shares or max(shares.values()) - min(shares.values()) <= 1


# Requests of maps of other hosts


@pytest.mark.parametrize("gap", ["gap", "host_gap"])
def test_a_map_of_another_host_shares_the_gap_of_a_host_that_it_asks(asked: AskedHost, gap: str) -> None:
    own, guest = asked.map("one", **{gap: Gap.of(2.0)}), asked.guest()
    own.fill(9)
    assert own.starts(1) == pytest.approx([1000.0])
    pace = asked.pace(host_gap=Gap.of(2.0))
    assert guest.visit(pace) == (False, pytest.approx(1.5))
    asked.clock.now = 1001.6
    assert guest.visit(pace) == (True, pytest.approx(0.4))
    assert own.starts(1) == []
    asked.clock.now = 1003.6
    assert own.starts(1) == pytest.approx([1004.0])
    assert guest.visit(pace) == (False, pytest.approx(1.9))


def test_a_map_of_another_host_shares_the_concurrency_of_a_host_that_it_asks(asked: AskedHost) -> None:
    own, guest = asked.map("one", 10, host_concurrency=4), asked.guest()
    # It knows another limit, but that of the host's own map holds.
    pace = asked.pace(host_concurrency=99)
    assert own.ask().share == 4
    assert not guest.visit(pace)[0]
    for _ in range(2):
        assert own.ask(in_flight=2).share == 2
    assert [guest.visit(pace)[0] for _ in range(3)] == [True, True, False]
    guest.leave(asked.host)
    assert own.ask(in_flight=2).share == 2
    guest.leave(asked.host)
    assert own.ask(in_flight=2).share == 4


def test_a_map_of_another_host_holds_no_place_of_a_host_while_it_has_nothing_on_the_way_there(
    asked: AskedHost,
) -> None:
    guest, pace = asked.guest(), asked.pace(host_concurrency=1)
    assert guest.visit(pace)[0]
    assert not guest.visit(pace)[0]
    own = asked.map("one", host_concurrency=1)
    assert own.ask().share == 0
    guest.leave(asked.host)
    assert own.ask().share == 1
    assert not guest.visit(pace)[0]


def test_a_request_to_another_host_counts_there_however_long_it_takes(asked: AskedHost) -> None:
    guest = asked.guest()
    assert guest.visit(asked.pace(host_concurrency=1))[0]
    for _ in range(4):
        asked.clock.now += LEASE / 2
        guest.extend()
    assert asked.map("one", host_concurrency=1).ask().share == 0


def test_a_map_of_another_host_that_ends_leaves_each_host_that_it_was_about_to_ask(asked: AskedHost) -> None:
    own, guest = asked.map("one", host_concurrency=2), asked.guest()
    assert own.ask().share == 2
    assert not guest.visit(asked.pace(host_concurrency=2))[0]
    assert own.ask().share == 1
    guest.stop()
    assert own.ask().share == 2


def test_a_map_of_another_host_leaves_a_host_alone_that_rests(asked: AskedHost) -> None:
    own, guest = asked.map("one"), asked.guest()
    own.rest(asked.host, 20.0)
    assert guest.visit(asked.pace()) == (False, 20.0)
    asked.clock.now += 20.0
    assert guest.visit(asked.pace()) == (True, 0.0)


def test_a_map_that_moves_to_another_host_counts_there_and_no_more_at_the_one_before(
    asked: AskedHost,
) -> None:
    moved, own = (asked.map(name, host_concurrency=1) for name in ("one", "other"))
    assert (moved.ask().share, own.ask().share) == (1, 0)
    moved.set_pace(replace(asked.pace(host_concurrency=1), host=f"other-{asked.host}"))
    assert (moved.ask().share, own.ask().share) == (1, 1)


def test_a_map_spends_the_same_budget_at_the_host_to_which_it_moves(asked: AskedHost) -> None:
    moved, there = asked.map("one"), f"other-{asked.host}"
    moved.fill(9)
    moved.allow(asked.host, requests=3)
    moved.ask(1)
    moved.start(1)
    moved.allow(there, requests=3)
    moved.set_pace(replace(asked.pace(), host=there))
    assert len(moved.ask(9).leases) == 2


# Rests and probes


def test_a_host_that_rests_is_left_alone_by_all_its_maps(asked: AskedHost) -> None:
    workers = [asked.map("one"), asked.map("other", gap=Gap.of(0.1))]
    for worker in workers:
        worker.fill(9)
    workers[0].rest(asked.host, 20.0)
    workers[1].rest(asked.host, 5.0)
    asked.clock.now += 19.9
    for worker in workers:
        answer = worker.ask(9)
        assert (answer.leases, answer.rests_until, answer.held_until) == ([], 1020.0, 1020.0)
    asked.clock.now = 1020.0
    assert len(workers[0].ask(9).leases) == 9
    assert workers[1].starts(2) == pytest.approx([1020.0, 1020.1])


def test_whoever_asks_is_told_for_how_long_a_host_yet_rests(asked: AskedHost) -> None:
    told, other = asked.map("one"), asked.map("other")
    for seconds in (20.0, 5.0):
        told.rest(asked.host, seconds)
    asked.clock.now += 12.0
    assert other.take_turn(asked.pace()) == (8.0, 0.0)
    asked.clock.now += 9.0
    assert other.take_turn(asked.pace()) == (0.0, 0.0)


def test_a_turn_beside_the_queue_keeps_the_gap_to_what_is_leased_before_and_after(asked: AskedHost) -> None:
    one, other = (asked.map(name, host_gap=Gap.of(0.2)) for name in ("one", "other"))
    other.fill(9)
    pace = asked.pace(host_gap=Gap.of(0.2))
    assert one.take_turn(pace) == (0.0, 0.0)
    assert other.starts(1) == pytest.approx([1000.2])
    assert one.take_turn(pace) == (0.0, pytest.approx(0.4))


def test_other_hosts_do_not_rest(asked: AskedHost) -> None:
    worker = asked.map("one")
    worker.fill(9)
    worker.rest(f"other-{asked.host}", 60.0)
    assert len(worker.ask(9).leases) == 9


def test_one_at_a_time_may_find_out_whether_a_host_is_there_again(asked: AskedHost) -> None:
    first, second = asked.map("one"), asked.map("other")
    assert first.claim_probe(asked.host, 10.0)
    asked.clock.now += 9.9
    assert not second.claim_probe(asked.host, 10.0)
    assert second.claim_probe(f"other-{asked.host}", 10.0)
    asked.clock.now += 0.1
    assert [second.claim_probe(asked.host, 10.0), first.claim_probe(asked.host, 10.0)] == [True, False]
