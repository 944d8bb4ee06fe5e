"""Scrapy's spiders: they turn the walk into requests, and verdicts into items. They decide nothing."""
