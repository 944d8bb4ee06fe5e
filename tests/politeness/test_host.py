"""What one of several processes may expect of a host, and when it asks again."""

from __future__ import annotations

import pytest

from tileharvest.maps.rates import Gap
from tileharvest.politeness.host import HORIZON, Host, Limits, Process, Standing, stand
from tileharvest.politeness.pace import Pace

NOW = 1000.0


def standing(*, share: int = 1, rests_until: float | None = None, askers: int = 1) -> Standing:
    return Standing(share, 0, rests_until, 0.0, askers, has_gap=True)


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


def test_what_cannot_be_shared_evenly_is_for_who_came_first() -> None:
    first, second = Process("1-a.alive", "world", 3), Process("2-b.alive", "world", 3)
    host = Host(limits=Limits(None, Gap.of(0)), processes=[first, second])
    pace = Pace("map.example.net", 3)
    shares = [stand(host, one, pace, in_flight=0, wanted=0, now=NOW).share for one in (first, second)]
    assert shares == [2, 1]
