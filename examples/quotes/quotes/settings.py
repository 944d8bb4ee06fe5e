"""What `scrapy startproject` writes, and two lines for TileHarvest."""

BOT_NAME = "quotes"
SPIDER_MODULES = ["quotes.spiders"]
NEWSPIDER_MODULE = "quotes.spiders"
ROBOTSTXT_OBEY = True

ADDONS = {"tileharvest.TileHarvest": 300}

# For `scrapy queue quotes` and the other commands. `tileharvest queue quotes` needs no such line.
COMMANDS_MODULE = "tileharvest.commands"
