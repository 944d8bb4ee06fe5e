"""Importers: a map's past from archives and repositories becomes days of its history. They know no Scrapy."""
