"""What is harvested: configured maps, their sites, the grid, and which tiles to ask for. No Scrapy here."""
