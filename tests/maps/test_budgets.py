"""Budgets and sizes."""

from __future__ import annotations

import pytest

from tileharvest.maps.budgets import Budget, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2 GB", 2_000_000_000),
        ("500MB", 500_000_000),
        ("1.5 kB", 1500),
        (" 12 ", 12),
        (7, 7),
        ("3 B", 3),
        ("1 TB", 10**12),
        ("999999 TB", 999999 * 10**12),
    ],
)
def test_a_size_is_in_powers_of_1000(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "GB", "2 GiB", "2 gb", "-1 MB", "1e3", "2 MB 3", "1000000 TB", "9" * 400]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write for example"):
        parse_size(text)


@pytest.mark.parametrize("limits", [{"requests": 0}, {"received_bytes": -1}, {"seconds": 0.0}])
def test_a_budget_that_allows_nothing_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="allows nothing"):
        Budget(**limits)


def test_a_budget_without_limits_is_false() -> None:
    assert not Budget()
    assert Budget(seconds=1.0)


@pytest.mark.parametrize(
    ("part", "words"),
    [("requests", "1 request"), ("bytes", "2.0 MB"), ("seconds", "90 s")],
)
def test_a_limit_is_told_in_words(part: str, words: str) -> None:
    assert Budget(requests=1, received_bytes=2_000_000, seconds=90.0).in_words(part) == words
    assert Budget().in_words(part) == part


def test_many_requests_are_told_in_groups_of_three_digits() -> None:
    assert Budget(requests=12000).in_words("requests") == "12,000 requests"
