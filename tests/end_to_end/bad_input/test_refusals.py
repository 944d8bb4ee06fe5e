"""Hosts that go down, that refuse requests because they were asked too much, and that refuse HEAD."""

from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    PATHS,
    SECOND_DAY,
    Stage,
    address,
    drawn,
    visit,
)
from tests.end_to_end.project import Project
from tests.servers import rules
from tests.servers.nginx import nginx

FINE: Final = 10
"""Requests that are answered: robots.txt, the configuration, and some tiles."""
ROW: Final = 3
"""Failures, or 403, in a row that make the host doubted."""
AT_ONCE: Final = 2
SETTINGS: Final = (
    *("-s", f"HOST_DOWN_AFTER={ROW}", "-s", "HOST_DOWN_PAUSE=0.1", "-s", "HOST_DOWN_LONGEST_PAUSE=0.2"),
)


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """One request at a time: no other one is on the way when the host refuses."""
    stage.describe(concurrency=1)
    return stage


def test_a_host_that_goes_down_ends_the_harvest_or_comes_back_and_nothing_is_lost(stage: Stage) -> None:
    stage.site.rule_for_all = rules.counted(rules.reset(), FINE)
    done = visit(stage.project, FIRST_DAY, *SETTINGS, "-s", "HOST_DOWN_PATIENCE=1")
    (report,) = done.reports
    assert (done.status, report["exit_status"], report["finished"]) == (5, 5, False)
    assert "fail" not in report["counts"]
    warning, error = done.said.splitlines()
    assert warning.startswith("WARNING: 127.0.0.1 does not answer")
    assert error.startswith("ERROR: 127.0.0.1 has not answered for 1 s")
    assert error.endswith("everything that was found is kept; run it again to continue")
    before = len(stage.site.received)
    # It is down for the row of failures, and three probes.
    stage.site.rule_for_all = rules.counted(rules.reset(), 5, 5 + ROW + 3)
    done = visit(stage.project, FIRST_DAY, *SETTINGS)
    assert (done.status, done.counts) == (0, {"add": len(PATHS)})
    (warning,) = done.said.splitlines()
    assert warning.startswith("WARNING: 127.0.0.1 does not answer")
    assert done.reports[0]["requests"] == len(stage.site.received) - before


def test_a_limit_without_a_word_is_rested_on_and_the_harvest_goes_on(stage: Stage) -> None:
    stage.site.rule_for_all = rules.limited(FINE, 12)
    done = visit(stage.project, FIRST_DAY, *SETTINGS)
    assert done.counts == {"add": len(PATHS)}
    down, slower, *_ = done.said.splitlines()
    assert "127.0.0.1 does not answer as it should (403 Forbidden)" in down
    assert "write requests_per_second for the map in maps.toml" in slower
    # Robots.txt and the configuration, the refusals, and the probe that is answered.
    assert len(stage.site.received) == 2 + len(PATHS) + 12 + 1


def test_a_limit_that_no_slower_pace_meets_ends_the_harvest_with_what_to_write(stage: Stage) -> None:
    stage.describe(concurrency=AT_ONCE)
    stage.site.rule_for_all = rules.limited(FINE)
    done = visit(stage.project, FIRST_DAY, *SETTINGS, "-s", "HOST_DOWN_PATIENCE=1")
    assert done.status == 5
    (report,) = done.reports
    assert report["finished"] is False
    error = done.said.splitlines()[-1]
    assert error.startswith("ERROR: 127.0.0.1 still refuses requests")
    assert "write it as requests_per_second for the map in maps.toml" in error
    tiles = [one for one in stage.site.received[FINE:] if one.method == "GET"]
    assert len(tiles) <= ROW + AT_ONCE


@pytest.mark.parametrize(
    ("path", "status"), [(address("0"), 403), (address("0"), 429), ("/overviewerConfig.js", 503)]
)
def test_retry_after_lets_the_host_rest_whatever_was_asked(stage: Stage, path: str, status: int) -> None:
    stage.site.rules[path] = rules.first(1, rules.status(status, {"Retry-After": "1"}))
    done = visit(stage.project, FIRST_DAY)
    assert (done.status, done.counts) == (0, {"add": len(PATHS)})
    asked = stage.site.received
    number = next(place for place, one in enumerate(asked) if one.path == path)
    assert asked[number + 1].time >= asked[number].time + 1


def test_a_harvest_of_which_the_rest_is_due_much_later_is_not_finished(stage: Stage) -> None:
    stage.site.rules[address("00")] = rules.status(503)
    done = visit(stage.project, FIRST_DAY, "-s", "RETRY_PAUSE=500", "-s", "CLOSE_WHEN_WAITING=0")
    assert (done.status, done.counts, done.reports[0]["finished"]) == (1, {"add": 19}, False)


@pytest.mark.parametrize("status", [403, 429])
def test_a_canvas_whose_host_refuses_what_is_beyond_its_rate_is_asked_more_slowly_until_it_has_all(
    project: Project, tmp_path: Path, status: int
) -> None:
    """Hardly any place of it has a tile, so nearly all good answers are 404."""
    site, places = tmp_path / "site", 8
    (site / "3").mkdir(parents=True)
    (site / "3/4.png").write_bytes(drawn("tile"))
    limit = f"limit_req zone=beyond; limit_req_status {status};"
    zone = "limit_req_zone $binary_remote_addr zone=beyond:1m rate=40r/s;"
    with nginx(site, location=limit, http=zone) as server:
        project.add_map("canvas", f"{server.url}/{{x}}/{{y}}.png", canvas={"tiles": [places, places]})
        done = project.scrapy("crawl", "xyz", "-a", "map=canvas", *SETTINGS, "-s", "LOG_LEVEL=WARNING")
    assert project.harvests("canvas")[0]["counts"] == {"add": 1, "404": places**2 - 1}
    said, advice = done.stderr.splitlines(), "write requests_per_second for the map in maps.toml"
    others = [line for line in said if advice not in line]
    assert len(others) < len(said)
    assert all(f"127.0.0.1 does not answer as it should ({status} " in line for line in others)


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_of_head_on_a_whole_map_is_noticed_once_per_harvest(stage: Stage, status: int) -> None:
    stage.site.rule_for_all = rules.only("HEAD", rules.status(status))
    assert visit(stage.project, FIRST_DAY).counts == {"add": 20}
    stage.site.received.clear()
    assert visit(stage.project, SECOND_DAY).counts == {"ign": 20}
    assert [request.method for request in stage.site.received].count("HEAD") == 1
    assert len(stage.site.received) == 2 + 1 + 20
