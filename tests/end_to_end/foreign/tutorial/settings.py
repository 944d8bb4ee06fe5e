"""What `scrapy startproject` writes, and where items go."""

BOT_NAME = "tutorial"
SPIDER_MODULES = ["tutorial.spiders"]
ROBOTSTXT_OBEY = True
ITEM_PIPELINES = {"tutorial.pipelines.LinesPipeline": 300}
