"""A spider that harvests no map: it takes pages as they come, and fails at those that are bad."""

from typing import Any

from scrapy import Spider
from scrapy.http import Response


class PageSpider(Spider):
    name = "pages"

    def __init__(self, url: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [url] if url else []

    def parse(self, response: Response) -> None:
        if "bad" in response.url:
            raise ValueError("a bad page")
