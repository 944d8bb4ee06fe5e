"""A request's own delay, as a real server saw it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.scheduler.crawling import Crawls, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.nginx import Nginx

LATE = 0.02
"""Seconds by which a request may come closer than it was sent: another process had the core."""
PAGES = 8


@pytest.fixture
def crawls(tmp_path: Path, nginx: Callable[..., Nginx]) -> Crawls:
    (tmp_path / "site").mkdir()
    return Crawls(tmp_path, nginx(tmp_path / "site"))


def test_each_request_starts_so_long_after_the_one_before_it_as_it_asks_itself(crawls: Crawls) -> None:
    delays = [None, 0.2, [0.1, 0.3], None] * 2
    orders = [
        {"url": crawls.write_page(f"{page}.html"), "meta": {} if delay is None else {"delay": delay}}
        for page, delay in zip(range(PAGES), delays, strict=True)
    ]
    (done,) = crawls.crawl(run(*orders, CONCURRENT_REQUESTS=1))
    assert done.counted("done") == PAGES
    lines = [line for line in crawls.server.log() if line.path.endswith(".html")]
    assert [line.path for line in lines] == [f"/{page}.html" for page in range(PAGES)]
    gaps = [after - before for before, after in pairwise(line.time - line.duration for line in lines)]
    assert min(gaps[0], gaps[4]) >= 0.2 - LATE
    assert min(gaps[1], gaps[5]) >= 0.1 - LATE
    # Without a delay of their own they follow at once.
    assert min(gaps[2], gaps[3], gaps[6]) < 0.1
