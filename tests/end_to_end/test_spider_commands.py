"""The commands about queues with the name of a spider that harvests no map, while it runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.end_to_end.project import Project, await_condition
from tests.servers.nginx import Nginx

SPIDER: Final = ("-s", "SPIDER_MODULES=tests.end_to_end.user_spiders")


def test_a_spider_is_steered_as_a_map_is(
    project: Project, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    site, log = tmp_path / "site", tmp_path / "log"
    site.mkdir()
    for page in ("first", "second", "bad", "third"):
        (site / page).write_text(page)
    server = nginx(site)
    project.add_map("small", server.url)

    def tell(*words: str, status: int = 0) -> str:
        done = project.scrapy(*words, *SPIDER, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def asked() -> list[str]:
        return [line.path.strip("/") for line in server.log() if line.path != "/robots.txt"]

    def push(page: str) -> str:
        return tell("push", "pages", f"{server.url}/{page}")

    assert tell("queue", "pages").startswith("no crawl is running\n")
    options = ("-a", f"url={server.url}/first", "-a", "stay=1", "-s", f"LOG_FILE={log}", *SPIDER)
    with project.running("crawl", "pages", *options) as process:
        assert await_condition(lambda: "first" in asked(), process)
        assert push("second").startswith("1 pushed into the queue of spider 'pages': a running crawl takes")
        assert await_condition(lambda: "second" in asked(), process)
        push("bad")
        assert await_condition(lambda: bool(json.loads(tell("failures", "pages", "--json"))), process)
        running = tell("queue", "pages")
        assert running.startswith("crawl: running\n")
        assert ["failed", "1"] in [line.split() for line in running.splitlines()]
        assert "callback raised ValueError('a bad page')" in tell("failures", "pages")
        assert "1 request of spider 'pages' put back: a running" in tell("failures", "pages", "--retry")
        assert await_condition(lambda: asked().count("bad") == 2, process)
        assert tell("pause", "pages").startswith("spider 'pages' is paused: requests on the way finish")
        assert await_condition(lambda: "spider 'pages' is paused since" in log.read_text(), process)
        push("third")
        assert json.loads(tell("queue", "pages", "--json"))["pending/plus"] == 1
        assert tell("queue", "pages").startswith("crawl: paused, since")
        assert "third" not in asked()
        assert tell("resume", "pages") == "spider 'pages' goes on\n"
        assert await_condition(lambda: "third" in asked(), process)
        rate = tell("rate", "pages", "20/s", status=2)
        assert "spider 'pages' harvests no map: its rate is Scrapy's DOWNLOAD_DELAY" in rate
        assert tell("stop", "pages").startswith("spider 'pages' is stopping")
        assert process.wait(240) == 1
    assert "a person has stopped spider 'pages'" in log.read_text()
    assert "Spider closed (stopped)" in log.read_text()
