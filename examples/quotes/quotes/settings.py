"""What `scrapy startproject` writes, and two lines for TileHarvest."""

BOT_NAME = "quotes"
SPIDER_MODULES = ["quotes.spiders"]
NEWSPIDER_MODULE = "quotes.spiders"
ROBOTSTXT_OBEY = True

ADDONS = {"tileharvest.TileHarvest": 300}

# For `scrapy queue quotes` and the other commands, which need the extra `maps`.
COMMANDS_MODULE = "tileharvest.commands"
