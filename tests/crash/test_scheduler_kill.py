"""SIGKILL at any moment of a crawl: every request has its effect, and only leased ones are made again."""

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.crash.killed_crawl import STEPS
from tests.end_to_end.project import answered, await_condition
from tests.scheduler.crawling import Crawls, run
from tests.servers.nginx import Nginx

PROGRAM: Final = "tests.crash.killed_crawl"
FAN: Final = 7
"""Links on each page of the tree."""


class Tree:
    """A crawl of pages that are numbered from 0. Page n links to the pages 7n + 1 to 7n + 7, if there are."""

    def __init__(self, crawls: Crawls, pages: int) -> None:
        self.crawls = crawls
        for page in range(pages):
            children = range(page * FAN + 1, min(pages, page * FAN + FAN + 1))
            crawls.write_page(f"{page}", *[f"/{child}" for child in children])
        self.pages = {f"{crawls.server.url}/{page}" for page in range(pages)}
        self.effects = crawls.folder / "effects"
        self.run = run(
            f"{crawls.server.url}/0",
            ITEM_PIPELINES={"tests.scheduler.stub_spiders.AppendingPipeline": 1},
            EFFECTS=str(self.effects),
            MAX_ATTEMPTS=50,
            CONCURRENT_REQUESTS_PER_DOMAIN=16,
            # A page's links come behind its item, for which Scrapy lets them wait. As with tiles.
            CONCURRENT_ITEMS=1,
        )

    def kill(self, further: int) -> int:
        """Crawls, and kills the crawl when nginx has logged so many further requests. Returns how many were
        leased then."""
        seen = answered(self.crawls.server)
        with self.crawls.running(self.run, program=PROGRAM) as process:
            assert await_condition(lambda: answered(self.crawls.server) >= seen + further, process)
            process.kill()
            process.communicate()
        assert process.returncode == -signal.SIGKILL
        return self.leased()

    def leased(self) -> int:
        with closing(sqlite3.connect(self.crawls.file())) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            found: int = connection.execute(
                "SELECT count(*) FROM requests WHERE state = 'leased'"
            ).fetchone()[0]
        return found

    def assert_complete(self) -> None:
        """Asserts that every page has had its effect, and that no request waits, is leased or has failed."""
        assert set(self.effects.read_text(encoding="utf-8").split()) == self.pages
        counts = self.crawls.counts()
        assert (counts.left, counts.failed) == (0, 0)
        assert (counts.done, counts.seen) == (len(self.pages), len(self.pages))

    @property
    def repeated(self) -> int:
        """How many requests were made beyond one for each page."""
        return len(self.crawls.asked()) - len(self.pages)


@pytest.fixture
def tree(tmp_path: Path, nginx: Callable[..., Nginx]) -> Callable[[int], Tree]:
    (tmp_path / "site").mkdir()
    crawls = Crawls(tmp_path, nginx(tmp_path / "site"))
    return lambda pages: Tree(crawls, pages)


def test_a_crawl_killed_again_and_again_processes_every_page(tree: Callable[[int], Tree], kills: int) -> None:
    killed = tree(100 * kills)
    random = Random(20261120)
    leased = sum(killed.kill(random.randint(1, 90)) for _ in range(kills))
    killed.crawls.crawl(killed.run)
    killed.assert_complete()
    assert killed.repeated <= leased


@pytest.mark.parametrize("step", STEPS)
def test_a_crawl_killed_at_a_step_processes_every_page(tree: Callable[[int], Tree], step: str) -> None:
    killed = tree(40)
    with killed.crawls.running(killed.run, program=PROGRAM, arguments=(step,)) as process:
        _, stderr = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, stderr[-2000:]
    leased = killed.leased()
    killed.crawls.crawl(killed.run)
    killed.assert_complete()
    assert killed.repeated <= leased
