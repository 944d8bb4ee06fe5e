"""The end of a harvest, as the spider of tiles sees it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tileharvest.errors import QueueError
from tileharvest.spiders.tiles import TileSpider


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_queue_that_the_end_of_the_crawl_has_closed_has_not_failed(is_open: bool) -> None:
    async def look() -> None:
        raise QueueError("the queue is not open")

    errors: list[Exception] = []
    part: Any = SimpleNamespace(scheduler=SimpleNamespace(is_open=is_open), end=errors.append)
    part.get_spider_middleware = lambda _: part
    spider: Any = SimpleNamespace(crawler=part, crawl=part, _complete_or_go_on=look)
    await TileSpider._complete(spider)
    assert bool(errors) is is_open
