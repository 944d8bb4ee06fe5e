"""Spiders of a user's, for Scrapy's tools."""

from collections.abc import AsyncIterator, Iterator

from scrapy import Request, Spider
from scrapy.http import TextResponse


class PageSpider(Spider):
    """Follows every link: `-a site=ADDRESS`."""

    name = "pages"
    site = ""

    async def start(self) -> AsyncIterator[Request]:
        yield Request(f"{self.site}/index.html")

    def parse(self, response: TextResponse) -> Iterator[dict[str, str | None] | Request]:
        yield {"title": response.css("title::text").get()}
        for link in response.css("a"):
            yield response.follow(link)
