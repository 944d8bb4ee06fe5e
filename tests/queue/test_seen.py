"""The filter forgets nothing, errs rarely, stays small and grows in time."""

import hashlib
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.queue.seen_filter import SeenFilter


def fingerprints(first: int, last: int) -> list[bytes]:
    return [hashlib.sha1(str(number).encode()).digest() for number in range(first, last)]


@given(st.lists(st.binary(min_size=20, max_size=20)))
def test_what_was_added_is_never_called_new_again(keys):
    seen = SeenFilter(100)
    for key in keys:
        seen.add(key)
    assert all(seen.add(key) for key in keys)


def test_nothing_is_forgotten_while_it_grows():
    seen, keys = SeenFilter(1_000), fingerprints(0, 10_000)
    for key in keys:
        seen.add(key)
    assert all(seen.add(key) for key in keys)


def test_new_is_called_new():
    seen = SeenFilter(5_000)
    assert not any(seen.add(key) for key in fingerprints(0, 5_000))


def test_it_errs_less_often_than_it_may_though_it_grows():
    seen = SeenFilter(1_000, error_rate=0.01)
    wrong = sum(seen.add(key) for key in fingerprints(0, 20_000))
    assert 0 < wrong < 200


def test_length_counts_each_once():
    seen = SeenFilter(100)
    for key in fingerprints(0, 70) * 2:
        seen.add(key)
    assert len(seen) == 70


def test_full_filter_takes_at_most_eight_bytes_for_each_expected():
    assert SeenFilter(1_000_000).memory_bytes <= 8 * 1_000_000


def test_grown_filter_takes_at_most_eight_bytes_for_each_seen():
    shares = []
    seen, size = SeenFilter(1_500), 0
    for key in fingerprints(0, 45_000):
        seen.add(key)
        if seen.memory_bytes > size:
            size = seen.memory_bytes
            shares.append(size / max(1_500, len(seen)))
    assert len(shares) >= 5
    assert max(shares) <= 8


def test_it_warns_once_for_each_growth_with_the_numbers(caplog):
    seen = SeenFilter(1_000)
    for key in fingerprints(0, 1_000):
        seen.add(key)
    assert not caplog.messages
    for key in fingerprints(0, 1_100):
        seen.add(key)
    (line,) = caplog.messages
    for number in ("1000 were expected", "1000 seen", "1050 more", f"{seen.memory_bytes} bytes"):
        assert number in line


def test_what_was_seen_does_not_make_it_grow(caplog):
    seen = SeenFilter(1_000)
    for key in fingerprints(0, 1_000) * 2:
        seen.add(key)
    assert not caplog.messages


def test_growth_is_logged_where_nobody_asks_for_it(caplog):
    seen = SeenFilter(1_000)
    for key in fingerprints(0, 1_001):
        seen.add(key)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("expected", [0, -1])
def test_filter_for_nothing_is_refused(expected):
    with pytest.raises(ValueError, match="full at once"):
        SeenFilter(expected)


@pytest.mark.parametrize("rate", [0, 1, -0.5, float("nan")])
def test_error_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="no probability"):
        SeenFilter(10, rate)
