"""Quiet hours: at which times they hold, and when they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.maps.quiet_hours import QuietHours, is_whole_day, quiet_until

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("hours", "moment", "end"),
    [
        ("18:00-23:00", "2026-11-20T17:59:59", None),
        ("18:00-23:00", "2026-11-20T18:00", "2026-11-20T23:00"),
        ("18:00-23:00", "2026-11-20T22:59:59", "2026-11-20T23:00"),
        ("18:00-23:00", "2026-11-20T23:00", None),
        ("22:00-06:30", "2026-11-20T23:00", "2026-11-21T06:30"),
        ("22:00-06:30", "2026-11-20T03:00", "2026-11-20T06:30"),
        ("22:00-06:30", "2026-12-31T22:00", "2027-01-01T06:30"),
        ("22:00-06:30", "2026-11-20T12:00", None),
        ("18:00-24:00", "2026-11-20T19:00", "2026-11-21T00:00"),
    ],
)
def test_the_first_minute_is_quiet_and_the_last_is_not(hours: str, moment: str, end: str | None) -> None:
    assert QuietHours.parse(hours).until(at(moment)) == (None if end is None else at(end))


def test_quiet_hours_that_touch_are_one(  # as 18:00-24:00 and 00:00-06:00
) -> None:
    hours = [QuietHours.parse("00:00-06:00"), QuietHours.parse("18:00-24:00")]
    assert quiet_until(hours, at("2026-11-20T19:00")) == at("2026-11-21T06:00")


@pytest.mark.parametrize(
    ("hours", "is_whole"),
    [
        ([], False),
        (["06:00-05:59"], False),
        (["00:00-12:00", "12:00-24:00"], True),
        (["12:00-06:00", "05:00-13:00"], True),
        (["08:00-16:00", "00:00-08:00", "16:00-00:01"], True),
        (["08:00-16:00", "00:00-07:59", "16:00-00:01"], False),
    ],
)
def test_several_quiet_hours_may_be_the_whole_day(hours: list[str], is_whole: bool) -> None:
    assert is_whole_day(map(QuietHours.parse, hours)) is is_whole


def test_a_day_that_is_quiet_throughout_has_an_end_to_look_again_at() -> None:
    hours = [QuietHours.parse("00:00-12:00"), QuietHours.parse("12:00-24:00")]
    end = quiet_until(hours, at("2026-11-20T19:00"))
    assert end is not None
    assert end - at("2026-11-20T19:00") < timedelta(days=4)


def test_in_the_night_of_the_clock_change_quiet_ends_by_the_clock_on_the_wall() -> None:
    # In Berlin 2026-10-25 has two hours from 2 to 3: seven hours of quiet from 22 to 4.
    end = QuietHours.parse("22:00-04:00").until(at("2026-10-24T22:00"))
    assert end is not None
    assert end.astimezone(UTC) - at("2026-10-24T22:00").astimezone(UTC) == timedelta(hours=7)


def test_in_the_hour_that_comes_twice_quiet_ends_in_the_future_both_times() -> None:
    hours = [QuietHours.parse("22:00-02:30")]
    for fold in (0, 1):
        moment = at("2026-10-25T02:15").replace(fold=fold)
        end = quiet_until(hours, moment)
        assert end is not None
        assert end.astimezone(UTC) - moment.astimezone(UTC) == timedelta(minutes=15)


@pytest.mark.parametrize(
    "text", ["", "18-23", "18:00", "25:00-01:00", "18:00-18:00", "18:60-19:00", "24:00-01:00"]
)
def test_what_are_no_hours_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write for example 18:00-23:00|no part of a day"):
        QuietHours.parse(text)


@given(
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001
)
def test_a_moment_is_quiet_exactly_where_counting_minutes_says_so(
    begin: int, end: int, moment: datetime
) -> None:
    if begin == end:
        return
    hours = QuietHours.parse(f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}")
    minute = moment.hour * 60 + moment.minute
    # All minutes from the beginning on, around the clock, until the end.
    quiet = {(begin + more) % 1440 for more in range((end - begin) % 1440)}
    found = hours.until(moment.replace(tzinfo=UTC))
    assert (found is not None) == (minute in quiet)
    if found is not None:
        assert moment.replace(tzinfo=UTC) < found <= moment.replace(tzinfo=UTC) + timedelta(days=1)
        assert (found.hour, found.minute) == divmod(end, 60)
