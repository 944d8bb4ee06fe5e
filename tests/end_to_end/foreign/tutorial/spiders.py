"""Spiders as people write them after Scrapy's tutorial, each with another of Scrapy's ways.

The site's address is in the environment variable SITE.
"""

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider
from twisted.python.failure import Failure

SITE = os.environ["SITE"]


def title(response: TextResponse) -> dict[str, Any]:
    return {"url": response.url.removeprefix(SITE), "title": response.css("title::text").get()}


class QuotesSpider(Spider):
    """Pages and tags."""

    name = "quotes"
    start_urls: ClassVar = [f"{SITE}/quotes/"]

    def parse(self, response: TextResponse) -> Iterator[Any]:
        for quote in response.css("div.quote"):
            yield {
                "text": quote.css("span.text::text").get(),
                "tags": quote.css("a.tag::text").getall(),
            }
        yield from response.follow_all(css="a.tag", callback=self.parse)
        for following in response.css("li.next a"):
            yield response.follow(following, callback=self.parse)


class BooksSpider(CrawlSpider):
    """Rules: one follows, one has a callback."""

    name = "books"
    start_urls: ClassVar = [f"{SITE}/shop/index.html"]
    rules = (
        Rule(LinkExtractor(allow=r"/category/|/index\.html")),
        Rule(LinkExtractor(allow=r"/book/"), callback="parse_book", errback="book_failed", follow=True),
    )

    def parse_book(self, response: TextResponse) -> Iterator[Any]:
        yield {"title": response.css("h1::text").get(), "price": response.css("p.price::text").get()}

    def book_failed(self, failure: Failure) -> Iterator[Any]:
        yield {"failed": str(failure.value)}


class LoginSpider(Spider):
    """A form, the cookie that it brings, and what only those see who have it."""

    name = "login"
    start_urls: ClassVar = [f"{SITE}/login/"]

    def parse(self, response: TextResponse) -> Any:
        return FormRequest.from_response(response, formdata={"user": "ada"}, callback=self.logged_in)

    def logged_in(self, response: TextResponse) -> Iterator[Any]:
        yield title(response)
        yield from response.follow_all(css="a", callback=self.parse_inside)

    def parse_inside(self, response: TextResponse) -> Iterator[Any]:
        yield title(response)


class ShopSitemapSpider(SitemapSpider):
    """A sitemap, with a rule."""

    name = "sitemap"
    sitemap_urls: ClassVar = [f"{SITE}/sitemap.xml"]
    sitemap_rules: ClassVar = [("/book/", "parse_book")]

    def parse_book(self, response: TextResponse) -> Iterator[Any]:
        yield {"title": response.css("h1::text").get()}


class ApiSpider(Spider):
    """JSON sent by POST."""

    name = "api"

    async def start(self) -> AsyncIterator[Any]:
        for number in range(3):
            yield JsonRequest(f"{SITE}/api/{number}.json", data={"wanted": number})

    def parse(self, response: TextResponse) -> Iterator[Any]:
        yield response.json()


class ChainSpider(Spider):
    """Links of a limited depth; a redirect and an error are among them."""

    name = "chain"
    start_urls: ClassVar = [f"{SITE}/chain/0.html"]
    custom_settings: ClassVar = {"DEPTH_LIMIT": 2}

    def parse(self, response: TextResponse) -> Iterator[Any]:
        yield title(response)
        yield from response.follow_all(css="a")


class ErrorsSpider(Spider):
    """An answer that is wanted although it is an error, one that an errback sees, and nobody's."""

    name = "errors"
    handle_httpstatus_list: ClassVar = [403]

    async def start(self) -> AsyncIterator[Any]:
        yield Request(f"{SITE}/inside/one.html")
        yield Request(f"{SITE}/missing.html", errback=self.failed, cb_kwargs={"a": 1})
        yield Request("http://127.0.0.1:1/", errback=self.failed, meta={"dont_retry": True})

    def parse(self, response: TextResponse, **_: Any) -> Iterator[Any]:
        yield {"status": response.status}

    def failed(self, failure: Failure) -> Iterator[Any]:
        yield {"failed": type(failure.value).__name__}
