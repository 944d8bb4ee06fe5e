"""What a spider may tell its scheduler."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tileharvest.errors import BudgetError

if TYPE_CHECKING:
    from scrapy import Request

    from tileharvest.errors import TileHarvestError
    from tileharvest.harvest.harvest import Harvesting

_logger = logging.getLogger(__name__)


class HeldSpider:
    """A spider that may hold the scheduler until it has found out how its requests are to be made.

    A spider inherits from this, and says what is different for it. Made by itself, it stands for a spider
    that has nothing to tell: its requests are made at once, and as they are.
    """

    holds_scheduler = False
    """Whether nothing is offered before the spider calls `Scheduler.release`."""
    ending: TileHarvestError | None = None
    """The failure that has ended the crawl."""

    def prepared(self, request: Request, segment: str) -> Request | None:
        """Returns the request as it is to be made now, or None if it is not to be made any more. Called
        whenever one is offered."""
        return request

    def again(self, request: Request) -> Request | None:
        """Returns a request that failed in an earlier segment as it is to be asked in the present one, or
        None if it is not to be asked any more."""
        return request

    def give_up(self, error: TileHarvestError) -> bool:
        """Notes the failure that ends the crawl, and tells a person. False if one already did."""
        _logger.error("%s", error)
        return True

    async def begin_no_more(self) -> None:
        """Ends what the spider does in `start` before it is released. Called when the crawl is to end."""

    async def settled(self) -> None:
        """Returns when the spider asks the queue for nothing more. The queue is closed then."""


def as_held(spider: object) -> HeldSpider:
    """Returns the spider itself, or what stands for a spider that has nothing to tell."""
    return spider if isinstance(spider, HeldSpider) else HeldSpider()


def harvest_of(spider: Any) -> Harvesting | None:
    """Returns None for a spider that harvests no map, and for one that was refused its harvest."""
    return getattr(spider, "harvesting", None)


def keeps_results(spider: HeldSpider) -> bool:
    """Whether what is found is surely recorded. What ends a crawl may keep results from that."""
    ending = spider.ending
    return ending is None or (isinstance(ending, BudgetError) and ending.is_all_kept)
