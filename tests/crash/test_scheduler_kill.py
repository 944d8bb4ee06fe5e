"""SIGKILL at a step of a crawl: every request has its effect, and only leased ones are made again.

`tests/end_to_end/test_any_spider.py` kills spiders at any moment.
"""

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.crash.killed_crawl import STEPS
from tests.scheduler.crawling import Crawls, run
from tests.servers.nginx import Nginx

FAN: Final = 2
"""Links on each page of a tree. Page n links to the pages 2n + 1 and 2n + 2, if there are."""
PAGES: Final = 40


@pytest.mark.parametrize("step", STEPS)
def test_a_crawl_killed_at_a_step_processes_every_page(
    tmp_path: Path, nginx: Callable[..., Nginx], step: str
) -> None:
    (tmp_path / "site").mkdir()
    crawls, effects = Crawls(tmp_path, nginx(tmp_path / "site")), tmp_path / "effects"
    for page in range(PAGES):
        children = range(page * FAN + 1, min(PAGES, page * FAN + FAN + 1))
        crawls.write_page(f"{page}", *[f"/{child}" for child in children])
    crawl = run(
        f"{crawls.server.url}/0",
        ITEM_PIPELINES={"tests.scheduler.stub_spiders.AppendingPipeline": 1},
        EFFECTS=str(effects),
        MAX_ATTEMPTS=50,
        CONCURRENT_REQUESTS_PER_DOMAIN=16,
        # A page's links come behind its item, for which Scrapy lets them wait. As with tiles.
        CONCURRENT_ITEMS=1,
        EXTENSIONS={"tests.scheduler.stub_spiders.SlowListener": 1},
    )
    with crawls.running(crawl, program="tests.crash.killed_crawl", arguments=(step,)) as process:
        _, stderr = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, stderr[-2000:]
    with closing(sqlite3.connect(crawls.file())) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        ((leased,),) = connection.execute("SELECT count(*) FROM requests WHERE state = 'leased'")
    crawls.crawl(crawl)
    # Every page has had its effect, and nothing waits, is leased or has failed.
    pages = {f"{crawls.server.url}/{page}" for page in range(PAGES)}
    assert set(effects.read_text(encoding="utf-8").split()) == pages
    counts = crawls.counts()
    assert (counts.left, counts.failed, counts.done, counts.seen) == (0, 0, PAGES, PAGES)
    assert len(crawls.asked()) - PAGES <= leased
