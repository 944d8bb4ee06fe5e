"""Scrapy's scheduler, ours: the worker's side of queue and politeness."""
