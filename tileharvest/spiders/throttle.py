"""The throttle of one crawl, with what a person has ordered and what has been spent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tileharvest.errors import BudgetError, QueueError
from tileharvest.maps.budgets import OF_DAY
from tileharvest.politeness.map_throttle import LOOK, MapThrottle
from tileharvest.queue.controls import Controls
from tileharvest.queue.settings import lease_seconds, shared_throttle
from tileharvest.scheduler.crawl import as_error, cancel
from tileharvest.scheduler.scheduler import scheduler_of

if TYPE_CHECKING:
    from tileharvest.maps.budgets import Budget
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.scheduler.crawl import CrawlContext


class CrawlThrottle:
    """Keeps a crawl's `MapThrottle` informed, and ends the crawl when a budget is spent."""

    def __init__(
        self,
        crawl: CrawlContext,
        rules: Rules,
        description: MapDescription,
        *,
        is_kept: bool = True,
    ) -> None:
        """`is_kept` is False for a crawl that leaves nothing behind."""
        settings = crawl.crawler.settings
        self._crawl, self._rules, self._name = crawl, rules, description.name
        crawl.rules = rules
        self._shared = shared_throttle(settings, is_kept=is_kept)
        self.map = crawl.throttle = MapThrottle(
            self._shared,
            self._name,
            rules,
            crawl.cost_meter,
            lasts=lease_seconds(settings),
            zone=description.zone_info,
        )
        self._looking: asyncio.Task[None] | None = None

    async def open(self, budget: Budget) -> None:
        """Takes part in the limits of the map, and begins to look. Raises QueueError."""
        await self._shared.open()
        self._looking = asyncio.ensure_future(self._look_on())
        self.map.budget = budget
        await self._look()

    async def close(self) -> None:
        """Gives everything back, unless the queue has failed: what workers share is mostly kept by the same
        Redis or disk, and a share ends by itself. Closing twice is harmless, and so is closing what was not
        opened. Raises QueueError."""
        if self._looking is None:
            return
        looking, self._looking = self._looking, None
        await cancel(looking)
        try:
            if not isinstance(self._crawl.ending, QueueError):
                await self.map.close()
        finally:
            await self._shared.close()

    def check(self) -> None:
        """Raises CancelledError if the crawl is ending. A caller that receives much at once asks this again
        and again, from any thread."""
        if self._crawl.is_ending or self._looking is None:
            raise asyncio.CancelledError

    async def _look_on(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK)
                await self._look()
        except Exception as error:  # noqa: BLE001 - or nobody could pause or stop the crawl any more
            self._crawl.end(as_error(error))

    async def _look(self) -> None:
        scheduler = scheduler_of(self._crawl.crawler)
        controls = Controls() if scheduler is None else scheduler.controls
        if not self._crawl.crawler.crawling:
            # A signal has come.
            self.map.end()
        is_paused, is_busy = controls.paused is not None, scheduler is None or scheduler.is_busy
        await self.map.look(is_paused=is_paused, rate=controls.rate, is_busy=is_busy)
        if self.map.lacking is not None:
            self._crawl.end(self._exceeded(self.map.lacking))

    def _exceeded(self, part: str) -> BudgetError:
        """Returns the error for a part of the budget that is spent."""
        daily, words = self._rules.daily_budget, self.map.budget.in_words(part)
        reason, when = f"budget: {words}", ""
        if daily and self._rules.budget.in_words(part) != words:
            # What was left of the daily budget is a number that nobody has written.
            reason, when = f"{OF_DAY}: {daily.in_words(part)}", "tomorrow "
        message = f"map '{self._name}' has reached its limit ({reason}); what was found is kept;"
        return BudgetError(f"{message} run it again {when}to go on", reason)
