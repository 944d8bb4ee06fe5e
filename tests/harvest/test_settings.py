"""Settings and arguments become objects; mistakes in them are answered before anything is touched."""

from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from scrapy.settings import Settings

from tileharvest.errors import ConfigurationError
from tileharvest.harvest.settings import harvest_for, times_for
from tileharvest.maps.settings import all_maps
from tileharvest.maps.times import QuietHours

STARTED = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


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
def test_the_argument_goes_before_every_and_every_before_the_setting(
    settings, setting, every, argument, segment
):
    described(settings, every)
    settings.set("SEGMENT", setting)
    arguments = {"map": "m", "day": "2021-01-01"} | ({"segment": argument} if argument else {})
    assert harvest_for(settings, arguments).segment.name == segment


def test_an_entry_says_when_its_map_is_harvested(settings):
    lines = 'every = "6h"\nat = "04:00"\ntimezone = "Europe/Berlin"\nquiet_hours = "18:00-23:00"'
    times = times_for(settings, described(settings, lines), STARTED)
    assert (times.name, times.zone, times.at, times.adaptive) == ("m", BERLIN, time(4), None)
    assert times.repeats == timedelta(hours=6)
    assert times.quiet == (QuietHours.parse("18:00-23:00"),)
    assert times.segments(STARTED).name == "every-6h-2026-11-20T18Z"


def test_a_map_that_its_changes_decide_has_the_shortest_segments_and_may_begin_in_hours_with_a_rate(settings):
    lines = 'every = "auto"\nevery_min = "12h"\nquiet_hours = "18:00-23:00"\nquiet_rate = "1/min"'
    times = times_for(settings, described(settings, lines), STARTED)
    assert (times.adaptive, times.quiet) == ((timedelta(hours=12), timedelta(days=28)), ())
    assert times.segments(STARTED).name == "every-12h-2026-11-20T12Z"


def test_a_map_whose_segment_has_no_end_is_never_due(settings):
    settings.set("SEGMENT", "run")
    with pytest.raises(ConfigurationError, match=r"map 'm' is never due: .* write every = .1d"):
        times_for(settings, described(settings, ""), STARTED)
    assert times_for(settings, described(settings, 'every = "1d"'), STARTED).at is None
