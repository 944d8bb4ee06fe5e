"""Gaps between requests, and how people write them."""

from __future__ import annotations

import random

import pytest

from tileharvest.maps.rates import NO_GAP, Gap, parse_rate, rate_in_words


@pytest.mark.parametrize(
    ("written", "gap"), [(0.5, Gap(0.5, 0.5)), (2, Gap(2.0, 2.0)), ([0.2, 0.8], Gap(0.2, 0.8)), (0, NO_GAP)]
)
def test_a_gap_is_one_number_or_two(written: float | list[float], gap: Gap) -> None:
    assert Gap.of(written) == gap


@pytest.mark.parametrize("written", [-1, [0.8, 0.2], [1], [1, 2, 3], float("nan"), float("inf"), 90_000])
def test_what_is_no_time_to_wait_is_refused(written: float | list[float]) -> None:
    with pytest.raises(
        ValueError, match=r"is no time to wait: write seconds.*, such as 0\.5 or \[0\.2, 0\.8\]"
    ):
        Gap.of(written)


def test_random_gaps_fill_their_range_evenly() -> None:
    source, gap = random.Random(11), Gap(0.2, 0.8)
    drawn = [gap.draw(source.random()) for _ in range(10_000)]
    assert all(0.2 <= one <= 0.8 for one in drawn)
    quarters = [sum(lower <= one < lower + 0.15 for one in drawn) for lower in (0.2, 0.35, 0.5, 0.65)]
    assert all(abs(quarter - 2500) < 250 for quarter in quarters)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2/s", 0.5), ("30/min", 2.0), (" 0.5 / s ", 2.0), ("100/h", 36.0), ("1.5/min", 40.0)],
)
def test_a_rate_is_so_many_requests_per_time(text: str, seconds: float) -> None:
    assert parse_rate(text) == Gap(seconds, seconds)


@pytest.mark.parametrize(
    "text", ["", "2", "0/s", "-1/s", "2/d", "1/week", "fast", "1e3/s", "2/s2", "\u0662/s"]
)
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 2/s, 30/min or 100/h"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["2/s", "30/min", "12.5/s", "1,000/s"])
def test_a_rate_is_told_as_it_was_written(text: str) -> None:
    assert rate_in_words(parse_rate(text.replace(",", ""))) == text


@pytest.mark.parametrize(
    ("gap", "text"),
    [(NO_GAP, "as fast as it goes"), (Gap(0.0, 1.0), "2/s"), (Gap(7200.0, 7200.0), "0.5/h")],
)
def test_a_gap_is_told_as_the_rate_over_many_requests(gap: Gap, text: str) -> None:
    assert rate_in_words(gap) == text


def test_of_two_gaps_both_are_kept() -> None:
    assert Gap(0.2, 0.8).at_least(Gap(0.5, 0.5)) == Gap(0.5, 0.8)
    assert Gap(0.2, 0.8).at_least(Gap(1.0, 1.0)) == Gap(1.0, 1.0)
