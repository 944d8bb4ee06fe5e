"""Scrapy's downloader middlewares: what happens to a request and its answer on their way."""
