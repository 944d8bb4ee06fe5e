"""What is owed to a map's owner: the command line, the map's entry, the settings; by day and by night."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings

from tileharvest.errors import ConfigurationError
from tileharvest.maps.budgets import Budget
from tileharvest.maps.quiet_hours import QuietHours
from tileharvest.maps.rates import NO_GAP, Gap
from tileharvest.maps.settings import described_map
from tileharvest.notices.settings import notice_occasions
from tileharvest.politeness.rules import Rules
from tileharvest.politeness.settings import rules_for

if TYPE_CHECKING:
    from pathlib import Path

NOON, EVENING = datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 11, 20, 19, tzinfo=UTC)
QUIET = (QuietHours.parse("18:00-23:00"),)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings()
    found.setmodule("tileharvest.settings")
    found.set("TILEHARVEST_MAPS", str(tmp_path / "maps.toml"))
    return found


def owed(settings: Settings, toml: str) -> Rules:
    with open(settings["TILEHARVEST_MAPS"], "w") as file:  # noqa: PTH123
        file.write(f'[m]\nurl = "http://maps.example.net/"\n{toml}')
    return rules_for(settings, described_map(settings, "m"))


@pytest.mark.parametrize(
    ("setting", "value", "toml", "name", "of_setting", "of_map"),
    [
        ("DELAY", "[0.1, 0.3]", "delay = 2", "gap", Gap(0.1, 0.3), Gap(2.0, 2.0)),
        ("STORE_DELAY", "0.1", "store_delay = [1, 2]", "store_gap", Gap(0.1, 0.1), Gap(1.0, 2.0)),
        (
            "QUIET_HOURS",
            '["18:00-23:00"]',
            'quiet_hours = "1:00-2:00"',
            "quiet",
            QUIET,
            (QuietHours.parse("1:00-2:00"),),
        ),
        ("QUIET_RATE", "1/min", 'quiet_rate = "2/s"', "quiet_gap", Gap(60.0, 60.0), Gap(0.5, 0.5)),
        (
            "BUDGET",
            '{"bytes": "1 MB"}',
            "budget = {requests = 5}",
            "budget",
            Budget(received_bytes=10**6),
            Budget(5),
        ),
        (
            "DAILY_BUDGET",
            '{"seconds": 9}',
            "daily_budget = {bytes = 5}",
            "daily_budget",
            Budget(seconds=9),
            Budget(None, 5),
        ),
        ("MIN_FREE", "2 GB", 'min_free = "1 kB"', "min_free", 2 * 10**9, 1000),
        ("ROBOTSTXT_OBEY", "False", "robots = true", "robots", False, True),
        ("AUTOTHROTTLE_ENABLED", "True", "autothrottle = false", "autothrottle", True, False),
    ],
)
def test_the_command_line_goes_before_the_map_and_the_map_before_the_settings(
    settings: Settings, setting: str, value: str, toml: str, name: str, of_setting: Any, of_map: Any
) -> None:
    settings.set(setting, value, priority="project")
    assert getattr(owed(settings, ""), name) == of_setting
    assert getattr(owed(settings, toml), name) == of_map
    settings.set(setting, value, priority="cmdline")
    assert getattr(owed(settings, toml), name) == of_setting


def test_without_a_word_a_map_is_asked_without_gaps_and_limits(settings: Settings) -> None:
    found = owed(settings, "")
    assert (found.gap, found.host_gap, found.store_gap, found.quiet) == (NO_GAP, NO_GAP, NO_GAP, ())
    assert (found.budget, found.daily_budget, found.min_free) == (Budget(), Budget(), None)
    assert not found.autothrottle
    assert found.robots


@pytest.mark.parametrize(
    "name", ["DELAY", "QUIET_HOURS", "QUIET_RATE", "BUDGET", "MIN_FREE", "HOST_CONCURRENCY"]
)
def test_a_setting_that_cannot_be_read_is_named(settings: Settings, name: str) -> None:
    settings.set(name, "nonsense", priority="cmdline")
    with pytest.raises(ConfigurationError, match=f"{name} 'nonsense' cannot be"):
        owed(settings, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [("HOST_CONCURRENCY", "-1"), ("BUDGET", '{"requests": 2.5}'), ("BUDGET", '{"bytes": 0}')],
)
def test_a_setting_that_asks_nothing_or_is_no_number_is_named(
    settings: Settings, name: str, value: str
) -> None:
    settings.set(name, value, priority="cmdline")
    with pytest.raises(ConfigurationError, match=f"^{name} "):
        owed(settings, "")


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ('[hosts."http://maps.example.net/"]\nconcurrency = 1', "is no host; write its name alone"),
        ('[hosts."maps.example.net:80"]\nconcurrency = 1', "is no host; write its name alone"),
        ('[hosts."127.0.0.1:80"]\nconcurrency = 1', "is no host; write its name alone"),
        ("[hosts.maps.example.net]\nconcurrency = 1", "its name stands in quotes"),
        ('[hosts.h]\nconcurrency = "1"', "key 'concurrency': expected"),
        (
            "[hosts.h]\nrequests_per_second = 1e-9",
            "key 'requests_per_second': 1e-09 requests per second are fewer",
        ),
    ],
)
def test_a_table_of_a_host_that_would_limit_nothing_is_refused(
    settings: Settings, toml: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        owed(settings, toml)


def test_of_a_delay_and_a_rate_the_slower_counts(settings: Settings) -> None:
    assert owed(settings, "delay = [0.1, 0.9]\nrequests_per_second = 2").gap == Gap(0.5, 0.9)


def test_a_host_has_the_limits_of_its_own_table(settings: Settings) -> None:
    found = owed(settings, '[hosts."Maps.Example.Net"]\nconcurrency = 2\nrequests_per_second = 4')
    assert (found.host_concurrency, found.host_gap) == (2, Gap(0.25, 0.25))


def test_settings_hold_for_a_host_without_a_table(settings: Settings) -> None:
    settings.setdict({"HOST_CONCURRENCY": 2, "HOST_REQUESTS_PER_SECOND": 4})
    found = owed(settings, "requests_per_second = 5")
    assert (found.host_concurrency, found.host_gap) == (2, Gap(0.25, 0.25))


def test_a_single_map_can_be_asked_faster_by_hand_than_it_says_itself(settings: Settings) -> None:
    assert owed(settings, "requests_per_second = 5").host_gap == NO_GAP


def test_without_a_table_all_maps_of_a_host_have_what_the_most_generous_of_them_has(
    settings: Settings,
) -> None:
    other = '[n]\nurl = "http://maps.example.net/n/"\nconcurrency = 6\nrequests_per_second = 10\n'
    elsewhere = '[o]\nurl = "http://other.example.net/"\nconcurrency = 60\n'
    found = owed(settings, f"concurrency = 3\ndelay = [0.2, 0.4]\n{other}{elsewhere}")
    assert (found.concurrency, found.host_concurrency, found.host_gap) == (3, 6, Gap(0.1, 0.1))


def test_one_map_without_a_rate_leaves_its_host_without_one(settings: Settings) -> None:
    assert owed(settings, '[n]\nurl = "http://maps.example.net/"\nrequests_per_second = 1').host_gap == NO_GAP


@pytest.mark.parametrize(
    ("toml", "concurrency", "gap"),
    [
        ("concurrency = 3", 3, NO_GAP),
        ('[o]\nurl = "http://other.example.net/"\nconcurrency = 60\ndelay = [0.2, 0.4]', 60, Gap(0.2, 0.2)),
        ('[hosts."other.example.net"]\nconcurrency = 2\ndelay = 5', 2, Gap(5.0, 5.0)),
    ],
    ids=["the host has no map", "the host has a map", "the host has a table"],
)
def test_another_host_has_limits_of_its_own(
    settings: Settings, toml: str, concurrency: int, gap: Gap
) -> None:
    assert owed(settings, toml).limits_at("other.example.net") == (concurrency, gap)


def test_the_user_agent_names_the_program_and_how_to_reach_who_uses_it(settings: Settings) -> None:
    assert owed(settings, "").user_agents == ("TileHarvest/0.1",)
    settings.set("CONTACT", "all@example.net")
    assert owed(settings, "").user_agents == ("TileHarvest/0.1 (+all@example.net)",)
    assert owed(settings, 'contact = "me@example.net"').user_agents == ("TileHarvest/0.1 (+me@example.net)",)


def test_user_agents_that_are_listed_take_the_place_of_ours(settings: Settings) -> None:
    assert owed(settings, 'contact = "me"\nuser_agents = ["A", "B"]').user_agents == ("A", "B")


def test_in_quiet_hours_nothing_is_asked() -> None:
    rules = Rules("h", 1, Gap(1.0, 1.0), quiet=QUIET)
    assert rules.gap_at(NOON) == Gap(1.0, 1.0)
    assert rules.gap_at(EVENING) is None


def test_in_quiet_hours_with_a_rate_it_is_asked_more_slowly_and_never_faster() -> None:
    rules = Rules("h", 1, Gap(1.0, 1.0), quiet=QUIET, quiet_gap=Gap(5.0, 5.0))
    assert rules.gap_at(EVENING) == Gap(5.0, 5.0)
    slow = Rules("h", 1, Gap(9.0, 9.0), quiet=QUIET, quiet_gap=Gap(5.0, 5.0))
    assert slow.gap_at(EVENING) == Gap(9.0, 9.0)


def test_a_rate_set_by_hand_is_not_faster_than_quiet_hours_and_robots_txt_allow() -> None:
    rules = Rules("h", 1, Gap(1.0, 1.0), quiet=QUIET, quiet_gap=Gap(5.0, 5.0), crawl_gap=Gap(0.5, 0.5))
    assert rules.gap_at(NOON, by_hand=Gap(0.7, 0.7)) == Gap(0.7, 0.7)
    assert rules.gap_at(NOON, by_hand=Gap(0.1, 0.1)) == Gap(0.5, 0.5)
    assert rules.gap_at(EVENING, by_hand=Gap(0.1, 0.1)) == Gap(5.0, 5.0)


def test_a_hosts_delay_may_be_random_and_of_both_the_slower_counts(settings: Settings) -> None:
    table = '[hosts."maps.example.net"]\ndelay = [0.1, 0.9]\nrequests_per_second = 2\n'
    assert owed(settings, table).host_gap == Gap(0.5, 0.9)


def test_a_hosts_delay_on_the_command_line_takes_the_place_of_its_table(settings: Settings) -> None:
    settings.set("HOST_DELAY", "[0.1, 0.2]", priority="cmdline")
    table = '[hosts."maps.example.net"]\nrequests_per_second = 1\n'
    assert owed(settings, table).host_gap == Gap(0.1, 0.2)


def test_of_both_settings_of_a_hosts_pace_the_slower_counts(settings: Settings) -> None:
    settings.setdict({"HOST_DELAY": [0.1, 0.9], "HOST_REQUESTS_PER_SECOND": 2})
    assert owed(settings, "").host_gap == Gap(0.5, 0.9)
    settings.setdict({"HOST_DELAY": 3, "HOST_REQUESTS_PER_SECOND": 2})
    assert owed(settings, "").host_gap == Gap(3.0, 3.0)


@pytest.mark.parametrize(
    ("name", "value", "gap"),
    [("HOST_DELAY", "0.1", Gap(0.1, 0.1)), ("HOST_REQUESTS_PER_SECOND", "10", Gap(0.1, 0.1))],
)
def test_one_of_both_on_the_command_line_takes_the_place_of_the_other_in_the_settings(
    settings: Settings, name: str, value: str, gap: Gap
) -> None:
    settings.setdict({"HOST_DELAY": 5, "HOST_REQUESTS_PER_SECOND": 0.5})
    settings.set(name, value, priority="cmdline")
    assert owed(settings, "").host_gap == gap


def test_a_user_agent_that_says_more_of_itself_is_left_as_it_is(settings: Settings) -> None:
    settings.setdict({"USER_AGENT": "Own/2 (+http://own.example.net)", "CONTACT": "all@example.net"})
    assert owed(settings, "").user_agents == ("Own/2 (+http://own.example.net)",)


def test_an_occasion_for_messages_that_is_none_is_refused(settings: Settings) -> None:
    owed(settings, "")
    settings.set("NOTIFY_ON", "change,full moon")
    with pytest.raises(ConfigurationError, match="NOTIFY_ON 'full moon' is none of: "):
        notice_occasions(settings, described_map(settings, "m"))
