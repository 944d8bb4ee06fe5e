"""What a site's owner gets to see of a harvest: limits, robots.txt and who asks, from nginx's log."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, address, publish
from tests.end_to_end.clock import Clock
from tests.end_to_end.project import ROOT, Project, answered, await_condition
from tests.servers.nginx import LogLine, Nginx
from tests.servers.nginx import nginx as nginx_server

NAME: Final = "careful"


@pytest.fixture
def site(project: Project, tmp_path: Path, nginx: Callable[..., Nginx]) -> Nginx:
    """A small site, whose map the project has."""
    site = nginx(publish(tmp_path / "site").folder)
    project.add_map(NAME, site.url, contact="owner@example.net")
    return site


def until(hour: int, minute: int) -> float:
    """Returns the seconds from that time of yesterday until now, as a negative number."""
    now = datetime.now(UTC)
    return (now.replace(hour=hour, minute=minute) - now - timedelta(days=1)).total_seconds()


def test_in_quiet_hours_nothing_is_asked_and_then_it_goes_on(
    project: Project, site: Nginx, tmp_path: Path
) -> None:
    clock = Clock(tmp_path / "clock")
    clock.step(until(17, 30))
    quiet = ("-s", "DELAY=0.3", "-s", "QUIET_HOURS=18:00-23:00", "-s", "PROGRESS_INTERVAL=0.5")
    with subprocess.Popen(
        [sys.executable, "-m", "scrapy", "harvest", NAME, *quiet],
        cwd=ROOT,
        env={**project.environment, **clock.environment},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        await_condition(lambda: answered(site) > 3, process)
        clock.step(until(18, 30))
        assert process.stderr is not None
        # It is told when the quiet hours have begun; what was on the way is answered by then, or soon.
        line = next(line for line in process.stderr if "quiet hours" in line)
        assert "23:00 UTC" in line
        before = list(site.log())
        pause = threading.Event()
        pause.wait(1.0)
        assert len(list(site.log())) <= len(before) + 4
        clock.step(until(23, 30))
        assert process.wait(240) == 0
    assert len(project.versions()) == len(PATHS)


@pytest.mark.parametrize("is_queue_lost", [False, True])
def test_a_budget_of_requests_is_kept_to_the_request_and_the_run_after_goes_on(
    project: Project, site: Nginx, is_queue_lost: bool
) -> None:
    harvest = ("harvest", NAME, "-a", f"day={FIRST_DAY}")
    done = project.scrapy(*harvest, "-s", 'BUDGET={"requests": 17}', check=False)
    first = list(site.log())
    assert (len(first), done.returncode) == (17, 4)
    assert "budget: 17 requests" in done.stderr
    (record,) = project.harvests(NAME)
    assert (record["ended"], record["stopped"], record["requests"]) == (None, "budget: 17 requests", 17)
    if is_queue_lost:
        shutil.rmtree(project.data / "queues")
    project.scrapy(*harvest)
    assert len(project.versions()) == len(PATHS)
    asked = sorted(line.path for line in site.log() if line.path.endswith(".png"))
    assert asked == sorted(map(address, PATHS))


# -- robots.txt, and who asks

CONTACT = "me@example.net"
AGENT = f"TileHarvest/0.1 (+{CONTACT})"
POOL = [f"Harvester/{number}.0" for number in range(1000)]
FORBIDDEN = {path for path in PATHS if len(path) == 2 and path.startswith("3")}
CONFIG = "/overviewerConfig.js"
TELLING = (
    *("-s", "AUTOTHROTTLE_ENABLED=True"),
    *("-s", "AUTOTHROTTLE_START_DELAY=0"),
    *("-s", "AUTOTHROTTLE_DEBUG=True"),
    *("-L", "INFO"),
)
"""So that Scrapy's AutoThrottle says what it goes by."""


class Harvested(NamedTuple):
    status: int
    reports: dict[str, dict[str, Any]]
    stderr: str
    project: Project
    partly: list[LogLine]
    """What was asked of a site that forbids a part."""
    wholly: list[LogLine]
    """What was asked of one that forbids everything, by a map that obeys and one that has the permission."""


@pytest.fixture(scope="module")
def harvested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harvested]:
    folder = tmp_path_factory.mktemp("manners")
    project = Project(folder / "project")
    project.folder.mkdir()
    with ExitStack() as servers:
        rules = ["User-agent: *\nDisallow: /world-day/3/\n", "User-agent: *\nDisallow: /\n"]
        running = []
        for name, text in zip(("partly", "wholly"), rules, strict=True):
            site = publish(folder / name)
            (site.folder / "robots.txt").write_text(text)
            running.append(servers.enter_context(nginx_server(site.folder)))
        partly, wholly = running
        project.add_map("partly", partly.url, contact=CONTACT, first="head")
        project.add_map("wholly", wholly.url, contact=CONTACT)
        project.add_map("permitted", wholly.url, robots=False, user_agents=POOL, first="head")
        names = ("partly", "wholly", "permitted")
        done = project.scrapy("harvest", *names, "-a", f"day={FIRST_DAY}", "--json", *TELLING, check=False)
        reports = {report["map"]: report for report in json.loads(done.stdout)}
        yield Harvested(
            done.returncode, reports, done.stderr, project, list(partly.log()), list(wholly.log())
        )


def test_a_forbidden_part_is_never_asked_for_and_its_tiles_fail(harvested: Harvested) -> None:
    assert harvested.reports["partly"]["counts"] == {"add": 16, "fail": 4}
    assert harvested.partly[0].path == "/robots.txt"
    assert {line.agent for line in harvested.partly} == {AGENT}
    asked = Counter(line.path for line in harvested.partly)
    assert asked == Counter(
        ["/robots.txt", CONFIG, *(address(path) for path in PATHS if path not in FORBIDDEN for _ in "HG")]
    )
    rows = json.loads(harvested.project.scrapy("failures", "partly", "--json").stdout)
    assert [row["reason"] for row in rows] == ["robots.txt forbids it"] * 4


def test_of_a_forbidden_map_nothing_but_robots_txt_is_asked_for(harvested: Harvested) -> None:
    assert [line.path for line in harvested.wholly if line.agent == AGENT] == ["/robots.txt"]
    assert harvested.reports["wholly"]["exit_status"] == harvested.status == 5
    (line,) = [line for line in harvested.stderr.splitlines() if "/robots.txt forbids" in line]
    assert "ask the owner" in line
    assert "Traceback" not in harvested.stderr


def test_with_the_permission_all_but_robots_txt_is_asked_and_each_block_by_one_of_a_pool(
    harvested: Harvested,
) -> None:
    assert harvested.reports["permitted"]["counts"] == {"add": 20}
    asked = [line for line in harvested.wholly if line.agent in POOL]
    assert "/robots.txt" not in {line.path for line in asked}
    assert len(asked) == len(harvested.wholly) - 1
    # Of so many, six blocks or more take the same one less than once in a million million runs.
    assert len({line.agent for line in asked if line.path != CONFIG}) > 1


def test_autothrottle_hears_how_long_the_answers_to_heads_took(harvested: Harvested) -> None:
    assert re.search(r"latency: +\d+ ms \| size: +0 bytes", harvested.stderr)
