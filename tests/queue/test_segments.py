"""Segments against dates known from elsewhere: the days on which these places changed their clocks."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.errors import ConfigurationError
from tileharvest.queue.segments import Segment, parse_resolver

BERLIN = ZoneInfo("Europe/Berlin")
APIA = ZoneInfo("Pacific/Apia")
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


def segment(division: str, moment: str, zone: str = "Europe/Berlin") -> Segment:
    return parse_resolver(division, ZoneInfo(zone), STARTED).segment_at(None, at(moment))


def names(division: str, zone: str, begins: str, ends: str) -> list[str]:
    """The segments met on a walk from the first moment to the second, in steps of a minute."""
    resolver = parse_resolver(division, ZoneInfo(zone), STARTED)
    minutes = int((at(ends) - at(begins)) / timedelta(minutes=1))
    met = [
        resolver.segment_at(None, at(begins) + timedelta(minutes=minute)).name for minute in range(minutes)
    ]
    return met[:1] + [after for before, after in pairwise(met) if before != after]


@pytest.mark.parametrize(
    ("zone", "day", "begins", "ends"),
    [
        ("Europe/Berlin", "2026-11-20", "2026-11-19T23:00Z", "2026-11-20T23:00Z"),
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),  # 23 hours
        ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),  # 25 hours
        ("America/New_York", "2026-03-08", "2026-03-08T05:00Z", "2026-03-09T04:00Z"),  # 23 hours
        ("America/New_York", "2026-11-01", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),  # 25 hours
        ("Asia/Kathmandu", "2026-11-20", "2026-11-19T18:15Z", "2026-11-20T18:15Z"),
        ("Asia/Kathmandu", "1986-01-01", "1985-12-31T18:30Z", "1986-01-01T18:15Z"),  # +05:30 to +05:45
        ("Pacific/Apia", "2011-12-29", "2011-12-29T10:00Z", "2011-12-30T10:00Z"),
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00Z", "2011-12-31T10:00Z"),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00Z", "2018-11-05T02:00Z"),  # no 00:00
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30Z", "1919-04-01T04:00Z"),  # 23:30 to 00:30
        ("America/Havana", "2026-11-01", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),  # 00:00 twice
        ("America/St_Johns", "2010-11-07", "2010-11-07T02:30Z", "2010-11-08T03:30Z"),  # 00:01 to 23:01
    ],
)
def test_day_lasts_from_local_midnight_to_local_midnight(zone, day, begins, ends):
    expected = Segment(day, at(begins), at(ends))
    for moment in (at(begins), at(begins) + timedelta(hours=1), at(ends) - timedelta(microseconds=1)):
        assert parse_resolver("day", ZoneInfo(zone), STARTED).segment_at(None, moment) == expected


def test_day_that_apia_skipped_has_no_segment():
    assert names("day", "Pacific/Apia", "2011-12-29T10:00Z", "2011-12-31T10:00Z") == [
        "2011-12-29",
        "2011-12-31",
    ]


def test_day_that_newfoundland_set_back_goes_on():
    met = names("day", "America/St_Johns", "2010-11-06T12:00Z", "2010-11-07T12:00Z")
    assert met == ["2010-11-06", "2010-11-07"]


def test_moment_may_be_given_in_any_zone():
    assert segment("day", "2026-11-20T08:30+09:00").name == "2026-11-20"
    assert segment("day", "2026-11-20T07:30+09:00").name == "2026-11-19"


def test_both_hours_that_the_clocks_show_twice_lie_in_their_day():
    resolver = parse_resolver("day", BERLIN, STARTED)
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    assert {resolver.segment_at(None, twice.replace(fold=fold)).name for fold in (0, 1)} == {"2026-10-25"}


def test_hour_is_named_with_its_offset():
    expected = Segment("2026-11-20T13+01:00", at("2026-11-20T12:00Z"), at("2026-11-20T13:00Z"))
    assert segment("hour", "2026-11-20T12:34:56.789Z") == expected


def test_repeated_hour_is_two_segments():
    assert names("hour", "Europe/Berlin", "2026-10-24T23:00Z", "2026-10-25T03:00Z") == [
        "2026-10-25T01+02:00",
        "2026-10-25T02+02:00",
        "2026-10-25T02+01:00",
        "2026-10-25T03+01:00",
    ]


def test_skipped_hour_has_no_segment():
    met = names("hour", "Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T02:00Z")
    assert met == ["2026-03-29T01+01:00", "2026-03-29T03+02:00"]


def test_hour_of_a_zone_between_hours_begins_at_its_own_full_hour():
    expected = Segment("2026-11-20T13+05:45", at("2026-11-20T07:15Z"), at("2026-11-20T08:15Z"))
    assert segment("hour", "2026-11-20T08:00Z", "Asia/Kathmandu") == expected


def test_shift_by_half_an_hour_cuts_an_hour_short():
    # Lord Howe Island sets its clocks from 02:00 (+11) back to 01:30 (+10:30).
    expected = Segment("2026-04-05T01+10:30", at("2026-04-04T15:00Z"), at("2026-04-04T15:30Z"))
    assert segment("hour", "2026-04-04T15:10Z", "Australia/Lord_Howe") == expected


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
    found = segment("week", f"{day}T12:00Z")
    assert (found.name, found.begins) == (week, datetime.fromisoformat(monday).replace(tzinfo=BERLIN))


def test_week_with_the_end_of_summer_time_has_169_hours():
    found = segment("week", "2026-10-25T12:00Z")
    assert found.ends - found.begins == timedelta(hours=169)


@pytest.mark.parametrize(
    ("division", "name", "begins", "ends"),
    [
        ("every:3d", "every-3d-2026-11-19", "2026-11-19T00:00+01:00", "2026-11-22T00:00+01:00"),
        ("every:1d", "every-1d-2026-11-20", "2026-11-20T00:00+01:00", "2026-11-21T00:00+01:00"),
        ("every:2w", "every-2w-2026-11-09", "2026-11-09T00:00+01:00", "2026-11-23T00:00+01:00"),
        ("every:6h", "every-6h-2026-11-20T12Z", "2026-11-20T12:00Z", "2026-11-20T18:00Z"),
    ],
)
def test_interval_is_named_by_its_beginning(division, name, begins, ends):
    assert segment(division, "2026-11-20T13:00Z") == Segment(
        name, at(begins).astimezone(UTC), at(ends).astimezone(UTC)
    )


@given(st.integers(1, 500), st.integers(0, 20_000))
def test_days_of_intervals_are_counted_from_the_first_monday_of_1970(length, days):
    moment = datetime(1970, 1, 5, 12, tzinfo=UTC) + timedelta(days=days)
    found = parse_resolver(f"every:{length}d", ZoneInfo("UTC"), STARTED).segment_at(None, moment)
    assert found.begins == datetime(1970, 1, 5, tzinfo=UTC) + timedelta(days=days - days % length)


@given(st.integers(1, 500), st.integers(0, 2_000_000_000))
def test_hours_of_intervals_are_counted_from_the_unix_epoch(length, seconds):
    moment = datetime.fromtimestamp(seconds, UTC)
    found = parse_resolver(f"every:{length}h", BERLIN, STARTED).segment_at(None, moment)
    assert found.begins.timestamp() == seconds // (length * 3600) * (length * 3600)


def test_interval_does_not_depend_on_the_start_of_the_run():
    moment = at("2026-11-20T13:00Z")
    found = {
        parse_resolver("every:5d", BERLIN, STARTED + timedelta(days=n)).segment_at(None, moment)
        for n in range(9)
    }
    assert len(found) == 1


def test_run_is_one_segment_without_end():
    resolver = parse_resolver("run", BERLIN, STARTED)
    expected = Segment("run-20261120T130507.000089Z", STARTED, None)
    assert {resolver.segment_at(None, STARTED + timedelta(days=days)) for days in (0, 1, 1000)} == {expected}


def test_each_run_has_a_segment_of_its_own():
    later = STARTED + timedelta(microseconds=1)
    assert (
        len({parse_resolver("run", BERLIN, start).segment_at(None, later).name for start in (STARTED, later)})
        == 2
    )


@given(divisions, zones, moments)
def test_every_moment_lies_in_the_segment_it_is_mapped_to(division, zone, moment):
    found = parse_resolver(division, zone, STARTED).segment_at(None, moment)
    assert found.begins <= moment < found.ends


@given(divisions, zones, moments, st.floats(0, 1, exclude_max=True))
def test_all_moments_of_a_segment_are_mapped_to_it(division, zone, moment, share):
    resolver = parse_resolver(division, zone, STARTED)
    found = resolver.segment_at(None, moment)
    other = min(found.begins + (found.ends - found.begins) * share, found.ends - timedelta(microseconds=1))
    assert parse_resolver(division, zone, STARTED).segment_at(None, other) == found


@given(divisions, zones, moments)
def test_next_segment_begins_as_this_one_ends(division, zone, moment):
    resolver = parse_resolver(division, zone, STARTED)
    found = resolver.segment_at(None, moment)
    following = resolver.segment_at(None, found.ends)
    assert following.begins == found.ends
    assert following.name != found.name


@given(divisions, zones, st.lists(moments, min_size=2, max_size=5))
def test_answer_does_not_depend_on_the_questions_before(division, zone, asked):
    resolver = parse_resolver(division, zone, STARTED)
    for moment in asked:
        assert resolver.segment_at(None, moment) == parse_resolver(division, zone, STARTED).segment_at(
            None, moment
        )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "daily",
        "Day",
        "every",
        "every:",
        "every:0d",
        "every:3x",
        "every:-3d",
        "every:03d",
        "every:1.5h",
        "every:٣d",
        "every:3d ",
        "every:10000d",
        "run-1",
    ],
)
def test_unknown_division_is_refused_with_examples(text):
    with pytest.raises(ConfigurationError, match=r"every:3d, every:6h or every:2w") as refusal:
        parse_resolver(text, BERLIN, STARTED)
    assert f"'{text}'" in str(refusal.value)


@pytest.mark.parametrize("division", ["day", "hour", "week", "every:3d", "every:6h", "run"])
def test_moment_without_zone_is_refused(division):
    with pytest.raises(ValueError, match="no time zone"):
        parse_resolver(division, BERLIN, STARTED).segment_at(None, STARTED.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        ("", STARTED, None),
        ("naive", STARTED.replace(tzinfo=None), None),
        ("local", STARTED.astimezone(BERLIN), None),
        ("local", STARTED, datetime(2027, 1, 1, tzinfo=BERLIN)),
        ("empty", STARTED, STARTED),
    ],
)
def test_segment_that_cannot_be_is_refused(name, begins, ends):
    with pytest.raises(ValueError, match="segment"):
        Segment(name, begins, ends)
