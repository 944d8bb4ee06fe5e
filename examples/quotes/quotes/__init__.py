"""A Scrapy project whose spider runs on TileHarvest's scheduler."""
