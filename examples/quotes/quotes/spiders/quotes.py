"""`scrapy crawl quotes -O quotes.jsonl`: the spider of Scrapy's tutorial."""

from scrapy import Request, Spider


class QuotesSpider(Spider):
    """Goes from page to page; `-a site=ADDRESS` names another site of this form."""

    name = "quotes"
    site = "https://quotes.toscrape.com"

    async def start(self):
        yield Request(f"{self.site}/")

    def parse(self, response):
        for quote in response.css("div.quote"):
            yield {
                "text": quote.css("span.text::text").get(),
                "author": quote.css("small.author::text").get(),
            }
        yield from response.follow_all(css="li.next a")
