"""A harvest: which tiles it asks for, what it keeps, and how it ends. Nothing here knows Scrapy."""
