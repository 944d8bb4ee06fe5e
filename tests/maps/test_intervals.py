"""How often and when a map is harvested, as maps.toml says it."""

from datetime import time, timedelta

import pytest

from tileharvest.errors import ConfigurationError
from tileharvest.maps.intervals import Interval, parse_time
from tileharvest.maps.maps_file import load_maps


@pytest.mark.parametrize(
    ("text", "length", "segment"),
    [
        ("1d", timedelta(days=1), "day"),
        ("6h", timedelta(hours=6), "every:6h"),
        ("7d", timedelta(days=7), "every:7d"),
        ("2w", timedelta(days=14), "every:2w"),
        ("24h", timedelta(days=1), "every:24h"),
    ],
)
def test_an_interval_has_a_length_and_names_its_segments(text, length, segment):
    interval = Interval.parse(text)
    assert (interval.length, interval.segment, str(interval)) == (length, segment, text)


@pytest.mark.parametrize("text", ["", "0d", "1", "d", "1m", "1 d", "-1d", "1.5d", "12345h", "٣d"])
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(ValueError, match="is no interval: write for example 1d, 6h or 7d"):
        Interval.parse(text)


@pytest.mark.parametrize(
    ("text", "repeats"), [("6h", 6), ("1h", 1), ("24h", None), ("48h", None), ("7d", None)]
)
def test_a_time_comes_again_within_a_day_where_a_segment_is_shorter(text, repeats):
    assert Interval.parse(text).repeats == (repeats and timedelta(hours=repeats))


@pytest.mark.parametrize("text", ["5h", "36h"])
def test_hours_that_make_no_days_are_at_another_time_each_day(text):
    with pytest.raises(ValueError, match="at another time each day"):
        _ = Interval.parse(text).repeats


def test_a_time_of_the_day_is_read():
    assert (parse_time("04:00"), parse_time("4:05"), parse_time("23:59")) == (
        time(4),
        time(4, 5),
        time(23, 59),
    )


@pytest.mark.parametrize("text", ["24:00", "4", "04:60", "4 am", ""])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="is no time of the day: write for example 04:00"):
        parse_time(text)


def described(tmp_path, lines):
    file = tmp_path / "maps.toml"
    file.write_text(f'[m]\nurl = "http://h/"\n{lines}\n')
    return load_maps(file)["m"]


@pytest.mark.parametrize(
    ("lines", "segment", "at"),
    [
        ("", None, None),
        ('at = "04:00"', None, time(4)),
        ('every = "1d"', "day", None),
        ('every = "6h"\nat = "04:00"', "every:6h", time(4)),
        ('every = "auto"', "day", None),
        ('every = "auto"\nevery_min = "6h"\nat = "04:00"', "every:6h", time(4)),
    ],
)
def test_an_entry_decides_segment_and_time(tmp_path, lines, segment, at):
    found = described(tmp_path, lines)
    assert (found.segment, found.at_time) == (segment, at)


@pytest.mark.parametrize(
    ("lines", "shortest", "longest"),
    [
        ('every = "auto"', "1d", "28d"),
        ('every = "auto"\nevery_min = "6h"\nevery_max = "2w"', "6h", "2w"),
        ('every = "auto"\nevery_max = "1d"', "1d", "1d"),
    ],
)
def test_auto_has_a_shortest_and_a_longest_interval(tmp_path, lines, shortest, longest):
    assert described(tmp_path, lines).adaptive == (Interval.parse(shortest), Interval.parse(longest))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('every = "daily"', "key 'every': 'daily' is no interval: write for example 1d, 6h or 7d"),
        ("every = 1", "key 'every': expected `str"),
        ('at = "24:00"', "key 'at': '24:00' is no time of the day: write for example 04:00"),
        ('every = "5h"\nat = "04:00"', "key 'at': every 5h is at another time each day; leave it out, or"),
        (
            'every_min = "1d"',
            'key \'every_min\': it is of use with every = "auto" only; write for example every = "auto" and',
        ),
        ('every = "1d"\nevery_max = "7d"', "key 'every_max': it is of use with every = \"auto\" only"),
        ('every = "auto"\nevery_max = "x"', "key 'every_max': 'x' is no interval"),
        (
            'every = "auto"\nevery_min = "7d"\nevery_max = "1d"',
            "key 'every_max': 1d is shorter than every_min, 7d",
        ),
        ('evry = "1d"', "key 'evry' is not known; did you mean 'every'"),
    ],
)
def test_each_bad_value_is_one_clear_line(tmp_path, lines, said):
    with pytest.raises(ConfigurationError) as error:
        described(tmp_path, lines)
    assert f"map 'm': {said}" in str(error.value)
    assert "\n" not in str(error.value)
