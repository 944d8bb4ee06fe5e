"""`scrapy crawl quotes -O quotes.jsonl`: the spider of Scrapy's tutorial."""

from typing import ClassVar

from scrapy import Request, Spider


class QuotesSpider(Spider):
    """Goes from page to page; `-a site=ADDRESS` names another site of this form."""

    name = "quotes"
    site = "https://quotes.toscrape.com"
    # Of this spider only: those of maps have items of their own.
    custom_settings: ClassVar = {"ITEM_PIPELINES": {"quotes.pipelines.SqlitePipeline": 300}}

    async def start(self):
        yield Request(f"{self.site}/")

    def parse(self, response):
        for quote in response.css("div.quote"):
            yield {
                "text": quote.css("span.text::text").get(),
                "author": quote.css("small.author::text").get(),
            }
        yield from response.follow_all(css="li.next a")
