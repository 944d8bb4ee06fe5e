"""The end of a run: that of its harvest is written, or why the harvest stops here and is to be continued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileharvest.errors import BudgetError, MovedError

if TYPE_CHECKING:
    from tileharvest.errors import TileHarvestError
    from tileharvest.spiders.tiles import TileSpider


async def settle(spider: TileSpider, reason: str) -> None:
    """Once the spider has closed for this reason. Its counts are the harvest's afterwards, and are told.

    Raises HistoryError.
    """
    harvest, ending = spider.harvest, spider.ending
    if isinstance(ending, MovedError):
        spider.counts = await harvest.abandon_as_moved()
    elif spider.finished:
        pass
    elif ending is None and await _stayed_to_the_end(spider):
        spider.counts = await harvest.finish()
        spider.finished = True
    else:
        await harvest.stop(_why(ending, reason))
        spider.counts = await harvest.counts()
        spider.logger.info("the harvest is not finished; run it again to continue")
    for outcome, tiles in spider.counts.items():
        spider.crawler.stats.set_value(f"harvest/outcome/{outcome}", tiles)
    found = ", ".join(f"{outcome} {tiles}" for outcome, tiles in spider.counts.items() if tiles)
    spider.logger.info("outcomes of map '%s': %s", harvest.description.name, found or "none")


def close_reason(error: TileHarvestError) -> str:
    """What Scrapy's statistics call an end by this failure."""
    return error.exit_status.name.lower()


async def _stayed_to_the_end(spider: TileSpider) -> bool:
    """Whether a spider that waited for pushed requests (`-a stay=1`) was stopped with nothing left."""
    left_nothing = getattr(spider.crawler.engine.scheduler, "left_nothing", False)
    if getattr(spider, "stay", "0") != "1" or not left_nothing:
        return False
    return not await spider.harvest.unasked()


def _why(ending: TileHarvestError | None, reason: str) -> str:
    """A run ended before its harvest, in a few words."""
    if isinstance(ending, BudgetError):
        return ending.reason
    return _ORDERS.get(reason, reason) if ending is None else close_reason(ending)


_ORDERS: Final = {"shutdown": "Ctrl-C or SIGTERM", "stopped": "scrapy stop"}
"""What a person did, by the reasons that Scrapy and the scheduler close a spider for."""
