"""What a site's owner sees in the log: robots.txt obeyed, and who asks."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, address, publish
from tests.end_to_end.project import Project
from tests.servers.nginx import LogLine, nginx

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
            running.append(servers.enter_context(nginx(site.folder)))
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
