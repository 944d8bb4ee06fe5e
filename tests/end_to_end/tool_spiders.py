"""Spiders of a user's, for Scrapy's tools."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from scrapy import Request, Spider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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


class ContractSpider(Spider):
    """Has a contract that a page of the site keeps, and one that it breaks."""

    name = "contracts"

    def parse(self, response: TextResponse) -> Iterator[dict[str, str | None]]:
        """@url SITE/1.html
        @returns items 1 1
        @scrapes title
        """
        yield {"title": response.css("title::text").get()}

    def parse_more(self, response: TextResponse) -> Iterator[dict[str, str | None]]:
        """@url SITE/1.html
        @returns items 5
        """
        yield {"title": response.css("title::text").get()}


for _parse in (ContractSpider.parse, ContractSpider.parse_more):
    assert _parse.__doc__ is not None
    _parse.__doc__ = _parse.__doc__.replace("SITE", os.environ.get("TOOLS_SITE", ""))
