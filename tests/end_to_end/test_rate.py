"""The rate of a harvest that is changed from another terminal while it runs."""

from __future__ import annotations

import json
import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.bad_input.small_site import publish
from tests.end_to_end.gaps import assert_apart, gaps_between, given_starts
from tests.end_to_end.project import answered, await_condition, stop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.servers.nginx import Nginx


def test_a_rate_set_by_hand_holds_for_the_running_harvest(
    project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    server = nginx(publish(tmp_path / "site").folder)
    project.add_map("small", server.url, requests_per_second=4)
    phases = {}
    log = project.folder / "harvest.log"
    log.touch()
    settings = ("-s", f"LOG_FILE={log}", "-s", "LOG_LEVEL=DEBUG")
    with project.running("harvest", "small", *settings) as process:
        assert await_condition(lambda: answered(server) > 0, process)
        for rate, gap in ((None, 0.25), ("8/s", 0.125), ("2/s", 0.5)):
            if rate is not None:
                told = project.scrapy("rate", "small", rate).stdout
                assert f"is asked at {rate}, as set by hand, until scrapy rate small default; its own" in told
                said = f"the rate of map 'small', set by hand: {rate}"
                assert await_condition(lambda: said in log.read_text(), process)  # noqa: B023
            begin, enough = time.time(), answered(server) + 5
            assert await_condition(lambda: answered(server) >= enough, process)  # noqa: B023
            phases[gap] = (begin, time.time())
        shown = project.scrapy("queue", "small").stdout
        told_to_programs = json.loads(project.scrapy("rate", "small", "--json").stdout)
        taken_back = project.scrapy("rate", "small", "default").stdout
        assert await_condition(lambda: "set by hand: the map's own again" in log.read_text(), process)
        stop(process, signal.SIGTERM)
    assert ["rate", "by", "hand", "2/s"] in [line.split() for line in shown.splitlines()]
    assert told_to_programs == {"map": "small", "by_hand": "2/s", "own": "4/s"}
    assert taken_back == "map 'small' is asked at its own rate: 4/s; none is set by hand\n"
    starts = [line.time - line.duration for line in server.log()]
    for gap, (begin, end) in phases.items():
        gaps = [after - before for before, after in pairwise(starts) if begin < before and after < end]
        assert_apart(gaps, gap, slack=0.25 * gap)
    # Faster than its own rate, as it was told.
    told = log.read_text().split("set by hand: 8/s")[1].split("set by hand: 2/s")[0]
    assert min(gaps_between(given_starts(told, "small"))) == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("rate", "wrong"),
    [("fast", "'fast' is no rate"), ("0/s", "'0/s' is no rate"), ("0.01/h", "no time to wait")],
)
def test_what_is_no_rate_is_wrong_usage(project: Project, rate: str, wrong: str) -> None:
    project.add_map("small", "http://127.0.0.1:9/")
    done = project.scrapy("rate", "small", rate, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert wrong in line
    assert not project.data.exists()
