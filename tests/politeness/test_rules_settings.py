"""What is owed to a host is read from settings, and what cannot be is answered before anything is asked."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from tileharvest.commands.settings import progress_interval
from tileharvest.errors import ConfigurationError
from tileharvest.maps.settings import described_map
from tileharvest.politeness.settings import outage_limits, rules_for


@pytest.fixture
def settings(tmp_path) -> Settings:
    (tmp_path / "maps.toml").write_text('[m]\nurl = "http://127.0.0.1/"\n')
    found = Settings()
    found.setmodule("tileharvest.settings")
    found.set("TILEHARVEST_MAPS", str(tmp_path / "maps.toml"))
    return found


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ROBOTSTXT_OBEY", "yes", "'yes' cannot be: write True or False"),
        ("AUTOTHROTTLE_ENABLED", "2", "'2' cannot be: write True or False"),
        ("HOST_DOWN_AFTER", "0", "the first is at least 1"),
        ("HOST_DOWN_AFTER", "often", "'often' cannot be"),
        ("HOST_DOWN_AFTER", "inf", "the first is at least 1"),
        ("HOST_DOWN_PAUSE", "61", "not above the third"),
        ("HOST_DOWN_PATIENCE", "-1", "the last not below 0"),
        ("DELAY", "x", "'x' cannot be: write seconds"),
        ("BUDGET", "5", "got `int`; write for example"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings, name, value, message):
    settings.set(name, value, priority="cmdline")
    with pytest.raises(ConfigurationError, match=rf"{name}.*{message}"):
        rules_for(settings, described_map(settings, "m"))


@pytest.mark.parametrize(
    ("value", "obeys"),
    [("True", True), ("true", True), ("1", True), ("False", False), ("false", False), ("0", False)],
)
def test_a_truth_is_written_as_scrapy_writes_it(settings, value, obeys):
    settings.set("ROBOTSTXT_OBEY", value, priority="cmdline")
    assert rules_for(settings, described_map(settings, "m")).robots is obeys


def test_when_a_host_is_given_up_is_read_from_the_settings(settings):
    settings.set("HOST_DOWN_AFTER", "3", priority="cmdline")
    limits = outage_limits(settings)
    assert (limits.failures, limits.pause, limits.longest_pause, limits.patience) == (3, 1, 60, 900)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "often"])
def test_an_interval_of_no_time_is_refused(settings, value):
    settings.set("PROGRESS_INTERVAL", value)
    with pytest.raises(ConfigurationError, match=r"PROGRESS_INTERVAL .* cannot be"):
        progress_interval(settings)


def test_quiet_hours_may_be_the_whole_day_only_where_it_is_asked_at_a_rate_then(settings):
    settings.set("QUIET_HOURS", ["0:00-12:00", "12:00-24:00"])
    with pytest.raises(
        ConfigurationError, match=r"map 'm': .* 00:00-12:00 and 12:00-00:00, are the whole day"
    ):
        rules_for(settings, described_map(settings, "m"))
    settings.set("QUIET_RATE", "10/min")
    assert rules_for(settings, described_map(settings, "m")).quiet
