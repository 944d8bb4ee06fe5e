"""What a site's owner gets to see of a harvest that was told to be careful: all from nginx's log."""

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.bad_input.small_site import PATHS, address, publish
from tests.end_to_end.clock import Clock
from tests.end_to_end.project import ROOT, Project, answered, await_condition
from tests.servers.nginx import Nginx

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
    quiet = ("-s", "DELAY=0.3", "-s", "QUIET_HOURS=18:00-23:00")
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
        # It is told when the quiet hours begin; what was on the way is answered by then, or soon.
        line = process.stderr.readline()
        assert "has quiet hours: nothing is asked until" in line
        assert "23:00 UTC" in line
        before = list(site.log())
        pause = threading.Event()
        pause.wait(1.0)
        assert len(list(site.log())) <= len(before) + 4
        clock.step(until(23, 30))
        assert process.wait(240) == 0
    assert len(project.versions()) == len(PATHS)


def test_a_budget_of_requests_is_kept_to_the_request_and_the_run_after_goes_on(
    project: Project, site: Nginx
) -> None:
    done = project.scrapy("harvest", NAME, "-s", 'BUDGET={"requests": 17}', check=False)
    first = list(site.log())
    assert (len(first), done.returncode) == (17, 4)
    assert "budget: 17 requests" in done.stderr
    (record,) = project.harvests(NAME)
    assert (record["ended"], record["stopped"], record["requests"]) == (None, "budget: 17 requests", 17)
    project.scrapy("harvest", NAME)
    assert len(project.versions()) == len(PATHS)
    asked = sorted(line.path for line in site.log() if line.path.endswith(".png"))
    assert asked == sorted(map(address, PATHS))
