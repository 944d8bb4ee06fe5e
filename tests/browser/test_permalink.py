"""Addresses: what is written can be read again, by us and by everybody, and nothing wrong gets in."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

MODULE = "permalink.js"
MODES = ["one", "swipe", "side", "onion", "difference"]

days = st.dates(date(1, 1, 1), date(9999, 12, 31)).map(date.isoformat)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
tenths = st.integers(-9_999_999_999, 9_999_999_999).map(lambda tenth: tenth / 10)
ranges = st.tuples(days, days).map(sorted).map(lambda both: dict(zip(("after", "until"), both, strict=True)))
looks = st.builds(
    lambda place, rest: {**rest, "x": place and place[0], "z": place and place[1]},
    st.none() | st.tuples(tenths, tenths),
    st.fixed_dictionaries(
        {
            "map": st.none() | names,
            "layer": st.none() | names,
            "day": st.none() | days,
            "other": st.none() | days,
            "mode": st.sampled_from(MODES),
            "heat": st.none() | ranges,
            "zoom": st.none() | st.integers(-30, 2),
        }
    ),
)


@given(st.lists(looks, min_size=10, max_size=40))
@settings(max_examples=25)
def test_what_is_written_is_read_again(call: Call, shown: list[dict[str, Any]]) -> None:
    written = call(MODULE, "writeHash", [[look] for look in shown])
    usual = {"mode": "one"}
    said = [
        {key: value for key, value in look.items() if value is not None and usual.get(key) != value}
        for look in shown
    ]
    assert call(MODULE, "readHash", [[hash_] for hash_ in written]) == said


@pytest.mark.parametrize(
    ("hash_", "said"),
    [
        ("", {}),
        ("#", {}),
        ("#harvests", {}),
        ("#/-220/64/-89/-2/world/day", {}),
        ("https://example.net/#map=a", {"map": "a"}),
        ("map=a&unknown=1&map=b", {"map": "a"}),
        ("#map=&layer=", {}),
        ("#map=%zz&layer=%e4", {"map": "%zz", "layer": "\ufffd"}),
        ("#day=2021-02-29&with=2020-02-29", {"other": "2020-02-29"}),
        ("#day=2021-2-3&with=20210203", {}),
        ("#day=2021-13-01&with=2021-01-32", {}),
        ("#x=1&z=2", {"x": 1, "z": 2}),
        ("#x=1.25&z=-2.04", {"x": 1.25, "z": -2.04}),
        ("#x=1", {}),
        ("#x=8.5417694&z=-0.0000004", {"x": 8.541769, "z": 0}),
        ("#x=1&z=two", {}),
        ("#x=1e3&z=Infinity", {}),
        ("#x=1&z=99999999999", {}),
        ("#zoom=2", {"zoom": 2}),
        ("#zoom=3", {}),
        ("#zoom=-31", {}),
        ("#zoom=-1.5", {"zoom": -1.5}),
        ("#zoom=-1.125", {}),
        ("#mode=one", {"mode": "one"}),
        ("#mode=constructor", {}),
        ("#heat=2021-02-13..2021-05-12", {"heat": {"after": "2021-02-13", "until": "2021-05-12"}}),
        ("#heat=2021-05-12..2021-02-13", {}),
        ("#heat=2021-02-13", {}),
        ("#heat=2021-02-13..2021-05-12..2021-05-13", {}),
        ("#__proto__=1&map=a", {"map": "a"}),
    ],
)
def test_what_cannot_be_is_left_out(call: Call, hash_: str, said: dict[str, Any]) -> None:
    assert call(MODULE, "readHash", [[hash_]]) == [said]


@pytest.mark.parametrize(
    ("hash_", "unread"),
    [
        ("#map=a&layer=b&day=2021-02-13&with=2021-02-16&mode=swipe&x=1&z=2&zoom=-1", {}),
        ("#unknown=1&map=&layer=", {}),
        ("#/-220/64/-89/-2/world/day", {}),
        ("#day=yesterday&with=2021-02-30", {"day": "yesterday", "with": "2021-02-30"}),
        ("#mode=upside-down", {"mode": "upside-down"}),
        ("#heat=always&zoom=99", {"heat": "always", "zoom": "99"}),
        ("#x=here&z=there", {"x": "here", "z": "there"}),
        ("#x=1", {"x": "1"}),
        ("#day=", {"day": ""}),
    ],
)  # fmt: skip
def test_what_is_left_out_can_be_told(call: Call, hash_: str, unread: dict[str, str]) -> None:
    assert call(MODULE, "unreadIn", [[hash_]]) == [unread]
