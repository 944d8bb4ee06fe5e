"""Spiders as users write them, some with a mistake: `-s SPIDER_MODULES=tests.end_to_end.user_spiders`."""

from collections.abc import Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response, TextResponse
from scrapy_redis.spiders import RedisSpider

from tileharvest.maps.description import MapDescription
from tileharvest.renderers.site import Fetch, Site
from tileharvest.spiders.tiles import TileSpider


class PageSpider(Spider):
    """Follows every link from `-a url=ADDRESS`, and fails at pages that are bad."""

    name = "pages"

    def __init__(self, url: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [url] if url else []

    def parse(self, response: TextResponse) -> Iterator[dict[str, str | None] | Request]:
        if "bad" in response.url:
            raise ValueError("a bad page")
        yield {"title": response.css("title::text").get()}
        yield from response.follow_all(css="a")


class FedSpider(RedisSpider):  # type: ignore[misc]  # it ships no types
    """Is fed through Redis."""

    name = "fed"

    def parse(self, response: Response) -> Iterator[dict[str, str]]:
        yield {"url": response.url}


class MistakenSpider(TileSpider):
    name = "mistaken"

    async def probe(self, description: MapDescription, fetch: Fetch) -> Site:
        raise ZeroDivisionError("a mistake")


class MistakenAtEndSpider(TileSpider):
    name = "overviewer"

    async def _complete_or_go_on(self) -> None:
        raise ZeroDivisionError("a mistake")
