"""Settings and arguments become objects; mistakes in them are answered before anything is touched."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from scrapy.http import Request
from scrapy.settings import Settings

from tileharvest.errors import ConfigurationError
from tileharvest.harvest.settings import harvest_for, would_go_on
from tileharvest.maps.settings import all_maps, described_map
from tileharvest.queue.segments import Segment
from tileharvest.queue.settings import segment_resolver

STARTED = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


class ByMethod:
    """A user's own resolver: what is asked by HEAD is asked once, everything else once in each start."""

    def __init__(self, zone: ZoneInfo, started: datetime) -> None:
        self.zone, self.started = zone, started

    def segment_at(self, request: object | None, moment: datetime) -> Segment:
        asks = isinstance(request, Request) and request.method == "HEAD"
        return Segment("for-ever" if asks else f"start-{self.started:%H%M}", self.started, None)


@pytest.fixture
def settings(tmp_path) -> Settings:
    (tmp_path / "maps.toml").write_text('[m]\nurl = "http://127.0.0.1/"\ntimezone = "Europe/Berlin"\n')
    found = Settings()
    found.setmodule("tileharvest.settings")
    found.set("TILEHARVEST_MAPS", str(tmp_path / "maps.toml"))
    found.set("TILEHARVEST_DATA", str(tmp_path / "data"))
    found.set("DATABASE_URL", "")
    return found


def test_the_setting_names_the_resolver(settings):
    settings.set("SEGMENT", "week")
    assert segment_resolver(settings, None, BERLIN, STARTED).segment_at(None, STARTED).name == "2026-W47"


def test_the_argument_goes_before_the_setting(settings):
    resolver = segment_resolver(settings, "hour", BERLIN, STARTED)
    # In Berlin it is half past midnight of the next day.
    assert resolver.segment_at(None, STARTED).name == "2026-11-21T00+01:00"


def test_a_users_own_class_decides_by_request_and_time(settings):
    settings.set("SEGMENT_RESOLVER", ByMethod)
    resolver = segment_resolver(settings, None, BERLIN, STARTED)
    names = [
        resolver.segment_at(Request("http://127.0.0.1/", method=method), STARTED).name
        for method in ("HEAD", "GET")
    ]
    assert names == ["for-ever", "start-2330"]


def test_the_argument_goes_before_a_users_own_class(settings):
    settings.set("SEGMENT_RESOLVER", ByMethod)
    assert segment_resolver(settings, "day", BERLIN, STARTED).segment_at(None, STARTED).name == "2026-11-21"


@pytest.mark.parametrize(("own", "limit", "kept"), [("", 2, 2), ("max_depth = 0", 2, 0), ("", 0, None)])
def test_scrapys_limit_is_the_depth_of_a_map_that_has_none(settings, tmp_path, own, limit, kept):
    """So a harvest that it has cut short is no proof for one without it."""
    (tmp_path / "maps.toml").write_text(f'[m]\nurl = "http://127.0.0.1/"\n{own}\n')
    settings.set("DEPTH_LIMIT", limit)
    assert all_maps(settings)["m"].max_depth == kept
    assert described_map(settings, "m").max_depth == kept
    assert harvest_for(settings, {"map": "m"}).description.max_depth == kept


def test_a_past_day_is_harvested_in_the_segment_in_which_it_began(settings):
    harvest = harvest_for(settings, {"map": "m", "day": "2021-02-13"})
    assert (harvest.day, harvest.segment.name) == (date(2021, 2, 13), "2021-02-13")


@pytest.mark.parametrize(
    ("arguments", "goes_on"),
    [({"segment": "every:9999w"}, True), ({"segment": "run"}, False), ({"day": "2021-02-13"}, True)],
)
def test_a_harvest_that_is_run_again_goes_on_only_in_its_segment(settings, arguments, goes_on):
    harvest = harvest_for(settings, {"map": "m", **arguments})
    assert would_go_on(settings, arguments, harvest) is goes_on


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "which map"),
        ({"map": "n"}, "no map 'n'"),
        ({"map": "m", "day": "yesterday"}, "is no date"),
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
