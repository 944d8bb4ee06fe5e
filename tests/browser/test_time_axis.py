"""The part of the time that the slider shows: it never leaves the history, and what is written fits."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

MODULE = "time-axis.js"
EPOCH = date(1970, 1, 1)


def number(day: date) -> int:
    return (day - EPOCH).days


@st.composite
def spans(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int], int]:
    """A part of a history's time, all of it, and a day in the part."""
    first, last = sorted(draw(st.tuples(st.integers(0, 30_000), st.integers(0, 30_000))))
    left, right = sorted(draw(st.tuples(st.integers(first, last), st.integers(first, last))))
    return {"from": left, "to": right}, {"from": first, "to": last}, draw(st.integers(left, right))


@given(st.lists(st.tuples(spans(), st.integers(-3, 3)), min_size=20, max_size=60))
@settings(max_examples=10)
def test_a_nearer_or_farther_span_lies_in_the_history_and_keeps_the_day_in_view(
    call: Call, cases: list[Any]
) -> None:
    found = call(MODULE, "nearer", [[span, whole, at, turns] for (span, whole, at), turns in cases])
    for ((span, whole, at), turns), now in zip(cases, found, strict=True):
        assert whole["from"] <= now["from"] <= now["to"] <= whole["to"]
        assert now["from"] - 1 <= at <= now["to"] + 1
        longer = (now["to"] - now["from"]) - (span["to"] - span["from"])
        assert longer <= 0 if turns > 0 and span["to"] - span["from"] >= 7 else True
        assert longer >= 0 if turns < 0 else True


@given(st.lists(st.tuples(spans(), st.integers(0, 30_000)), min_size=20, max_size=60))
@settings(max_examples=10)
def test_a_span_moves_to_a_day_of_the_history_with_its_length(call: Call, cases: list[Any]) -> None:
    asked = [(span, min(max(day, whole["from"]), whole["to"]), whole) for (span, whole, _), day in cases]
    for (span, day, whole), now in zip(
        asked, call(MODULE, "including", [[*each] for each in asked]), strict=True
    ):
        assert now["from"] <= day <= now["to"]
        assert now["to"] - now["from"] == span["to"] - span["from"]
        assert whole["from"] <= now["from"]
        assert now["to"] <= whole["to"]


@pytest.mark.parametrize(
    ("first", "days", "width", "labels"),
    [
        (date(2021, 2, 13), 4, 600, {date(2021, 2, 13): "day", date(2021, 2, 16): "day"}),
        (date(2021, 2, 13), 89, 700, {date(2021, 3, 1): "month", date(2021, 5, 1): "month"}),
        (date(2020, 11, 5), 200, 700, {date(2020, 12, 1): "month", date(2021, 1, 1): "year"}),
        (date(2010, 6, 1), 365 * 12, 700, {date(2011, 1, 1): "year", date(2022, 1, 1): "year"}),
        (date(1990, 6, 1), 365 * 40, 300, {date(2000, 1, 1): "year", date(2020, 1, 1): "year"}),
    ],
)  # fmt: skip
def test_years_months_and_days_are_written_as_there_is_room(
    call: Call, first: date, days: int, width: int, labels: dict[date, str]
) -> None:
    span = {"from": number(first), "to": number(first) + days - 1}
    (found,) = call(MODULE, "labelsOf", [[span, width]])
    units = {EPOCH + timedelta(days=label["day"]): label["unit"] for label in found}
    assert units.items() >= labels.items()
    assert len(found) <= width / 50
    assert all(first <= day < first + timedelta(days=days) for day in units)
