"""Which of several maps begins first."""

from __future__ import annotations

from tileharvest.harvest.due import longest_first
from tileharvest.history.costs import Cost
from tileharvest.maps.rates import NO_GAP, Gap
from tileharvest.politeness.rules import Rules


def rules(host: str, per_second: float | None = None, of_host: float | None = None) -> Rules:
    gap = NO_GAP if per_second is None else Gap.of_rate(per_second)
    return Rules(host, 4, gap=gap, host_gap=NO_GAP if of_host is None else Gap.of_rate(of_host))


def test_the_map_that_takes_longest_by_its_limit_comes_first() -> None:
    maps = {"short": rules("a", 10), "slow": rules("b", 1), "long": rules("c", 10)}
    costs = {"short": Cost(100), "slow": Cost(200), "long": Cost(1_000)}
    assert longest_first(maps, costs) == ["slow", "long", "short"]


def test_without_a_limit_it_takes_as_long_as_last_time() -> None:
    maps = {"quick": rules("a"), "limited": rules("b", 10), "long": rules("c")}
    costs = {"quick": Cost(10_000, seconds=5), "limited": Cost(100), "long": Cost(10, seconds=50)}
    assert longest_first(maps, costs) == ["long", "limited", "quick"]


def test_a_map_that_was_never_harvested_comes_first() -> None:
    maps = {"known": rules("a", 1), "new": rules("b"), "newer": rules("c")}
    assert longest_first(maps, {"known": Cost(1_000_000)}) == ["new", "newer", "known"]


def test_the_maps_of_one_host_take_as_long_as_all_of_them_together() -> None:
    maps = {"alone": rules("a", 10), "one": rules("b", 10, 10), "two": rules("b", 10, 10)}
    costs = {"alone": Cost(150), "one": Cost(100), "two": Cost(100)}
    assert longest_first(maps, costs) == ["one", "two", "alone"]


def test_the_cost_of_a_map_that_is_not_harvested_does_not_matter() -> None:
    assert longest_first({"one": rules("b", 10)}, {"other": Cost(5)}) == ["one"]
