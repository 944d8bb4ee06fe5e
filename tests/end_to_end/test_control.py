"""A harvest that is steered from another terminal while it runs: paused, resumed, stopped.

The story of one paused harvest is told once, and each test looks at a part of it.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, address, publish
from tests.end_to_end.project import Project, answered, await_condition
from tests.servers.nginx import nginx as nginx_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.bad_input.small_site import SmallSite
    from tests.end_to_end.forking import Forked
    from tests.servers.nginx import Nginx

HARVEST: Final = ("harvest", "small", "-a", f"day={FIRST_DAY}")
BEGUN: Final = 10
"""Requests after which it is paused: a quarter of all."""
SLOW: Final = 4
"""Requests per second until then, so few that a busy machine hears of the pause long before the last one."""
RATE: Final = 20
"""Requests per second after the pause."""
LEASE: Final = 4.0
"""Seconds. On a busy machine a process may come late to extend a lease, but not that late."""
PAUSE: Final = 2 * LEASE
CONCURRENCY: Final = 2
"""Requests that are on the way when it is paused, at the most."""
PUSHED: Final = "-1_-2_2"
"""A tile that was asked before the pause, so that only the push asks for it later."""
PUSHED_PATH: Final = "0"
IS_PAUSED: Final = "map 'small' is paused since"


@dataclass(frozen=True, slots=True)
class Said:
    """By a command: its exit status, and what it wrote."""

    status: int
    output: str
    errors: str


@dataclass(frozen=True, slots=True)
class Story:
    """What was said and seen; times are in seconds since 1970, and `asked` counts requests."""

    project: Project
    site: SmallSite
    server: Nginx
    said: dict[str, Said] = field(default_factory=dict)
    at: dict[str, float] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    queue: dict[str, Any] = field(default_factory=dict)

    def note(self, what: str) -> None:
        self.at[what] = time.time()
        self.asked[what] = len(list(self.server.log()))

    def tell(self, what: str, *words: str) -> None:
        done = self.project.scrapy(*words, check=False)
        self.said[what] = Said(done.returncode, done.stdout, done.stderr)


@contextmanager
def harvesting(project: Project) -> Iterator[tuple[Forked, Path]]:
    """A harvest that runs, and the file of its log."""
    log = project.folder / f"{len(list(project.folder.iterdir()))}.log"
    log.touch()
    options = {"LEASE_SECONDS": LEASE, "LOG_FILE": log, "LOG_LEVEL": "INFO"}
    settings = [word for name, value in options.items() for word in ("-s", f"{name}={value}")]
    with project.running(*HARVEST, *settings) as process:
        yield process, log


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("steered")
    site, other = publish(folder / "site"), publish(folder / "other")
    project = Project(folder / "project")
    project.folder.mkdir()
    with nginx_server(site.folder) as server, nginx_server(other.folder) as elsewhere:
        describe(project, server, elsewhere, SLOW, CONCURRENCY)
        story = Story(project, site, server)
        story.tell("nobody to stop", "stop", "small")
        pause_and_kill(story)
        describe(project, server, elsewhere, RATE, 1)
        start_and_stop(story)
        start_and_resume(story)
        yield story


def describe(project: Project, server: Nginx, elsewhere: Nginx, rate: int, concurrency: int) -> None:
    project.maps_file.unlink(missing_ok=True)
    pace = {"requests_per_second": rate, "concurrency": concurrency}
    project.add_map("small", server.url, first="head", **pace)
    project.add_map("other", elsewhere.url)


def pause_and_kill(story: Story) -> None:
    with harvesting(story.project) as (process, log):
        assert await_condition(lambda: answered(story.server) >= BEGUN, process)
        story.tell("pause", "pause", "small")
        assert await_condition(lambda: IS_PAUSED in log.read_text(), process)
        story.note("paused")
        story.tell("pause again", "pause", "small")
        story.tell("pause for programs", "pause", "small", "--json")
        story.tell("push", "push", "small", PUSHED)
        story.tell("a second one", *HARVEST)
        story.tell("several", "harvest", "small", "other", "-a", f"day={FIRST_DAY}", "--json")
        story.tell("for cron", "harvest", "small", "-a", f"day={FIRST_DAY}", "--no-wait")
        story.tell("maps", "maps")
        assert await_condition(lambda: time.time() > story.at["paused"] + PAUSE, process)
        story.queue.update(json.loads(story.project.scrapy("queue", "small", "--json").stdout))
    story.tell("nobody left to stop", "stop", "small")


def start_and_stop(story: Story) -> None:
    with harvesting(story.project) as (process, log):
        assert await_condition(lambda: IS_PAUSED in log.read_text(), process)
        story.tell("stop", "stop", "small")
        output, errors = process.communicate(timeout=240)
        story.said["stopped"] = Said(process.wait(), output, errors)


def start_and_resume(story: Story) -> None:
    with harvesting(story.project) as (process, log):
        assert await_condition(lambda: IS_PAUSED in log.read_text(), process)
        story.note("to be resumed")
        story.tell("resume", "resume", "small")
        output, errors = process.communicate(timeout=240)
        story.said["done"] = Said(process.wait(), output, errors)
    story.tell("resume again", "resume", "small")
    story.tell("resume for programs", "resume", "small", "--json")
    story.tell("resume what is not there", "resume", "none")


def test_nothing_starts_while_it_is_paused(story: Story) -> None:
    """For longer than a lease, nor when a paused map is harvested anew."""
    assert story.at["to be resumed"] - story.at["paused"] > PAUSE
    assert 0 <= story.asked["to be resumed"] - story.asked["paused"] <= CONCURRENCY
    assert story.queue["leased"] == 0
    assert story.queue["pending/normal"] > 0
    assert story.queue["pending/plus"] > 0


def test_whoever_pauses_or_resumes_is_told_what_that_means(story: Story) -> None:
    since = story.queue["paused"]
    assert story.said["pause"].output == (
        "map 'small' is paused: requests on the way finish, no further one starts;"
        " scrapy resume small lets it go on\n"
    )
    assert story.said["pause again"].output.startswith(f"map 'small' is paused already, since {since};")
    assert "small (paused) " in story.said["maps"].output
    assert story.said["resume"].output == "map 'small' goes on\n"
    assert story.said["resume again"].output == "map 'small' was not paused\n"
    assert story.said["resume what is not there"].status == 2
    told = {what: json.loads(story.said[f"{what} for programs"].output) for what in ("pause", "resume")}
    assert told["pause"] == {"map": "small", "paused": since, "is_running": True}
    assert told["resume"] == {"map": "small", "was_paused": False, "is_running": False}


def test_a_second_harvest_of_the_map_says_so_and_is_wrong_usage(story: Story) -> None:
    second = story.said["a second one"]
    assert second.status == 2
    assert second.errors.splitlines()[-1].endswith(
        "the harvest of map 'small' runs in another process already; nothing was changed; let that end, or"
        " stop it with scrapy stop small, then run again"
    )


def test_of_several_maps_and_for_cron_a_paused_one_is_passed_over(story: Story) -> None:
    passed_over = (
        f"map 'small' is paused since {story.queue['paused']} and was passed over;"
        " scrapy resume small lets it go on\n"
    )
    several, for_cron = story.said["several"], story.said["for cron"]
    assert (several.status, several.errors) == (0, passed_over)
    (report,) = json.loads(several.output)
    assert (report["map"], report["finished"]) == ("other", True)
    assert (for_cron.status, for_cron.output, for_cron.errors) == (0, "", passed_over)


def test_a_harvest_of_a_paused_map_is_stopped_before_its_first_request(story: Story) -> None:
    assert story.said["stop"].status == 0
    stopped = story.said["stopped"]
    assert stopped.status == 1
    assert stopped.errors == "map 'small' was stopped; run again in the same segment to continue\n"
    for nobody in (story.said["nobody to stop"], story.said["nobody left to stop"]):
        assert nobody.status == 1
        assert nobody.errors == "error: nobody works on map 'small' now: there is nothing to stop\n"


def test_after_all_that_it_is_complete_and_each_tile_was_asked_once(story: Story) -> None:
    assert story.said["done"].status == 0
    kept = story.project.query(
        "SELECT sha1 FROM versions JOIN layers ON layers.id = layer JOIN maps ON maps.id = map"
        " WHERE maps.name = 'small'"
    )
    assert sorted(digest for (digest,) in kept) == sorted(map(story.site.sha1, PATHS))
    log = list(story.server.log())
    pushed = Counter({("HEAD", address(PUSHED_PATH)): 1})
    once = Counter({(method, address(path)): 1 for path in PATHS for method in ("HEAD", "GET")})
    besides = Counter({("GET", f"/{name}"): 2 for name in ("robots.txt", "overviewerConfig.js")})
    assert Counter((line.method, line.path) for line in log) == once + besides + pushed
    later = log[story.asked["to be resumed"] :]
    assert next(line.path for line in later if line.method == "HEAD") == address(PUSHED_PATH)
