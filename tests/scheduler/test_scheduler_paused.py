"""What Scrapy itself holds back, as AutoThrottle makes it, while a crawl is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.end_to_end.project import await_condition
from tests.fleet.gate import Gate
from tests.scheduler.crawling import Crawls, order, run
from tileharvest.queue import orders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.misbehaving import Misbehaving

PAGES: Final = 8
LONG: Final = 3600
"""Seconds. Neither Scrapy's delay, which the spider begins and ends, nor a time-out ends within a test."""


def test_what_waits_in_the_downloader_goes_back_into_the_queue_in_a_pause(
    tmp_path: Path, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    """The first request is answered in the pause. Then all others have their turn at once, which have waited
    for the end of the delay."""
    (tmp_path / "site").mkdir()
    site: Any = misbehaving(tmp_path / "site")
    site.rule_for_all = gate = Gate()
    crawls = Crawls(tmp_path, site)
    crawls.push(*[order(crawls.write_page(str(number))) for number in range(PAGES)])
    settings = {"DOWNLOAD_DELAY": LONG, "DOWNLOAD_TIMEOUT": LONG, "DOWNLOAD_LOW_SPEED_TIME": LONG}
    with crawls.running(run(spider="HurriedSpider", CONCURRENT_REQUESTS=PAGES, **settings)) as process:
        assert await_condition(lambda: gate.is_reached, process)
        crawls.tell(orders.pause, "10:00")
        while "is paused since 10:00" not in process.stderr.readline():
            assert process.poll() is None
        assert crawls.counts().leased == PAGES
        gate.open()
        assert await_condition(lambda: crawls.counts().leased == 0, process)
        crawls.tell(orders.stop)
        process.communicate(timeout=240)
    assert len(site.received) == 1
    counts = crawls.counts()
    assert (counts.leased, counts.left, counts.failed) == (0, PAGES - 1, 0)
