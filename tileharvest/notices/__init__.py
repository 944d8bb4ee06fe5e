"""Notices: messages about the end of a harvest, sent through Apprise. Nothing here knows Scrapy."""
