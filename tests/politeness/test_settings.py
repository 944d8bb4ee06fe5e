"""What is owed to a map's owner: by command line, entry and settings, by day and by night."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from scrapy.settings import Settings

from tileharvest.errors import BudgetError, ConfigurationError, ExitStatus
from tileharvest.history.costs import Cost
from tileharvest.maps.budgets import Budget
from tileharvest.maps.rates import NO_DELAY, Delay
from tileharvest.maps.settings import described_map
from tileharvest.maps.times import QuietHours
from tileharvest.politeness.rules import Rules, budget_of_run
from tileharvest.politeness.settings import rules_for

OTHER: Final = '[n]\nurl = "http://maps.example.net/n/"\n'
"""Another map of the host."""
EIGHT, ONE = (QuietHours.parse("8:00-9:00"),), (QuietHours.parse("1:00-2:00"),)
DAILY: Final = (Budget(seconds=9), Budget(None, 5))
TABLE: Final = '[hosts."Maps.Example.Net"]\n'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings()
    found.setmodule("tileharvest.settings")
    found.set("TILEHARVEST_MAPS", str(tmp_path / "maps.toml"))
    return found


def owed(settings: Settings, toml: str = "") -> Rules:
    with open(settings["TILEHARVEST_MAPS"], "w") as file:  # noqa: PTH123
        file.write(f'[m]\nurl = "http://maps.example.net/"\n{toml}')
    return rules_for(settings, described_map(settings, "m"))


@pytest.mark.parametrize(
    ("setting", "value", "toml", "name", "of_setting", "of_map"),
    [
        ("DELAY", "[0.1, 0.3]", "delay = 2", "gap", Delay(0.1, 0.3), Delay.of(2.0)),
        ("QUIET_HOURS", '["8:00-9:00"]', 'quiet_hours = "1:00-2:00"', "quiet", EIGHT, ONE),
        ("QUIET_RATE", "1/min", 'quiet_rate = "2/s"', "quiet_gap", Delay.of(60.0), Delay.of(0.5)),
        ("BUDGET", '{"bytes": "1 MB"}', "budget = {requests = 5}", "budget", Budget(None, 10**6), Budget(5)),
        ("DAILY_BUDGET", '{"seconds": 9}', "daily_budget = {bytes = 5}", "daily_budget", *DAILY),
        ("MIN_FREE", "2 GB", 'min_free = "1 kB"', "min_free", 2 * 10**9, 1000),
        ("ROBOTSTXT_OBEY", "False", "robots = true", "robots", False, True),
        ("AUTOTHROTTLE_ENABLED", "True", "autothrottle = false", "autothrottle", True, False),
    ],
)
def test_the_command_line_goes_before_the_map_and_the_map_before_the_settings(
    settings: Settings, setting: str, value: str, toml: str, name: str, of_setting: Any, of_map: Any
) -> None:
    settings.set(setting, value, priority="project")
    assert getattr(owed(settings), name) == of_setting
    assert getattr(owed(settings, toml), name) == of_map
    settings.set(setting, value, priority="cmdline")
    assert getattr(owed(settings, toml), name) == of_setting


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *((name, "nonsense", "'nonsense' cannot be") for name in ("QUIET_HOURS", "QUIET_RATE", "MIN_FREE")),
        ("DELAY", "x", "'x' cannot be: .*write for example delay = 0.5"),
        ("BUDGET", "5", "got `int`; write for example"),
        ("BUDGET", '{"requests": 2.5}', ""),
        ("HOST_CONCURRENCY", "-1", "write for example concurrency = 4"),
        ("ROBOTSTXT_OBEY", "yes", "'yes' cannot be: .*robots = true"),
        ("HOST_DOWN_AFTER", "0", "the first is at least 1"),
        ("HOST_DOWN_AFTER", "often", "the first is at least 1"),
        ("HOST_DOWN_AFTER", "inf", "the first is at least 1"),
        ("HOST_DOWN_PAUSE", "61", "not above the third"),
        ("HOST_DOWN_PATIENCE", "-1", "the last not below 0"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings: Settings, name: str, value: str, message: str) -> None:
    settings.set(name, value, priority="cmdline")
    with pytest.raises(ConfigurationError, match=rf"{name}.*{message}"):
        owed(settings)


def test_quiet_hours_may_be_the_whole_day_only_where_it_is_asked_at_a_rate_then(settings: Settings) -> None:
    settings.set("QUIET_HOURS", ["0:00-12:00", "12:00-24:00"])
    with pytest.raises(ConfigurationError, match=r"map 'm': .* and 12:00-00:00, are the whole day"):
        owed(settings)
    settings.set("QUIET_RATE", "10/min")
    assert owed(settings).quiet


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ('[hosts."http://maps.example.net/"]\nconcurrency = 1', "is not a host; write its name alone"),
        ("[hosts.maps.example.net]\nconcurrency = 1", "its name stands in quotes"),
        ("[hosts.h]\nrequests_per_second = 1e-9", "1e-09 requests per second cannot be"),
    ],
)
def test_a_host_table_that_limits_nothing_is_refused(settings: Settings, toml: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        owed(settings, toml)


@pytest.mark.parametrize(
    ("toml", "own", "host", "limits"),
    [
        ("", {}, "maps", (4, NO_DELAY)),
        (f"{TABLE}concurrency = 2\nrequests_per_second = 4", {}, "maps", (2, Delay.of(0.25))),
        (f"{TABLE}delay = [0.1, 0.9]\nrequests_per_second = 2", {}, "maps", (4, Delay(0.5, 0.9))),
        ("", {"HOST_CONCURRENCY": "2", "HOST_DELAY": "0.25"}, "maps", (2, Delay.of(0.25))),
        (f"{TABLE}delay = 1", {"HOST_DELAY": "[0.1, 0.2]"}, "maps", (4, Delay(0.1, 0.2))),
        # A single map is asked faster by hand.
        ("requests_per_second = 5", {}, "maps", (4, NO_DELAY)),
        (f"delay = [0.2, 0.4]\n{OTHER}concurrency = 6\ndelay = 0.1", {}, "maps", (6, Delay.of(0.1))),
        (f"{OTHER}requests_per_second = 1", {}, "maps", (4, NO_DELAY)),
        # Another host has limits of its own.
        ("concurrency = 3", {}, "o", (3, NO_DELAY)),
        ('[o]\nurl="http://o.example.net/"\nconcurrency=60\ndelay=[0.2, 0.4]', {}, "o", (60, Delay.of(0.2))),
        ('[hosts."o.example.net"]\nconcurrency = 2\ndelay = 5', {}, "o", (2, Delay.of(5.0))),
    ],
)
def test_a_host_has_its_own_limits_or_those_of_its_most_generous_map(
    settings: Settings, toml: str, own: dict[str, Any], host: str, limits: tuple[int, Delay]
) -> None:
    settings.setdict(own, priority="cmdline")
    assert owed(settings, toml).limits_at(f"{host}.example.net") == limits


@pytest.mark.parametrize(
    ("own", "toml", "agents"),
    [
        ({"CONTACT": ""}, "", ("TileHarvest/0.1",)),
        ({"CONTACT": "all@example.net"}, "", ("TileHarvest/0.1 (+all@example.net)",)),
        ({"CONTACT": "all@example.net"}, 'contact = "me"', ("TileHarvest/0.1 (+me)",)),
        ({}, 'contact = "me"\nuser_agents = ["A", "B"]', ("A", "B")),
        ({"USER_AGENT": "Own/2 (+http://o)", "CONTACT": "me"}, "", ("Own/2 (+http://o)",)),
    ],
)
def test_the_user_agent_names_the_program_and_how_to_reach_who_uses_it(
    settings: Settings, own: dict[str, str], toml: str, agents: tuple[str, ...]
) -> None:
    settings.setdict(own)
    assert owed(settings, toml).user_agents == agents


NOON, EVENING = datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 11, 20, 19, tzinfo=UTC)
QUIET: Final = (QuietHours.parse("18:00-23:00"),)


@pytest.mark.parametrize(
    ("gap", "quiet", "by_hand", "at_noon", "in_the_evening"),
    [
        pytest.param(1.0, 5.0, None, 1.0, 5.0, id="quiet hours"),
        pytest.param(9.0, 5.0, None, 9.0, 9.0, id="never faster"),
        pytest.param(1.0, 5.0, 0.7, 0.7, 5.0, id="a rate by hand"),
    ],
)
def test_the_gap_of_the_hour_is_never_shorter_than_quiet_hours_allow(
    gap: float, quiet: float, by_hand: float | None, at_noon: float, in_the_evening: float
) -> None:
    rules = Rules("h", 1, Delay.of(gap), quiet=QUIET, quiet_gap=Delay.of(quiet))
    rate = None if by_hand is None else Delay.of(by_hand)
    assert rules.gap_at(NOON, by_hand=rate) == Delay.of(at_noon)
    assert rules.gap_at(EVENING, by_hand=rate) == Delay.of(in_the_evening)


def test_a_run_may_spend_the_less_of_its_own_budget_and_what_is_left_of_the_day() -> None:
    spent = Cost(requests=70, received_bytes=900, seconds=10.0)
    assert budget_of_run("m", Budget(50, 50, 50.0), Budget(100, 1000, 100.0), spent) == Budget(30, 50, 50.0)
    assert budget_of_run("m", Budget(5), Budget(seconds=9.0), Cost(seconds=4.0)) == Budget(5, None, 5.0)
    assert budget_of_run("m", Budget(), Budget(100), Cost(requests=97)) == Budget(3)


@pytest.mark.parametrize("spent", [Cost(requests=98), Cost(received_bytes=1001), Cost(seconds=60.0)])
def test_nothing_is_asked_when_the_day_has_no_budget_for_a_tile(spent: Cost) -> None:
    with pytest.raises(BudgetError, match=r"has spent its daily budget .* tomorrow") as raised:
        budget_of_run("m", Budget(), Budget(100, 1000, 60.0), spent)
    assert not spent.requests or "(98 requests of 100 requests)" in str(raised.value)
    assert raised.value.exit_status is ExitStatus.BUDGET
    assert raised.value.reason.startswith("daily budget: ")
