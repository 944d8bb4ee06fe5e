"""The scheduler over Redis for a spider that harvests no map: once per segment, and an end of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scheduler.crawling import Crawls, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.nginx import Nginx
    from tests.servers.redis import RedisServer


@pytest.fixture
def crawls(tmp_path: Path, nginx: Callable[..., Nginx]) -> Crawls:
    (tmp_path / "site").mkdir()
    return Crawls(tmp_path, nginx(tmp_path / "site"))


def test_each_page_is_asked_once_in_a_segment_and_again_in_the_next(
    server: RedisServer, crawls: Crawls
) -> None:
    root = crawls.write_page("root", "/a", "/b", "/root")
    crawls.write_page("a", "/b")
    crawls.write_page("b", "/a")
    first, again, _ = crawls.crawl(
        *[run(root, segment=name, REDIS_URL=server.url) for name in ("day", "day", "week")]
    )
    assert sorted(crawls.asked()) == sorted(["/root", "/a", "/b"] * 2)
    # Links to what was asked already, and the first request of the second crawl.
    assert first.counted("dropped/seen") == 3
    assert again.counted("dropped/seen") == 1
    assert first.counted("left") == 0
