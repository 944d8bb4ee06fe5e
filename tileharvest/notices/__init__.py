"""Notices: messages about the end of a harvest, through Apprise. Nothing here knows Scrapy."""
