"""When a map's next harvest begins, under a given clock, and what settings and arguments say of it."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from scrapy.settings import Settings

from tileharvest.errors import ConfigurationError
from tileharvest.harvest.due import Times, due, pause_after
from tileharvest.harvest.settings import harvest_for, times_for
from tileharvest.history.summaries import Past
from tileharvest.maps.description import MapDescription
from tileharvest.maps.settings import all_maps
from tileharvest.maps.times import QuietHours
from tileharvest.queue.segments import parse_resolver

BERLIN = ZoneInfo("Europe/Berlin")
STARTED = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FINISHED = Past(was_ever_finished=True)
COMPLETE = Past(was_ever_finished=True, is_complete=True)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(every: str = "1d", quiet: tuple[QuietHours, ...] = (), **keys: Any) -> Times:
    entry = {"name": "world", "url": "http://map.example.net/", "timezone": BERLIN.key, "every": every}
    said = MapDescription(**entry | keys)
    assert said.interval is not None
    return Times(said, parse_resolver(said.interval.segment, BERLIN, STARTED), quiet)


def moment_of(asked: Times, past: Past, now: str) -> datetime:
    found = due(asked, past, at(now))
    assert found is not None
    return found.moment


@pytest.mark.parametrize(
    ("past", "why"),
    [
        (Past(), "its first harvest"),
        (Past(was_ever_finished=True, is_begun=True), "to be continued"),
    ],
)
def test_a_new_map_and_one_that_was_begun_are_due_at_once(past, why):
    found = due(times(at="23:00"), past, at("2026-11-22 10:00"))
    assert found is not None
    assert found.moment <= at("2026-11-22 10:00")
    assert found.why == why


@pytest.mark.parametrize(
    ("every", "clock", "past", "now", "expected"),
    [
        # Before and after 4 o'clock in Berlin, which is 3 o'clock.
        ("1d", "04:00", FINISHED, "2026-11-22 01:00", "2026-11-22 03:00"),
        ("1d", "04:00", FINISHED, "2026-11-22 12:00", "2026-11-22 03:00"),
        ("1d", "04:00", COMPLETE, "2026-11-22 12:00", "2026-11-23 03:00"),
        # In Berlin it is the next day already.
        ("1d", "04:00", COMPLETE, "2026-11-22 23:30", "2026-11-24 03:00"),
        # A day of 23 hours, where 02:30 does not come: as the clocks jump from 2 to 3.
        ("1d", "02:30", FINISHED, "2026-03-29 12:00", "2026-03-29 01:30"),
        ("1d", "04:00", FINISHED, "2026-03-29 12:00", "2026-03-29 02:00"),
        # A day of 25 hours, where 02:30 comes twice: the first time.
        ("1d", "02:30", FINISHED, "2026-10-25 12:00", "2026-10-25 00:30"),
        # 04:00, 10:00, 16:00 and 22:00 in Berlin. The segments begin at 0, 6, 12 and 18 o'clock in UTC.
        ("6h", "04:00", FINISHED, "2026-11-22 00:00", "2026-11-22 03:00"),
        ("6h", "04:00", FINISHED, "2026-07-22 18:00", "2026-07-22 20:00"),
        # A week begins on Monday.
        ("7d", "04:00", FINISHED, "2026-11-22 12:00", "2026-11-16 03:00"),
        ("7d", "04:00", COMPLETE, "2026-11-22 12:00", "2026-11-23 03:00"),
    ],
)
def test_a_map_is_due_once_a_segment_at_its_time_by_the_clocks_of_its_zone(every, clock, past, now, expected):
    assert moment_of(times(every, at=clock), past, now) == at(expected)


def test_names_spread_the_maps_over_three_quarters_of_the_segment():
    begins = at("2026-11-21 23:00")
    shares = [
        (moment_of(times(name=f"map-{number}"), FINISHED, "2026-11-22 12:00") - begins) / (DAY * 0.75)
        for number in range(1000)
    ]
    assert 0 <= min(shares) < 0.01
    assert 0.99 < max(shares) <= 1
    tenths = [sum(int(share * 10) == tenth for share in shares) for tenth in range(10)]
    assert all(70 <= count <= 130 for count in tenths)


def test_nothing_begins_in_quiet_hours():
    quiet = (QuietHours.parse("03:00-06:00"),)
    assert moment_of(times(at="04:00", quiet=quiet), FINISHED, "2026-11-22 00:00") == at("2026-11-22 05:00")
    # Also what is due for long.
    midnight = times(at="00:00", quiet=quiet)
    assert moment_of(midnight, FINISHED, "2026-11-22 04:30") == at("2026-11-22 05:00")
    assert moment_of(midnight, FINISHED, "2026-11-22 05:00") == at("2026-11-21 23:00")


def test_a_segment_without_end_that_is_complete_is_followed_by_none():
    endless = Times(times().description, parse_resolver("run", BERLIN, STARTED))
    assert due(endless, COMPLETE, at("2026-11-22 12:00")) is None


@pytest.mark.parametrize(
    ("changes", "last", "expected"),
    [
        # 1.4 days are over on the next day; 1.96 days are over on the one after it.
        ((False,), "2026-11-22", "2026-11-23 03:00"),
        ((False, False), "2026-11-22", "2026-11-24 03:00"),
        ((False, False, True), "2026-11-22", "2026-11-23 03:00"),
        # 28 days at most, and a fifth less, which is 22.4 days.
        ((False,) * 12, "2026-11-22", "2026-12-20 03:00"),
        ((False,) * 20, "2026-11-22", "2026-12-20 03:00"),
        ((False,) * 12 + (True,), "2026-11-22", "2026-12-14 03:00"),
        # What is overdue is due in the present segment.
        ((False,) * 3, "2026-11-01", "2026-11-22 03:00"),
    ],
)
def test_a_map_that_seldom_changes_is_visited_seldom(changes, last, expected):
    """The interval grows by two fifths and shrinks by a fifth, as in Nutch's AdaptiveFetchSchedule."""
    asked = times("auto", at="04:00")
    ended = last == "2026-11-22"
    past = Past(was_ever_finished=True, is_complete=ended, visits=changes, last_visit=at(f"{last} 03:00"))
    assert moment_of(asked, past, "2026-11-22 12:00") == at(expected)


def test_what_failed_is_tried_again_later_each_time_and_within_a_quarter_of_the_segment():
    pauses = [pause_after(number, DAY) / timedelta(minutes=1) for number in range(1, 9)]
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 360]
    assert pause_after(9, 6 * HOUR) == timedelta(minutes=90)
    assert pause_after(10**9, 6 * HOUR) == timedelta(minutes=90)
    assert pause_after(9, None) == 6 * HOUR


# -- settings and arguments


@pytest.fixture
def settings(tmp_path) -> Settings:
    (tmp_path / "maps.toml").write_text('[m]\nurl = "http://127.0.0.1/"\ntimezone = "Europe/Berlin"\n')
    found = Settings()
    found.setmodule("tileharvest.settings")
    found.set("TILEHARVEST_MAPS", str(tmp_path / "maps.toml"))
    found.set("TILEHARVEST_DATA", str(tmp_path / "data"))
    found.set("DATABASE_URL", "")
    return found


def test_a_past_day_is_harvested_in_the_segment_in_which_it_began(settings):
    harvest = harvest_for(settings, {"map": "m", "day": "2021-02-13"})
    assert (harvest.day, harvest.segment.name) == (date(2021, 2, 13), "2021-02-13")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "which map"),
        ({"map": "n"}, "no map 'n'"),
        ({"map": "m", "day": "yesterday"}, "yesterday is not a day: write it as"),
        ({"map": "m", "day": "9999-01-01"}, "has not begun"),
        ({"map": "m", "dry": "yes"}, "write -a dry=1"),
        ({"map": "m", "fresh": "2"}, "write -a fresh=1"),
        ({"map": "m", "stay": "yes"}, "write -a stay=1"),
        ({"map": "m", "segment": "year"}, "segment 'year' cannot be"),
    ],
)
def test_a_mistake_in_an_argument_touches_nothing(settings, tmp_path, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        harvest_for(settings, arguments)
    assert not (tmp_path / "data").exists()


def described(settings, lines):
    Path(settings["TILEHARVEST_MAPS"]).write_text(f'[m]\nurl = "http://127.0.0.1/"\n{lines}\n')
    return all_maps(settings)["m"]


@pytest.mark.parametrize(
    ("setting", "every", "argument", "segment"),
    [
        ("week", "", None, "2020-W53"),
        ("week", 'every = "1d"', None, "2021-01-01"),
        ("week", 'every = "1d"', "hour", "2021-01-01T00Z"),
        ("week", 'every = "6h"', None, "every-6h-2021-01-01T00Z"),
        ("week", 'every = "auto"', None, "2021-01-01"),
    ],
)
def test_the_argument_goes_before_every_and_the_setting_last(settings, setting, every, argument, segment):
    described(settings, every)
    settings.set("SEGMENT", setting)
    arguments = {"map": "m", "day": "2021-01-01"} | ({"segment": argument} if argument else {})
    assert harvest_for(settings, arguments).segment.name == segment


def test_an_entry_says_when_its_map_is_harvested(settings):
    lines = 'every = "6h"\nat = "04:00"\ntimezone = "Europe/Berlin"\nquiet_hours = "18:00-23:00"'
    times = times_for(settings, described(settings, lines), STARTED)
    assert times.quiet == (QuietHours.parse("18:00-23:00"),)
    assert times.segments(STARTED).name == "every-6h-2026-11-20T18Z"


def test_a_map_that_its_changes_decide_has_the_shortest_segments_and_may_begin_in_hours_with_a_rate(settings):
    lines = 'every = "auto"\nevery_min = "12h"\nquiet_hours = "18:00-23:00"\nquiet_rate = "1/min"'
    times = times_for(settings, described(settings, lines), STARTED)
    assert times.quiet == ()
    assert times.segments(STARTED).name == "every-12h-2026-11-20T12Z"


def test_a_map_whose_segment_has_no_end_is_never_due(settings):
    settings.set("SEGMENT", "run")
    with pytest.raises(ConfigurationError, match=r"map 'm' is never due: .* write every = .1d"):
        times_for(settings, described(settings, ""), STARTED)
