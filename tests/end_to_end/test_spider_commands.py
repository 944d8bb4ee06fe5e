"""The commands about queues with the name of a spider that harvests no map, while it runs.

The story is told once, and each test looks at a part of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.project import Project, await_condition
from tests.servers.nginx import nginx as nginx_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.forking import Forked
    from tests.servers.nginx import Nginx

SPIDER: Final = ("-s", "SPIDER_MODULES=tests.end_to_end.page_spider")
PAGES: Final = ("first", "second", "bad", "third")


@dataclass(frozen=True, slots=True)
class Story:
    """What was written by each command, and to the log of the spider."""

    project: Project
    server: Nginx
    log: Path
    said: dict[str, str] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)

    def tell(self, what: str, *words: str) -> str:
        done = self.project.scrapy(*words, *SPIDER, check=False)
        self.said[what], self.status[what] = done.stdout + done.stderr, done.returncode
        return self.said[what]

    def programs_see(self, *words: str) -> Any:
        return json.loads(self.project.scrapy(*words, "--json", *SPIDER).stdout)

    def asked(self) -> list[str]:
        return [line.path.strip("/") for line in self.server.log() if line.path != "/robots.txt"]

    def push(self, *pages: str) -> None:
        self.tell("push", "push", "pages", *(f"{self.server.url}/{page}" for page in pages))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "site").mkdir()
    for page in PAGES:
        (folder / "site" / page).write_text(page, encoding="utf-8")
    with nginx_server(folder / "site") as server:
        project = Project(folder)
        project.add_map("small", server.url)
        story = Story(project, server, folder / "log")
        story.tell("nobody", "queue", "pages")
        story.tell("a tile", "push", "pages", "0_1_1")
        story.tell("unknown", "queue", "page")
        address = f"url={server.url}/first"
        options = ("-s", f"LOG_FILE={story.log}", "-s", "LOG_LEVEL=DEBUG", *SPIDER)
        with project.running("crawl", "pages", "-a", address, "-a", "stay=1", *options) as process:
            steer(story, process)
            story.status["crawl"] = process.wait(240)
        yield story


def steer(story: Story, process: Forked) -> None:
    def until(page: str) -> None:
        assert await_condition(lambda: page in story.asked(), process)

    until("first")
    story.push("second")
    until("second")
    story.push("bad")
    assert await_condition(lambda: bool(story.programs_see("failures", "pages")), process)
    story.tell("running", "queue", "pages")
    story.tell("failures", "failures", "pages")
    story.tell("retried", "failures", "pages", "--retry")
    assert await_condition(lambda: story.asked().count("bad") == 2, process)
    story.tell("paused", "pause", "pages")
    assert await_condition(lambda: "is paused since" in story.log.read_text(), process)
    story.push("third")
    assert story.programs_see("queue", "pages")["pending/plus"] == 1
    story.tell("paused in the queue", "queue", "pages")
    assert "third" not in story.asked()
    story.tell("resumed", "resume", "pages")
    until("third")
    story.tell("rate", "rate", "pages", "20/s")
    story.tell("stop", "stop", "pages")


def test_a_spider_that_does_not_run_has_an_empty_queue(story: Story) -> None:
    assert story.said["nobody"].startswith("no crawl is running\n")


def test_a_pushed_address_is_asked(story: Story) -> None:
    assert story.asked()[:3] == ["first", "second", "bad"]
    assert story.said["push"].startswith("1 pushed into the queue of spider 'pages': a running crawl takes")


def test_what_failed_is_listed_and_can_be_put_back(story: Story) -> None:
    assert "callback raised ValueError('a bad page')" in story.said["failures"]
    assert "1 request of spider 'pages' put back: a running" in story.said["retried"]
    assert story.asked().count("bad") == 2


def test_the_queue_is_shown(story: Story) -> None:
    assert story.said["running"].startswith("crawl: running\n")
    assert ["failed", "1"] in [line.split() for line in story.said["running"].splitlines()]


def test_a_spider_can_be_paused_and_resumed(story: Story) -> None:
    assert story.said["paused"].startswith("spider 'pages' is paused: requests on the way finish")
    assert story.said["paused in the queue"].startswith("crawl: paused, since")
    assert story.said["resumed"] == "spider 'pages' goes on\n"
    assert "spider 'pages' is paused since" in story.log.read_text()


def test_the_rate_of_a_spider_is_scrapys(story: Story) -> None:
    assert story.status["rate"] == 2
    assert "spider 'pages' harvests no map: its rate is Scrapy's DOWNLOAD_DELAY" in story.said["rate"]


def test_a_spider_that_was_stopped_says_so_in_its_exit_status(story: Story) -> None:
    assert story.said["stop"].startswith("spider 'pages' is stopping")
    assert "a person has stopped spider 'pages'" in story.log.read_text()
    assert "Spider closed (stopped)" in story.log.read_text()
    assert story.status["crawl"] == 1
