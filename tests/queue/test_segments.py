"""Segments against dates known from elsewhere: the days on which these places changed their clocks."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.errors import ConfigurationError
from tileharvest.queue.segments import Segment, parse_resolver

BERLIN = ZoneInfo("Europe/Berlin")
STARTED = datetime(2026, 11, 20, 13, 5, 7, 89, tzinfo=UTC)

zones = st.sampled_from(sorted(available_timezones())).map(ZoneInfo)
moments = st.floats(-170, 230).map(
    lambda years: datetime(1970, 1, 1, tzinfo=UTC) + years * timedelta(days=365.25)
)
divisions = st.sampled_from(["day", "hour", "week"]) | st.builds(
    "every:{}{}".format, st.integers(1, 9999), st.sampled_from("hdw")
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("zone", "day", "begins", "ends"),
    [
        ("Europe/Berlin", "2026-11-20", "2026-11-19T23:00Z", "2026-11-20T23:00Z"),
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),  # 23 hours
        ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),  # 25 hours
        ("Asia/Kathmandu", "1986-01-01", "1985-12-31T18:30Z", "1986-01-01T18:15Z"),  # +05:30 to +05:45
        ("Pacific/Apia", "2011-12-29", "2011-12-29T10:00Z", "2011-12-30T10:00Z"),  # and no 30th
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00Z", "2011-12-31T10:00Z"),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00Z", "2018-11-05T02:00Z"),  # no 00:00
        ("America/Havana", "2026-11-01", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),  # 00:00 twice
        ("America/St_Johns", "2010-11-07", "2010-11-07T02:30Z", "2010-11-08T03:30Z"),  # 00:01 to 23:01
    ],
)
def test_day_lasts_from_local_midnight_to_local_midnight(zone, day, begins, ends):
    expected = Segment(day, at(begins), at(ends))
    for moment in (at(begins), at(begins) + timedelta(hours=1), at(ends) - timedelta(microseconds=1)):
        assert parse_resolver("day", ZoneInfo(zone), STARTED)(moment) == expected


@pytest.mark.parametrize(
    ("day", "week", "monday"),
    [  # as the calendars of these years print them
        ("2026-11-20", "2026-W47", "2026-11-16"),
        ("2026-01-01", "2026-W01", "2025-12-29"),
        ("2021-01-03", "2020-W53", "2020-12-28"),
        ("2024-12-30", "2025-W01", "2024-12-30"),
    ],
)
def test_week_is_that_of_the_iso_calendar_and_begins_on_monday(day, week, monday):
    found = parse_resolver("week", BERLIN, STARTED)(at(f"{day}T12:00Z"))
    assert (found.name, found.begins) == (week, datetime.fromisoformat(monday).replace(tzinfo=BERLIN))


@pytest.mark.parametrize(
    ("division", "name", "begins", "ends"),
    [
        ("hour", "2026-11-20T13Z", "2026-11-20T13:00Z", "2026-11-20T14:00Z"),
        ("every:3d", "every-3d-2026-11-19", "2026-11-19T00:00+01:00", "2026-11-22T00:00+01:00"),
        ("every:2w", "every-2w-2026-11-09", "2026-11-09T00:00+01:00", "2026-11-23T00:00+01:00"),
        ("every:6h", "every-6h-2026-11-20T12Z", "2026-11-20T12:00Z", "2026-11-20T18:00Z"),
    ],
)
def test_interval_is_named_by_its_beginning(division, name, begins, ends):
    expected = Segment(name, at(begins).astimezone(UTC), at(ends).astimezone(UTC))
    assert parse_resolver(division, BERLIN, STARTED)(at("2026-11-20T13:00Z")) == expected


def test_each_run_is_one_segment_without_end_and_of_its_own():
    resolver = parse_resolver("run", BERLIN, STARTED)
    expected = Segment("run-20261120T130507.000089Z", STARTED, None)
    assert {resolver(STARTED + timedelta(days=days)) for days in (0, 1, 1000)} == {expected}
    later = STARTED + timedelta(microseconds=1)
    assert parse_resolver("run", BERLIN, later)(later) != expected


@given(divisions, zones, moments, st.floats(0, 1, exclude_max=True))
def test_segments_follow_each_other_and_hold_the_moments_that_are_mapped_to_them(
    division, zone, moment, share
):
    resolver = parse_resolver(division, zone, STARTED)
    found = resolver(moment)
    assert found.begins <= moment < found.ends
    other = min(found.begins + (found.ends - found.begins) * share, found.ends - timedelta(microseconds=1))
    later = parse_resolver(division, zone, STARTED + timedelta(days=3))
    assert later(other) == found
    following = resolver(found.ends)
    assert following.begins == found.ends
    assert following.name != found.name


@pytest.mark.parametrize(
    "text", ["", "every:3d ", "daily", "Day", "every:", "every:0d", "every:3x", "every:03d", "every:10000d"]
)
def test_unknown_division_is_refused_with_examples(text):
    with pytest.raises(ConfigurationError, match=r"every:3d, every:6h or every:2w") as refusal:
        parse_resolver(text, BERLIN, STARTED)
    assert f"'{text}'" in str(refusal.value)
