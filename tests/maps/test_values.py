"""The values of maps.toml as people write them: sizes, budgets, times, rates, quiet hours and templates."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.maps.budgets import Budget, parse_size
from tileharvest.maps.rates import NO_DELAY, Delay, parse_rate
from tileharvest.maps.template import Template
from tileharvest.maps.times import Interval, QuietHours, is_whole_day, parse_time, quiet_until

BERLIN = ZoneInfo("Europe/Berlin")
READ: dict[Callable[[Any], object], dict[Any, object]] = {
    parse_size: {
        "2 GB": 2_000_000_000,
        "500MB": 500_000_000,
        "1.5 kB": 1500,
        " 12 ": 12,
        7: 7,
        "3 B": 3,
        "999999 TB": 999999 * 10**12,
    },
    parse_time: {"04:00": time(4), "4:05": time(4, 5), "23:59": time(23, 59)},
    Delay.of: {0.5: Delay(0.5, 0.5), 2: Delay(2.0, 2.0), (0.2, 0.8): Delay(0.2, 0.8), 0: NO_DELAY},
    parse_rate: {
        "2/s": Delay.of(0.5),
        "30/min": Delay.of(2.0),
        " 0.5 / s ": Delay.of(2.0),
        "100/h": Delay.of(36.0),
        "1.5/min": Delay.of(40.0),
    },
}
REFUSED: dict[Callable[[Any], object], tuple[str, list[Any]]] = {
    parse_size: (
        "write for example",
        ["", "GB", "2 GiB", "2 gb", "-1 MB", "1e3", "2 MB 3", "1000000 TB", "9" * 400],
    ),
    parse_time: ("is not a time of the day: write for example 04:00", ["24:00", "4", "04:60", "4 am", ""]),
    Delay.of: (
        r"is not a time to wait: write seconds.*, such as 0\.5 or \[0\.2, 0\.8\]",
        [-1, (0.8, 0.2), (1,), (1, 2, 3), float("nan"), float("inf"), 90_000],
    ),
    parse_rate: (
        "write for example 2/s, 30/min or 100/h",
        ["", "2", "0/s", "-1/s", "2/d", "1/week", "fast", "1e3/s", "2/s2", "\u0662/s"],
    ),
    Interval.parse: (
        "is not an interval: write for example 1d, 6h or 7d",
        ["", "0d", "1", "d", "1m", "1 d", "-1d", "1.5d", "12345h", "٣d"],
    ),
    QuietHours.parse: (
        "write for example 18:00-23:00",
        ["", "18-23", "18:00", "25:00-01:00", "18:00-18:00", "18:60-19:00", "24:00-01:00"],
    ),
}


@pytest.mark.parametrize(
    ("parse", "text", "value"), [(parse, *one) for parse, values in READ.items() for one in values.items()]
)
def test_a_value_is_read(parse: Callable[[Any], object], text: Any, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize("parse", REFUSED, ids=lambda parse: parse.__qualname__)
def test_any_other_text_is_refused_with_an_example(parse: Callable[[Any], object]) -> None:
    message, texts = REFUSED[parse]
    for text in texts:
        with pytest.raises(ValueError, match=message):
            parse(text)


# -- budgets and rates


def test_a_budget_is_told_in_words_and_false_without_limits() -> None:
    with pytest.raises(ValueError, match="a budget of 0 bytes allows nothing"):
        Budget(bytes=0)
    budget = Budget(requests=1, bytes=2_000_000, seconds=90.0)
    words = [budget.in_words(part) for part in ("requests", "bytes", "seconds")]
    assert words == ["1 request", "2.0 MB", "90 s"]
    assert Budget(requests=12000).in_words("requests") == "12,000 requests"
    assert Budget().in_words("bytes") == "bytes"
    assert not Budget()


def test_of_two_gaps_both_are_kept_and_one_is_drawn_between_its_ends() -> None:
    gap = Delay(0.2, 0.8)
    assert [gap.draw(random) for random in (0, 0.5, 1)] == pytest.approx([0.2, 0.5, 0.8])
    assert gap.at_least(Delay(0.5, 0.5)) == Delay(0.5, 0.8)
    assert gap.at_least(Delay(1.0, 1.0)) == Delay(1.0, 1.0)


# -- intervals


@pytest.mark.parametrize(
    ("text", "hours", "segment", "repeats"),
    [
        ("1d", 24, "day", None),
        ("6h", 6, "every:6h", 6),
        ("1h", 1, "every:1h", 1),
        ("24h", 24, "every:24h", None),
        ("48h", 48, "every:48h", None),
        ("7d", 168, "every:7d", None),
        ("2w", 336, "every:2w", None),
    ],
)
def test_an_interval_has_a_length_names_its_segments_and_comes_again_within_a_day(
    text: str, hours: int, segment: str, repeats: int | None
) -> None:
    interval = Interval.parse(text)
    assert (interval.length, interval.segment, str(interval)) == (timedelta(hours=hours), segment, text)
    assert interval.repeats == (repeats and timedelta(hours=repeats))


# -- quiet hours


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("hours", "moment", "end"),
    [
        (["18:00-23:00"], "2026-11-20T17:59:59", None),
        (["18:00-23:00"], "2026-11-20T18:00", "2026-11-20T23:00"),
        (["18:00-23:00"], "2026-11-20T23:00", None),
        (["22:00-06:30"], "2026-11-20T03:00", "2026-11-20T06:30"),
        (["22:00-06:30"], "2026-12-31T22:00", "2027-01-01T06:30"),
        (["22:00-06:30"], "2026-11-20T12:00", None),
        (["18:00-24:00"], "2026-11-20T19:00", "2026-11-21T00:00"),
        # Quiet hours that touch are one.
        (["00:00-06:00", "18:00-24:00"], "2026-11-20T19:00", "2026-11-21T06:00"),
    ],
)
def test_the_first_minute_is_quiet_not_the_last(hours: list[str], moment: str, end: str | None) -> None:
    assert quiet_until(map(QuietHours.parse, hours), at(moment)) == (None if end is None else at(end))


@pytest.mark.parametrize(
    ("hours", "is_whole"),
    [
        ([], False),
        (["06:00-05:59"], False),
        (["12:00-06:00", "05:00-13:00"], True),
        (["08:00-16:00", "00:00-07:59", "16:00-00:01"], False),
    ],
)
def test_quiet_hours_may_be_the_whole_day_with_an_end_to_look_at(hours: list[str], is_whole: bool) -> None:
    parsed = list(map(QuietHours.parse, hours))
    assert is_whole_day(parsed) is is_whole
    end = quiet_until(parsed, at("2026-11-20T19:00"))
    assert end is None or end - at("2026-11-20T19:00") < timedelta(days=4)


@pytest.mark.parametrize(
    ("hours", "moment", "fold", "minutes"),
    [
        # In Berlin 2026-10-25 has two hours from 2 to 3.
        ("22:00-04:00", "2026-10-24T22:00", 0, 7 * 60),
        ("22:00-02:30", "2026-10-25T02:15", 0, 15),
        ("22:00-02:30", "2026-10-25T02:15", 1, 15),
    ],
)
def test_quiet_ends_by_the_clock_that_is_changed(hours: str, moment: str, fold: int, minutes: int) -> None:
    begin = at(moment).replace(fold=fold)
    end = quiet_until([QuietHours.parse(hours)], begin)
    assert end is not None
    assert end.astimezone(UTC) - begin.astimezone(UTC) == timedelta(minutes=minutes)


# -- templates


HOST = "https://tiles.example.net"

FORMS = [
    (f"{HOST}/m/{{z}}/{{x}}/{{y}}.png", f"{HOST}/m/3/1/6.png"),
    (f"{HOST}/m/{{z}}/{{x}}/{{-y}}.png", f"{HOST}/m/3/1/1.png"),
    (f"{HOST}/m/{{zoom}}/{{y}}/{{x}}@2x.jpg", f"{HOST}/m/3/6/1@2x.jpg"),
    (f"{HOST}/m/{{z}}/{{x}}/{{y}}{{r}}.webp", f"{HOST}/m/3/1/6.webp"),
    (f"{HOST}/tile.php?z={{z}}&x={{x}}&y={{y}}", f"{HOST}/tile.php?z=3&x=1&y=6"),
    (f"{HOST}/m/{{z}}/{{x}}/{{y}}.png?key=k{{z}}", f"{HOST}/m/3/1/6.png?key=k3"),
    (f"{HOST}/a/r{{quadkey}}.jpeg?g=1", f"{HOST}/a/r221.jpeg?g=1"),
    (f"{HOST}/my map/{{z}}/{{x}}/{{y}}.png", f"{HOST}/my%20map/3/1/6.png"),
    ("https://{s}.example.net/{z}/{x}/{y}.png", "https://a.example.net/3/1/6.png"),
    ("https://t{1-4}.example.net/{z}/{x}/{y}.png", "https://t1.example.net/3/1/6.png"),
    ("https://{switch:x,y}.example.net/{z}/{x}/{y}.png", "https://x.example.net/3/1/6.png"),
]


@pytest.mark.parametrize(("text", "url"), FORMS, ids=[text for text, _ in FORMS])
def test_a_tile_has_the_address_that_the_template_says_and_an_address_its_tile(text: str, url: str) -> None:
    template = Template(text)
    assert template.url(3, 1, 6) == url
    assert template.place(url) == (3, 1, 6)
    assert url.startswith(template.page)


@given(z=st.integers(0, 24), x=st.integers(-(2**25), 2**25), y=st.integers(-(2**25), 2**25))
@pytest.mark.parametrize("rows", ["{y}", "{-y}"])
def test_every_place_comes_back_also_left_of_the_origin_and_above(rows: str, z: int, x: int, y: int) -> None:
    """Maps of games count from the middle of their world."""
    template = Template(f"{HOST}/{{z}}/{{x}}/{rows}.png")
    assert template.place(template.url(z, x, y)) == (z, x, y)


@given(z=st.integers(1, 24), data=st.data())
def test_every_quadkey_comes_back(z: int, data: st.DataObject) -> None:
    x, y = (data.draw(st.integers(0, 2**z - 1)) for _ in range(2))
    template = Template(f"{HOST}/{{q}}.png")
    assert template.place(template.url(z, x, y)) == (z, x, y)


@pytest.mark.parametrize(
    ("form", "place", "message"),
    [
        ("{q}.png", (0, 0, 0), "have no quadkey"),
        ("{q}.png", (3, 8, 0), "have no quadkey"),
        ("{q}.png", (3, 0, -1), "have no quadkey"),
    ],
)
def test_some_places_have_no_address(form: str, place: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Template(f"{HOST}/{form}").url(*place)


def test_the_quadkey_is_that_of_bings_own_example_and_all_hosts_are_one() -> None:
    """Tile (3, 5) of zoom 3 in "Bing Maps Tile System"."""
    assert Template(f"{HOST}/{{q}}").url(3, 3, 5) == f"{HOST}/213"
    template = Template("https://{s}.example.net/{z}/{x}/{y}.png")
    for host in "abc":
        assert template.place(f"https://{host}.example.net/3/1/6.png?v=2") == (3, 1, 6)


@pytest.mark.parametrize(
    "url",
    [
        f"{HOST}/m/3/1/6.jpg",
        f"{HOST}/m/3/01/6.png",
        f"{HOST}/m/-3/1/6.png",
        f"{HOST}/m/3/1/-0.png",
        f"{HOST}/m/3/1/6.png/",
        f"{HOST}/3/1/6.png",
        "https://other.example.net/m/3/1/6.png",
    ],
)
def test_any_other_address_is_no_tile(url: str) -> None:
    assert Template(f"{HOST}/m/{{z}}/{{x}}/{{y}}.png").place(url) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HOST}/{{z}}/{{x}}.png", "has {z}, {x} and {y}, or"),
        (f"{HOST}/{{x}}.png", "that of a canvas has {x} and {y}"),
        (f"{HOST}/{{z}}.png", "that of a canvas has {x} and {y}"),
        (f"{HOST}/tiles.{{r}}png", "has {z}, {x} and {y}, or"),
        (f"{HOST}/{{z}}/{{x}}/{{Y}}.png", r"'\{Y\}' is not a placeholder; there are \{z\}"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}.png}}", "a brace that belongs to no placeholder"),
        ("https://{z}.example.net/{z}/{x}/{y}.png", "or one in the host's name"),
    ],
)
def test_what_is_no_template_is_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Template(text)
