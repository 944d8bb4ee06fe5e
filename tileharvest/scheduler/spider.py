"""What a spider may tell its scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request


class HeldSpider:
    """A spider that may hold the scheduler until it has found out how its requests are to be made.

    A spider inherits from this, and says what is different for it. Made by itself, it stands for a spider
    that has nothing to tell: its requests are made at once, and as they are.
    """

    holds_scheduler = False
    """Whether nothing is offered before the spider calls `Scheduler.release`."""

    def prepared(self, request: Request, segment: str) -> Request | None:
        """Returns the request as it is to be made now, or None if it is not to be made any more. This is not
        called for requests of a segment whose work has begun with this run."""
        return request

    def again(self, request: Request) -> Request | None:
        """Returns a request that failed in an earlier segment as it is to be asked in the present one, or
        None if it is not to be asked any more."""
        return request

    async def settled(self) -> None:
        """Returns when the spider asks the queue for nothing more. The queue is closed then."""


def as_held(spider: object) -> HeldSpider:
    """Returns the spider itself, or what stands for a spider that has nothing to tell."""
    return spider if isinstance(spider, HeldSpider) else HeldSpider()
