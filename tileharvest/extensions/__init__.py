"""Scrapy's extensions: what goes on beside a crawl."""
