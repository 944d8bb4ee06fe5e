"""`scrapy harvest` and `scrapy crawl`: how they end, and what goes to stdout and what to stderr."""

import json
import socket
from collections.abc import Callable, Iterator

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DAY
from tests.end_to_end.rendering import LAYER, Rendering
from tests.servers.nginx import Nginx


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody answers: its port is taken, and not listened to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


def test_done_with_data_on_stdout_and_the_log_on_stderr(project: Project, small_map: Rendering) -> None:
    done = project.scrapy_from_nothing("harvest", SMALL, "-a", f"day={SMALL_DAY}", "--json", "-L", "INFO")
    (report,) = json.loads(done.stdout)
    assert report["finished"]
    assert report["counts"] == {"404": len(small_map.missing()), "add": len(small_map.paths())}
    assert (done.returncode, report["exit_status"]) == (0, 0)
    assert "Spider closed (finished)" in done.stderr


def test_the_outcomes_in_words_and_in_codes(project: Project, small_map: Rendering) -> None:
    done = project.scrapy("harvest", SMALL, "--day", SMALL_DAY, "--verbose")
    new, empty = len(small_map.paths()), len(small_map.missing())
    assert f": done; {new} new, {empty} empty; " in done.stdout
    assert done.stdout.splitlines()[1] == f"  in codes: 404 {empty}, add {new}"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("spider", "told"),
    [
        ("mistaken", "the crawl stopped (ZeroDivisionError('a mistake'))"),
        ("overviewer", "the crawl stopped (ZeroDivisionError('a mistake'))"),
    ],
)
def test_a_mistake_in_a_spider_ends_the_crawl_and_is_told(
    spider: str, told: str, project: Project, small_map: Rendering
) -> None:
    modules = ("-s", "SPIDER_MODULES=tests.end_to_end.mistaken_spider")
    done = project.scrapy("crawl", spider, "-a", f"map={SMALL}", *modules, check=False)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Spider closed (error)" in done.stderr


def test_a_crawl_ends_with_the_status_of_a_harvest(
    project: Project, small_map: Rendering, nobody: str, nginx: Callable[..., Nginx]
) -> None:
    """Each run goes on with what the one before it has left."""
    failing = min(small_map.paths(), key=len)
    refusing = f"location = /{LAYER}{failing}.png {{ return 403; }}"
    project.add_map("partly", nginx(small_map.folder, server=refusing).url)
    project.add_map("away", nobody)

    def status(name: str, *more: str) -> int:
        command = ("crawl", "overviewer", "-a", f"map={name}", "-a", f"day={SMALL_DAY}", *more)
        return project.scrapy(*command, check=False).returncode

    assert status(SMALL, "-s", 'BUDGET={"requests": 5}') == 4
    assert [status(SMALL), status(SMALL)] == [0, 0]
    assert status("partly") == 3
    assert status("away", "-s", "RETRY_TIMES=0") == 5
