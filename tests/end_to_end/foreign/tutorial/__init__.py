"""A Scrapy project of somebody else. It knows nothing of TileHarvest."""
