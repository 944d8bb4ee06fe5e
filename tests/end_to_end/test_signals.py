"""Ctrl-C and SIGTERM: the first ends cleanly, wherever a harvest waits, and the second at once."""

import json
import signal
import subprocess
import sys
from typing import Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, Stage, address, found, versions, visit
from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import await_condition
from tests.servers import rules

HARVEST: Final = ("harvest", "small", "-a", f"day={FIRST_DAY}")
STOPPING: Final = (
    "stopping: what is on the way finishes, and nothing is lost; press Ctrl-C again to quit at once"
)
STOPPED: Final = "map 'small' was stopped; run again in the same segment to continue"
LEFT: Final = "map 'small' was left at once; run again in the same segment to continue"
LONG: Final = 3600
"""Seconds of a pause that is cut short: no test waits so long for the end of a harvest."""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_a_long_pause_between_two_requests(stage: Stage, how: signal.Signals) -> None:
    """The first two requests probe the site, so the harvest itself has not begun."""
    stage.describe(delay=LONG)
    with stage.project.running(*HARVEST) as process:
        assert await_condition(lambda: len(stage.site.received) == 1, process)
        process.send_signal(how)
        assert process.stderr.readline() == f"{STOPPING}\n"
        _, errors = process.communicate(timeout=240)
    assert (process.returncode, errors) == (1, f"{STOPPED}\n")


def test_the_second_signal_quits_at_once_and_nothing_is_lost(stage: Stage) -> None:
    """While the first waits for an answer that does not come."""
    stage.site.rules[address("3")] = rules.hang()
    with stage.project.running(*HARVEST, "--json") as process:
        assert await_condition(lambda: address("3") in (one.path for one in stage.site.received), process)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == f"{STOPPING}\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=240)
    assert process.returncode == 1
    assert errors == f"{LEFT}\n"
    assert json.loads(output) == []
    stage.site.rules.clear()
    assert visit(stage.project, FIRST_DAY).counts == {"add": len(PATHS)}
    for path in PATHS:
        (version,) = versions(stage.project, path)
        assert version[1] == stage.files.sha1(path)
        assert found(stage.project)[path].outcome == "add"


@pytest.mark.parametrize("signalled", [True, False], ids=["signal", "order"])
def test_a_signal_is_for_all_maps_and_an_order_for_one(stage: Stage, signalled: bool) -> None:
    stage.describe(delay=LONG)
    stage.project.add_map("other", f"{stage.site.url}/", requests_per_second=1000)
    names = ["small", "other", "--at-once", "1"]
    with stage.project.running("harvest", *names, "-a", f"day={FIRST_DAY}", "--json") as process:
        assert await_condition(lambda: len(stage.site.received) == 1, process)
        if signalled:
            process.send_signal(signal.SIGTERM)
        else:
            stage.project.scrapy("stop", "small")
        output, _ = process.communicate(timeout=240)
    assert process.returncode == 1
    ends = {report["map"]: report["finished"] for report in json.loads(output)}
    assert ends == ({"small": False} if signalled else {"small": False, "other": True})
    assert (len(stage.site.received) == 1) == signalled


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_scrapy_add_with_one_line_while_the_site_is_silent(
    stage: Stage, how: signal.Signals
) -> None:
    """The program is started as a user starts it: the end of a forked one frees no memory."""
    stage.site.rules["/robots.txt"] = rules.hang()
    command = (sys.executable, "-m", "scrapy", "add", "other", f"{stage.site.url}/", "--contact=")
    with subprocess.Popen(
        command, cwd=ROOT, env=stage.project.environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert await_condition(lambda: bool(stage.site.received), process)
        process.send_signal(how)
        _, said = process.communicate(timeout=240)
    assert process.returncode == 5
    assert said.splitlines()[-1] == f"error: {stage.site.url}/ was not probed to the end; nothing was added"
