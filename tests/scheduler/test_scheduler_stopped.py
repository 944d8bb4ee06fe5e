"""An order to stop a crawl that only just begins: from when on it is one for this crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scheduler.crawling import Crawls, order, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.nginx import Nginx

STOPPED = "tests.scheduler.stub_spiders.StoppedScheduler"


@pytest.fixture
def crawls(tmp_path: Path, nginx: Callable[..., Nginx]) -> Crawls:
    (tmp_path / "site").mkdir()
    return Crawls(tmp_path, nginx(tmp_path / "site"))


@pytest.mark.parametrize("stopped_at", ["forget_others", "failures"])
def test_who_is_told_to_stop_while_it_opens_its_queue_asks_for_nothing(
    crawls: Crawls, stopped_at: str
) -> None:
    page = crawls.write_page("page")
    crawls.push(order(page))
    (crawled,) = crawls.crawl(run(page, SCHEDULER=STOPPED, STOPPED_AT=stopped_at, stay="1"))
    assert crawled.said("INFO")[-1] == "Spider closed (stopped)"
    assert crawls.asked() == []
    assert "Traceback" not in str(crawled.log)
    assert crawls.counts().left >= 1


def test_who_is_told_to_stop_while_it_joins_the_work_asks_for_nothing_and_complains_of_nothing(
    crawls: Crawls,
) -> None:
    page = crawls.write_page("page")
    told = run(page, spider="HoldingSpider", SCHEDULER=STOPPED, STOPPED_AT="forget")
    (crawled,) = crawls.crawl(told)
    assert crawled.said("INFO")[-1] == "Spider closed (stopped)"
    assert crawled.said("ERROR") == []
    assert "Traceback" not in str(crawled.log)
    assert crawls.asked() == []
