"""What a spider may tell its scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request


class HeldSpider:
    """A spider that may hold the scheduler until it knows how its requests are to be made.

    A spider inherits from this class, and overrides what is different for it. An object of the class itself
    stands for any other spider: its requests are made at once, and as they are.
    """

    holds_scheduler = False
    """Whether no request is offered before the spider calls `Scheduler.release`."""

    def prepared(self, request: Request, segment: str) -> Request | None:
        """Returns the request as it is to be made now, or None if it must not be made any more. This is
        called only for requests of segments whose work began before this run."""
        return request

    def again(self, request: Request) -> Request | None:
        """Returns a request that failed in an earlier segment as it is to be made in the present one, or None
        if it must not be made any more."""
        return request

    async def settled(self) -> None:
        """Returns when the spider does not need the queue any more. The queue is closed then."""


def as_held(spider: object) -> HeldSpider:
    """Returns the spider itself if it is a HeldSpider, or an object that stands for any other spider."""
    return spider if isinstance(spider, HeldSpider) else HeldSpider()
