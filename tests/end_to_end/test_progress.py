"""How far a harvest is, told alike everywhere: on a terminal, in lines, by `scrapy queue`, and by the
viewer's API."""

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    SECOND_DAY,
    Stage,
    address,
    staged,
    visit,
)
from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import await_condition
from tests.history.outcomes import RESULTS
from tests.servers import rules
from tests.servers.tmux import terminal
from tests.viewer.asking import serving
from tests.viewer.building import World

HELD: Final = "3"
"""A tile that is not answered, so that the harvest cannot go below it, or to its end."""
DONE: Final = 15
"""All tiles but that and those below it."""


def killed_half_way(stage: Stage) -> None:
    """The second day's harvest, of which everything is recorded that was answered."""
    visit(stage.project, FIRST_DAY)
    stage.site.rules.update({address(HELD): rules.hang(), address("00"): rules.status(403)})
    recorded = RESULTS + "SELECT count(*) FROM results WHERE outcome IN ('ign', 'fail')"
    # The next run has a share of the connections when that of the killed one has ended.
    soon = ("-s", "LEASE_SECONDS=2")
    with stage.project.running("harvest", "small", "-a", f"day={SECOND_DAY}", *soon) as process:
        assert await_condition(lambda: stage.project.query(recorded) == [(DONE,)], process)
        process.kill()
        process.wait()
    stage.site.rules.clear()


def told_by_queue(stage: Stage) -> dict[str, Any]:
    told = json.loads(stage.project.scrapy("queue", "small", "--json").stdout)
    return dict(told["harvest"])


def told_by_viewer(stage: Stage) -> tuple[dict[str, Any], dict[str, Any]]:
    """How far the harvest is, and its entry among all."""
    with serving(cast("World", stage.project)) as client:
        answer = client.get("/api/v1/maps/small/harvests").json
    return answer["running"], answer["harvests"][0]


def test_a_harvest_that_was_killed_is_told_everywhere_alike_and_goes_on_from_there(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        killed_half_way(stage)
        queue = told_by_queue(stage)
        assert (queue["tiles_done"], queue["tiles_expected"], queue["failures"]) == (DONE, 20, 1)
        assert (queue["counts"], queue["state"]) == ({"ign": DONE - 1, "fail": 1}, "interrupted")
        running, entry = told_by_viewer(stage)
        for name in ("tiles_done", "tiles_expected", "failures", "seconds_left", "requests_per_second"):
            assert running[name] == queue[name]
        for name in ("day", "counts", "requests", "received_bytes", "seconds_worked"):
            assert entry[name] == queue[name]

        stage.project.scrapy("pause", "small")
        program = [sys.executable, "-m", "scrapy", "harvest", "small", "-a", f"day={SECOND_DAY}"]
        with terminal(tmp_path, program, environment=stage.project.environment, workplace=ROOT) as shown:
            screen = shown.await_screen(lambda lines: "15/20" in "".join(lines) and "paused" in lines[-2])
            # The log's line stands above what moves, whole.
            assert screen[0].startswith("WARNING: map 'small' is paused since")
            assert screen[-2].startswith("small ")
            assert screen[-2].rstrip().endswith(" 15/20 tiles  paused")
            cost = f"{queue['requests']} requests, {queue['received_bytes']} B"
            assert screen[-1].rstrip() == f"14 unchanged, 1 failed; {cost}"
            assert all(len(line) <= 80 for line in screen)

            stage.project.scrapy("resume", "small")
            screen = shown.last_screen()
        # What has moved is gone, and the report is in its place.
        assert not any("15/20" in line or "━╸" in line for line in screen)
        # The kill may have come before the queue knew that the tile had failed: then it was asked again.
        assert any(": done; 20 unchanged; " in line or "19 unchanged, 1 failed; " in line for line in screen)
        assert stage.project.scrapy("queue", "small").stdout.startswith("no harvest is running\n\n")
