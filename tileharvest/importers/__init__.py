"""Importers: a map's past from repositories, folders and archives becomes days of its history. They know no
Scrapy."""
