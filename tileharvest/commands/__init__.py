"""The project's commands of `scrapy`, a file each. Scrapy takes every command class that it finds here."""
