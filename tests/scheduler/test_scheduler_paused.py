"""What Scrapy itself holds back, as AutoThrottle makes it, while a crawl is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.project import answered, await_condition
from tests.scheduler.crawling import Crawls, order, run
from tileharvest.queue import orders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.nginx import Nginx

PAGES = 20


@pytest.fixture
def crawls(tmp_path: Path, nginx: Callable[..., Nginx]) -> Crawls:
    (tmp_path / "site").mkdir()
    return Crawls(tmp_path, nginx(tmp_path / "site"))


def test_what_waits_in_the_downloader_goes_back_into_the_queue_in_a_pause(crawls: Crawls) -> None:
    crawls.push(*[order(f"{crawls.server.url}/{number}") for number in range(PAGES)])
    with crawls.running(run(spider="SuitedSpider", CONCURRENT_REQUESTS=8, DOWNLOAD_DELAY=0.4)) as process:
        assert await_condition(lambda: answered(crawls.server) >= 1, process)
        crawls.tell(orders.pause, "10:00")
        while "is paused since 10:00" not in process.stderr.readline():
            assert process.poll() is None
        asked = len(crawls.asked())
        crawls.tell(orders.stop)
        process.communicate(timeout=240)
    # One may have been on its way.
    assert asked <= len(crawls.asked()) <= asked + 1 < 7
    counts = crawls.counts()
    assert (counts.leased, counts.left, counts.failed) == (0, PAGES - len(crawls.asked()), 0)
