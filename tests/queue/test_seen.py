"""The filter forgets nothing, errs rarely, stays small and grows in time."""

import hashlib

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


def test_it_errs_less_often_than_it_may_and_forgets_nothing_though_it_grows():
    seen, keys = SeenFilter(1_000, error_rate=0.01), fingerprints(0, 20_000)
    assert 0 < sum(seen.add(key) for key in keys) < 200
    assert all(seen.add(key) for key in keys)
