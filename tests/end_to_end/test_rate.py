"""The rate of a harvest that is changed from another terminal while it runs."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.gaps import assert_none_too_early, gaps_between, given_starts
from tests.end_to_end.project import answered, await_condition, stop
from tests.end_to_end.real_maps import ANTWORLD
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.servers.nginx import Nginx


def test_a_rate_set_by_hand_holds_for_the_running_harvest(
    project: Project, shared_maps: Path, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """The map is so large that its harvest does not end meanwhile, however slow the commands are."""
    server = nginx(published(shared_maps, ANTWORLD, 1, tmp_path / "site"))
    project.add_map("small", server.url, requests_per_second=4)
    log = project.folder / "harvest.log"
    log.touch()
    settings = ("-s", f"LOG_FILE={log}", "-s", "LOG_LEVEL=DEBUG")
    with project.running("harvest", "small", *settings) as process:
        assert await_condition(lambda: answered(server) > 0, process)
        for rate in (None, "8/s", "2/s"):
            if rate is not None:
                told = project.scrapy("rate", "small", rate).stdout
                assert f"is asked at {rate}, as set by hand, until scrapy rate small default; its own" in told
                said = f"the rate of map 'small', set by hand: {rate}"
                assert await_condition(lambda: said in log.read_text(), process)  # noqa: B023
            enough = answered(server) + 5
            assert await_condition(lambda: answered(server) >= enough, process)  # noqa: B023
        shown = project.scrapy("queue", "small").stdout
        told_to_programs = json.loads(project.scrapy("rate", "small", "--json").stdout)
        taken_back = project.scrapy("rate", "small", "default").stdout
        assert await_condition(lambda: "set by hand: the map's own again" in log.read_text(), process)
        stop(process, signal.SIGTERM)
    assert ["rate", "by", "hand", "2/s"] in [line.split() for line in shown.splitlines()]
    assert told_to_programs == {"map": "small", "by_hand": "2/s", "own": "4/s"}
    assert taken_back == "map 'small' is asked at its own rate: 4/s; none is set by hand\n"
    logged = log.read_text()
    assert_none_too_early(server.log(), given_starts(logged, "small"))
    phases = re.split("the rate of map 'small', set by hand", logged)
    for phase, gap in zip(phases[:3], (0.25, 0.125, 0.5), strict=True):
        assert min(gaps_between(given_starts(phase, "small"))) == pytest.approx(gap)
