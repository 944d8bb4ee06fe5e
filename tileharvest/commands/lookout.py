"""The figures of a harvest that runs in this process."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError
from tileharvest.monitoring.figures import Figures, Recent, State, moment_in_words
from tileharvest.politeness.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tileharvest.history.summaries import HarvestSummary
    from tileharvest.spiders.tiles import TileSpider

PAUSE: Final = 3.0
"""Seconds between two looks into the history."""
_WATCH: Final = 1.0
"""Seconds between two looks whether a person has paused the map. Such a look costs nothing."""
_SHARE: Final = 20
"""Looks into the history may take one part in so many of the time. Each reads all tiles of the map."""


class Lookout:
    """Gives the figures of a running harvest at any time.

    A process that works alone on a harvest, and has begun it, counts its own work. If other processes have a
    part in the harvest, or an earlier run began it, `keep_watch` asks the history every few seconds.
    """

    def __init__(
        self, spider: TileSpider, *, is_dry: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`is_dry` says that the harvest keeps nothing, so that neither history nor other processes know of
        it. `clock` gives seconds that never go backwards."""
        from tileharvest.history.costs import NO_COST
        from tileharvest.queue.settings import is_shared

        self.harvest = spider.harvest
        self._crawl = spider.crawl
        self._settings = spider.crawler.settings
        self._is_dry = is_dry
        self.is_shared = not is_dry and is_shared(self._settings)
        """Whether other processes may work on the same harvest."""
        self._clock = clock
        self._recent = Recent()
        self._earlier = NO_COST
        """The harvest's cost before this process had a part in it."""
        self._recorded: HarvestSummary | None = None
        """The harvest as the history had it at the last look. None if the history does not have it."""
        self._looked = -inf
        """The moment of that look."""
        self._paused_since: str | None = None

    async def keep_watch(self) -> None:
        """Asks queue and history for what this process cannot know, until it is cancelled.

        Must begin before the harvest does.
        """
        await self._look()
        if self._recorded is not None:
            self._earlier = self._recorded.cost
        next_look = self._clock() + PAUSE
        while True:
            await self._ask_since_when()
            if self._clock() >= next_look and (self.is_shared or self._recorded is not None):
                began = self._clock()
                await self._look()
                next_look = self._clock() + max(PAUSE, _SHARE * (self._clock() - began))
            await asyncio.sleep(_WATCH)

    def figures(self) -> Figures:
        """Returns the figures of this moment. Costs next to nothing, and never blocks."""
        recorded, harvest, now = self._recorded, self.harvest, self._clock()
        is_pruned = harvest.is_pruned
        if is_pruned is None:
            # This run has not decided its walk yet. An earlier run of the same harvest may have.
            is_pruned = recorded is not None and recorded.walk == "pruned"
        is_counted_by_all = recorded is not None and self.is_shared
        figures = Figures(
            harvest.expected or (recorded.expected if recorded else 0),
            recorded.counts if recorded else dict(harvest.tally),
            recorded.cost if recorded and is_counted_by_all else self._earlier + harvest.traffic.total,
            State.of(
                self.reasons(),
                has_begun=harvest.is_open,
                is_idle=self._recent.is_idle(now),
                paused_since=self._paused_since,
                quiet_until=self.quiet_until(),
                wait=self.waits(),
            ),
            is_pruned=is_pruned,
        )
        if figures.state.is_at_work:
            self._recent.add(self._looked if is_counted_by_all else now, figures.cost.requests, figures.done)
        else:
            self._recent.clear()
        # This is the average of one worker. Only the queue knows how many workers there are.
        average = None if self.is_shared else figures.average()
        return replace(figures, rate=self._recent.rate() or average)

    def reasons(self) -> Collection[Reason]:
        """Returns why requests are held back at this moment. Costs nothing."""
        politeness = self._crawl.politeness
        return () if politeness is None else politeness.reasons

    def quiet_until(self) -> str | None:
        """Returns in words when the present quiet hours end, or None if there are none now. Costs nothing."""
        now = datetime.now(self.harvest.description.zone_info)
        # The rules change when maps.toml does.
        assert self._crawl.rules is not None
        return moment_in_words(self._crawl.rules.quiet_until(now))

    def waits(self) -> tuple[str, str | None] | None:
        """Returns in words what has held the harvest up for some seconds, and until when.

        Returns None if nothing has. Costs nothing.
        """
        wait = self._crawl.wait()
        if wait is None:
            return None
        now = datetime.now(self.harvest.description.zone_info)
        return wait.what, wait.until_in_words(asyncio.get_running_loop().time(), now)

    async def paused_since(self) -> str | None:
        """Asks the queue since when the map is paused. Returns None if it is not."""
        from tileharvest.queue.settings import orders_for

        return (await orders_for(self._settings, self.harvest.description.name)).paused

    async def progress(self) -> HarvestSummary | None:
        """Asks the history about the map's unfinished harvest. Reads all tiles of the map."""
        if self._is_dry:
            return None
        return await self.harvest.progress()

    async def _ask_since_when(self) -> None:
        if Reason.PAUSED not in self.reasons():
            self._paused_since = None
        elif self._paused_since is None:
            # The scheduler tells of a queue that fails.
            with suppress(TileHarvestError):
                self._paused_since = await self.paused_since()

    async def _look(self) -> None:
        # The pipeline tells of a history that fails.
        with suppress(TileHarvestError):
            began = self._clock()
            progress = await self.progress()
            if progress is not None and progress.segment == self.harvest.segment.name:
                self._recorded, self._looked = progress, began
