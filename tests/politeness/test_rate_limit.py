"""What one of several processes may expect of a host, and when it asks again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import LONGEST, Gap
from tileharvest.politeness.rate_limit import ALONE, HORIZON, Account, Host, Pace, Spent, Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = 1000.0


def standing(*, share: int = 1, rests_until: float | None = None, askers: int = 1) -> Standing:
    return Standing(share, 0, rests_until, 0.0, askers, has_gap=True, spent=Spent())


@pytest.mark.parametrize(("askers", "pause"), [(1, 0.1), (2, 0.2), (3, 0.3), (9, 0.3)])
def test_of_several_that_a_gap_holds_back_each_asks_less_often(askers: int, pause: float) -> None:
    again = standing(askers=askers).ask_again(NOW + 0.01, NOW, has_some=False)
    assert again == pytest.approx(NOW + pause)


@pytest.mark.parametrize("askers", [1, 9])
def test_what_no_gap_holds_back_is_asked_for_again_soon(askers: int) -> None:
    assert standing(askers=askers).ask_again(NOW, NOW, has_some=False) == pytest.approx(NOW + 0.1)


def test_one_without_a_share_has_long() -> None:
    assert standing(share=0).ask_again(NOW + 0.01, NOW, has_some=False) == NOW + 0.5


def test_while_the_host_rests_nobody_asks() -> None:
    assert standing(rests_until=NOW + 60).ask_again(NOW, NOW, has_some=False) == NOW + 60


@pytest.mark.parametrize(
    ("askers", "has_some", "ahead"),
    [(1, False, HORIZON), (1, True, HORIZON), (2, False, HORIZON), (2, True, HORIZON / 2)],
)
def test_a_far_start_is_asked_for_when_it_can_be_leased_and_later_by_who_has_some_where_others_ask(
    askers: int, has_some: bool, ahead: float
) -> None:
    again = standing(askers=askers).ask_again(NOW + 9, NOW, has_some=has_some)
    assert again == NOW + 9 - ahead


def test_who_asks_a_host_alone_leases_for_seconds_at_a_time() -> None:
    host, pace = Host(), Pace("map.example.net", 32, Gap.of_rate(2.0))
    own = host.tell("1-a", Account("world"), NOW)
    first = host.stand(own, pace, wanted=99, now=NOW)
    assert first.allowed == 2 * ALONE + 1
    _, next_start = host.take_starts(own, first.allowed, now=NOW, random=lambda: 0.5)
    again = first.ask_again(next_start, NOW, has_some=True)
    assert again == next_start - ALONE / 2
    assert host.stand(own, pace, wanted=99, now=again).allowed >= ALONE


def test_beside_another_process_little_is_leased_ahead() -> None:
    host, pace = Host(), Pace("map.example.net", 32, Gap.of_rate(10.0))
    host.tell("1-a", Account("other"), NOW)
    own = host.tell("2-a", Account("world"), NOW)
    assert host.stand(own, pace, wanted=99, now=NOW).allowed == 10 * HORIZON + 1


def told(host: Host, process: str, name: str, concurrency: int, host_concurrency: int | None = None) -> int:
    """The share of a process."""
    pace = Pace("map.example.net", concurrency, host_concurrency=host_concurrency)
    return host.stand(host.tell(process, Account(name), NOW), pace, wanted=0, now=NOW).share


def host_of(askers: Sequence[tuple[str, int]], total: int | None) -> Host:
    """Returns a host that nobody has asked yet, with processes of these maps."""
    host = Host()
    for place, (name, concurrency) in enumerate(askers):
        pace = Pace("map.example.net", concurrency, host_concurrency=total)
        host.limit(host.tell(f"{place}-a", Account(name), NOW), pace)
    return host


def test_what_cannot_be_shared_evenly_is_for_who_came_first() -> None:
    host = host_of([("world", 3), ("world", 3)], None)
    assert [told(host, f"{place}-a", "world", 3) for place in (0, 1)] == [2, 1]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_shares_are_as_equal_as_the_maps_allow_and_use_all_there_is(
    askers: Sequence[tuple[str, int]], total: int
) -> None:
    concurrency = dict(askers)
    names = [name for name, _ in askers]
    host = host_of([(name, concurrency[name]) for name in names], total)
    shares = [told(host, f"{place}-a", name, concurrency[name], total) for place, name in enumerate(names)]
    by_map = dict.fromkeys(names, 0)
    for share, name in zip(shares, names, strict=True):
        by_map[name] += share
    assert all(by_map[name] <= concurrency[name] for name in names)
    assert sum(shares) == min(total, sum(concurrency.values()))
    for share, name in zip(shares, names, strict=True):
        # Whoever has less than another by more than one has all that its map allows it.
        most = -(-concurrency[name] // names.count(name))
        assert share >= most - 1 or all(other <= share + 1 for other in shares)


def test_what_is_kept_can_be_read_again() -> None:
    host = host_of([("world", 3), ("other", 2)], 4)
    account = Account("world", 2, True, 3, Spent(1, 2, 3.0))
    own = host.tell("0-a", account, NOW)
    host.begin(own, Budget(requests=9, received_bytes=8, seconds=7.0))
    host.take_starts(own, 2, now=NOW, random=lambda: 0.5)
    assert msgspec.json.decode(msgspec.json.encode(host), type=Host) == host


def test_starts_are_given_back_unless_others_have_taken_later_ones() -> None:
    host, pace = Host(), Pace("map.example.net", 32, Gap.of_rate(2.0))
    own = host.tell("1-a", Account("world"), NOW)
    host.limit(own, pace)
    host.take_starts(own, 1, now=NOW, random=lambda: 0.5)
    before = host.turns(own)
    starts, _ = host.take_starts(own, 3, now=NOW, random=lambda: 0.5)
    host.give_back(own, starts, before)
    assert host.next_start(own) == starts[0]
    starts, _ = host.take_starts(own, 3, now=NOW, random=lambda: 0.5)
    other = host.tell("2-a", Account("world"), NOW)
    _, following = host.take_starts(other, 1, now=NOW, random=lambda: 0.5)
    host.give_back(own, starts, before)
    assert host.next_start(own) == following


def test_maps_that_are_asked_no_more_are_forgotten() -> None:
    host = host_of([("world", 3), ("other", 2)], 4)
    host.take_starts(host.processes[0], 1, now=NOW, random=lambda: 0.5)
    host.settle(NOW, ["0-a", "1-a"])
    assert [*host.maps] == ["world"]
    host.settle(NOW + LONGEST, [])
    assert host == Host(written=NOW + LONGEST, own=host.own)


def test_when_the_clock_is_set_back_no_time_before_it_counts() -> None:
    host = host_of([("world", 3)], 4)
    host.maps["world"].gap = Gap.of(1.0)
    host.take_starts(host.processes[0], 1, now=NOW, random=lambda: 0.5)
    host.rest(5 * NOW)
    host.settle(NOW - 10, [])
    assert (host.maps["world"].next_start, host.rests_until) == (NOW + 1, 5 * NOW)
    host.settle(10.0, [])
    assert (host.maps["world"].next_start, host.rests_until, len(host.processes)) == (0.0, 0.0, 1)


def test_what_a_process_has_spent_that_ended_counts_until_the_last_one_ends() -> None:
    host = host_of([("world", 3), ("world", 3)], None)
    for process, seconds in (("0-a", 5.0), ("1-a", 3.0)):
        account = Account("world", spent=Spent(4, 10, seconds))
        host.begin(host.tell(process, account, NOW), Budget(requests=9))
    host.settle(NOW, ["0-a"])
    assert host.spent("world") == Spent(8, 20, 5.0)
    assert host.spent("world", but="1-a") == Spent(4, 10, 5.0)
    assert host.spend(host.tell("1-a", Account("world", spent=Spent(4, 10, 3.0)), NOW))
    assert not host.spend(host.tell("1-a", Account("world", spent=Spent(5, 10, 3.0)), NOW))
    host.settle(NOW, ["1-a"])
    assert host.spent("world") == Spent()
