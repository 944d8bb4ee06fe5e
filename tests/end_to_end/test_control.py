"""A harvest that is steered from another terminal while it runs: paused, resumed, stopped."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, Stage, address, methods, publish
from tests.end_to_end.forking import Forked
from tests.end_to_end.project import Project, await_condition
from tests.servers import rules
from tests.servers.nginx import Nginx

DAY: Final = ("-a", f"day={FIRST_DAY}")
ASKED: Final = 15
"""Requests before the pause: a third of all, and one at a time."""


@contextmanager
def paused_harvest(stage: Stage, log: Path, gate: rules.Gate | None = None) -> Iterator[Forked]:
    """A harvest that is paused: from its beginning, or while the site keeps an answer at the gate."""
    log.touch()
    options = ("-s", f"LOG_FILE={log}", "-L", "INFO")
    with stage.project.running("harvest", "small", *DAY, *options) as process:
        if gate is not None:
            assert await_condition(lambda: gate.is_reached, process)
            stage.project.scrapy("pause", "small")
        assert await_condition(lambda: "map 'small' is paused since" in log.read_text(), process)
        yield process


def test_a_paused_harvest_asks_nothing_until_it_is_resumed_through_a_kill_and_a_stop(
    stage: Stage, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    """And what is recorded is not asked again after all."""
    project, asked = stage.project, stage.site.received
    stage.describe(first="head", concurrency=1)
    project.add_map("other", nginx(publish(tmp_path / "other", pixels=48).folder).url)

    def recorded() -> list[str]:
        kept = project.query("SELECT sha1 FROM versions")
        return [path for path in PATHS if (stage.files.sha1(path),) in kept]

    gate = stage.site.rule_for_all = rules.Gate(ASKED - 1)
    with paused_harvest(stage, tmp_path / "log", gate) as process:
        gate.open()
        # A tile that was asked before the pause, so that only the push asks for it later.
        project.scrapy("push", "small", "-1_-2_2")
        check_what_is_said(project)
        queue = json.loads(project.scrapy("queue", "small", "--json").stdout)
        assert min(queue["pending/normal"], queue["pending/plus"]) > 0
        process.kill()
    with paused_harvest(stage, tmp_path / "log-2") as process:
        project.scrapy("stop", "small")
        _, errors = process.communicate(timeout=240)
    assert errors == "map 'small' was stopped; run again in the same segment to continue\n"
    assert (process.returncode, len(asked)) == (1, ASKED)
    before = recorded()
    with paused_harvest(stage, tmp_path / "log-3") as process:
        project.scrapy("resume", "small")
        process.communicate(timeout=240)
    assert process.returncode == 0
    assert [methods(stage.site, path).count("GET") for path in before] == [1] * len(before)
    assert 0 < len(before) < len(recorded()) == len(PATHS)
    pushed = next(one for one in asked[ASKED:] if one.method == "HEAD")
    assert pushed.path == address("0")


def check_what_is_said(project: Project) -> None:
    """Of a map that is paused and harvested."""
    told = json.loads(project.scrapy("pause", "small", "--json").stdout)
    since = told["paused"]
    assert told == {"map": "small", "paused": since, "is_running": True}
    assert f"is paused already, since {since};" in project.scrapy("pause", "small").stdout
    assert "small (paused) " in project.scrapy("maps").stdout
    second = project.scrapy("harvest", "small", *DAY, check=False)
    assert second.returncode == 2
    assert "the harvest of map 'small' runs in another process already" in second.stderr
    passed_over = (
        f"map 'small' is paused since {since} and was passed over; scrapy resume small lets it go on\n"
    )
    several = project.scrapy("harvest", "small", "other", *DAY, "--json")
    (report,) = json.loads(several.stdout)
    assert (report["map"], report["finished"], several.stderr) == ("other", True, passed_over)
    cron = project.scrapy("harvest", "small", *DAY, "--no-wait")
    assert (cron.stdout, cron.stderr) == ("", passed_over)


def test_a_map_that_nobody_harvests_is_neither_stopped_nor_resumed(project: Project) -> None:
    project.add_map("small", "http://127.0.0.1:1/")
    done = project.scrapy("stop", "small", check=False)
    nobody = "error: nobody works on map 'small' now: there is nothing to stop\n"
    assert (done.returncode, done.stderr) == (1, nobody)
    assert project.scrapy("resume", "small").stdout == "map 'small' was not paused\n"
