"""A harvest that is steered from another terminal while it runs: paused, resumed, stopped."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, address, publish
from tests.end_to_end.forking import Forked
from tests.end_to_end.project import Project, answered, await_condition
from tests.servers.nginx import nginx as nginx_server

DAY: Final = ("-a", f"day={FIRST_DAY}")
BEGUN: Final = 10
"""Requests after which it is paused: a quarter of all."""
SLOW: Final = 4
"""Requests per second until then, so few that a busy machine hears of the pause long before the last one."""
LEASE: Final = 4.0
"""Seconds. On a busy machine a process may come late to extend a lease, but not that late."""
CONCURRENCY: Final = 2
"""Requests that are on the way when it is paused, at the most."""
PUSHED: Final = "-1_-2_2"
"""A tile that was asked before the pause, so that only the push asks for it later."""
PUSHED_PATH: Final = "0"


def describe(project: Project, urls: dict[str, str], rate: int, concurrency: int) -> None:
    project.maps_file.unlink(missing_ok=True)
    pace = {"requests_per_second": rate, "concurrency": concurrency}
    project.add_map("small", urls["small"], first="head", **pace)
    project.add_map("other", urls["other"])


@contextmanager
def harvesting(project: Project, log: Path) -> Iterator[Forked]:
    """A harvest that runs."""
    log.touch()
    options = {"LEASE_SECONDS": LEASE, "LOG_FILE": log, "LOG_LEVEL": "INFO"}
    settings = [word for name, value in options.items() for word in ("-s", f"{name}={value}")]
    with project.running("harvest", "small", *DAY, *settings) as process:
        yield process


def await_pause(process: Forked, log: Path) -> None:
    assert await_condition(lambda: "map 'small' is paused since" in log.read_text(), process)


def run_paused(project: Project, log: Path, *words: str) -> tuple[int, str]:
    """Lets a paused harvest end by a command. Returns its status and what it wrote on stderr."""
    with harvesting(project, log) as process:
        await_pause(process, log)
        assert project.scrapy(*words).returncode == 0
        _, errors = process.communicate(timeout=240)
    return process.returncode, errors


def test_a_paused_harvest_asks_nothing_until_it_is_resumed_through_a_kill_and_a_stop(
    project: Project, tmp_path: Path
) -> None:
    """And each tile is asked once after all."""
    site, other = publish(tmp_path / "site"), publish(tmp_path / "other")
    with nginx_server(site.folder) as server, nginx_server(other.folder) as elsewhere:
        urls = {"small": server.url, "other": elsewhere.url}
        describe(project, urls, SLOW, CONCURRENCY)
        log = tmp_path / "log"
        with harvesting(project, log) as process:
            assert await_condition(lambda: answered(server) >= BEGUN, process)
            project.scrapy("pause", "small")
            await_pause(process, log)
            paused, asked = time.time(), len(list(server.log()))
            project.scrapy("push", "small", PUSHED)
            check_what_is_said(project)
            # For longer than a lease.
            assert await_condition(lambda: time.time() > paused + 2 * LEASE, process)
            queue = json.loads(project.scrapy("queue", "small", "--json").stdout)
            assert min(queue["pending/normal"], queue["pending/plus"]) > 0
            process.kill()
        describe(project, urls, 5 * SLOW, 1)
        stopped = "map 'small' was stopped; run again in the same segment to continue\n"
        assert run_paused(project, tmp_path / "log-2", "stop", "small") == (1, stopped)
        before = len(list(server.log()))
        assert 0 <= before - asked <= CONCURRENCY
        assert run_paused(project, tmp_path / "log-3", "resume", "small")[0] == 0
        requests = [(line.method, line.path) for line in server.log()]
    kept = project.query(
        "SELECT sha1 FROM versions JOIN layers ON layers.id = layer JOIN maps ON maps.id = map"
        " WHERE maps.name = 'small'"
    )
    assert sorted(digest for (digest,) in kept) == sorted(map(site.sha1, PATHS))
    pushed = ("HEAD", address(PUSHED_PATH))
    once = Counter((method, address(path)) for path in PATHS for method in ("HEAD", "GET"))
    besides = Counter({("GET", f"/{name}"): 2 for name in ("robots.txt", "overviewerConfig.js")})
    assert Counter(requests) == once + besides + Counter([pushed])
    assert next(one for one in requests[before:] if one[0] == "HEAD") == pushed


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
