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
from tests.servers.nginx import Nginx
from tests.servers.nginx import nginx as nginx_server

DAY: Final = ("-a", f"day={FIRST_DAY}")
SLOW: Final = 4
"""Requests per second until the pause, so few that a busy machine hears of it long before the last one."""
LEASE: Final = 4.0
"""Seconds. On a busy machine a process may come late to extend a lease, but not that late."""
CONCURRENCY: Final = 2
"""Requests that are on the way when it is paused, at the most."""


@contextmanager
def paused_harvest(project: Project, log: Path, *, site: Nginx | None = None) -> Iterator[Forked]:
    """A harvest that is paused: from its beginning, or once the site has answered a quarter of it all."""
    log.touch()
    options = {"LEASE_SECONDS": LEASE, "LOG_FILE": log, "LOG_LEVEL": "INFO"}
    settings = [word for name, value in options.items() for word in ("-s", f"{name}={value}")]
    with project.running("harvest", "small", *DAY, *settings) as process:
        if site is not None:
            assert await_condition(lambda: answered(site) >= 10, process)
            project.scrapy("pause", "small")
        assert await_condition(lambda: "map 'small' is paused since" in log.read_text(), process)
        yield process


def test_a_paused_harvest_asks_nothing_until_it_is_resumed_through_a_kill_and_a_stop(
    project: Project, tmp_path: Path
) -> None:
    """And each tile is asked once after all."""
    site, other = publish(tmp_path / "site"), publish(tmp_path / "other")
    with nginx_server(site.folder) as server, nginx_server(other.folder) as elsewhere:
        slow = {"first": "head", "requests_per_second": SLOW, "concurrency": CONCURRENCY}
        project.add_map("small", server.url, **slow)
        project.add_map("other", elsewhere.url)
        with paused_harvest(project, tmp_path / "log", site=server) as process:
            paused, asked = time.time(), len(list(server.log()))
            # A tile that was asked before the pause, so that only the push asks for it later.
            project.scrapy("push", "small", "-1_-2_2")
            check_what_is_said(project)
            # For longer than a lease.
            assert await_condition(lambda: time.time() > paused + 2 * LEASE, process)
            queue = json.loads(project.scrapy("queue", "small", "--json").stdout)
            assert min(queue["pending/normal"], queue["pending/plus"]) > 0
            process.kill()
        project.maps_file.unlink()
        project.add_map("small", server.url, first="head", requests_per_second=5 * SLOW, concurrency=1)
        with paused_harvest(project, tmp_path / "log-2") as process:
            project.scrapy("stop", "small")
            _, errors = process.communicate(timeout=240)
        assert errors == "map 'small' was stopped; run again in the same segment to continue\n"
        assert process.returncode == 1
        before = len(list(server.log()))
        assert 0 <= before - asked <= CONCURRENCY
        with paused_harvest(project, tmp_path / "log-3") as process:
            project.scrapy("resume", "small")
            process.communicate(timeout=240)
        assert process.returncode == 0
        requests = [(line.method, line.path) for line in server.log()]
    kept = project.query(
        "SELECT sha1 FROM versions JOIN layers ON layers.id = layer JOIN maps ON maps.id = map"
        " WHERE maps.name = 'small'"
    )
    assert sorted(digest for (digest,) in kept) == sorted(map(site.sha1, PATHS))
    pushed = ("HEAD", address("0"))
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
