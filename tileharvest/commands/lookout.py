"""What the process that harvests a map knows of the harvest's figures while it runs."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError
from tileharvest.history.costs import NO_COST
from tileharvest.monitoring.figures import Figures, Recent, State, moment_in_words
from tileharvest.politeness.reasons import Reason
from tileharvest.queue.settings import is_shared, orders_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tileharvest.history.summaries import HarvestSummary
    from tileharvest.spiders.tiles import TileSpider

PAUSE: Final = 3.0
"""Seconds between two looks into the history."""
_WATCH: Final = 1.0
"""Seconds between two looks at whether a person has paused the map, which costs nothing."""
_SHARE: Final = 20
"""A look into the history may take one of so many parts of the time: it reads all tiles of the map."""


class RunningHarvest:
    """A harvest that runs in this process, and what can be asked about it.

    `paused_since` and `progress` may raise TileHarvestError.
    """

    def __init__(self, spider: TileSpider, *, is_dry: bool) -> None:
        """`is_dry`: whether it keeps nothing, so that neither history nor other processes know of it."""
        self.harvest = spider.harvest
        self._settings = spider.crawler.settings
        self.is_shared = not is_dry and is_shared(self._settings)
        """Whether other processes may work on the same harvest."""
        self._crawl = spider.crawl
        self._is_dry = is_dry

    def reasons(self) -> Collection[Reason]:
        """Says why requests are held back at this moment. This costs nothing."""
        politeness = self._crawl.politeness
        return () if politeness is None else politeness.reasons

    def quiet_until(self) -> str | None:
        """Says when the quiet hours end that hold now, in words. This costs nothing."""
        now = datetime.now(self.harvest.description.zone_info)
        # Asked anew each time: maps.toml may change.
        assert self._crawl.rules is not None
        return moment_in_words(self._crawl.rules.quiet_until(now))

    def waits(self) -> tuple[str, str | None] | None:
        """Says what holds the harvest up, and until when, in words, where it has for some seconds. This costs
        nothing."""
        wait = self._crawl.wait()
        if wait is None:
            return None
        now = datetime.now(self.harvest.description.zone_info)
        return wait.what, wait.until_in_words(asyncio.get_running_loop().time(), now)

    async def paused_since(self) -> str | None:
        """Asks the queue since when a person has paused the map."""
        return (await orders_for(self._settings, self.harvest.description.name)).paused

    async def progress(self) -> HarvestSummary | None:
        """Asks the history about the map's unfinished harvest. This reads all tiles of the map."""
        if self._is_dry:
            return None
        return await self.harvest.progress()


class Lookout:
    """Gives the figures of a harvest that runs, whenever it is asked.

    A process that works alone on a harvest that it has begun itself counts what it does. If others have a
    part in the harvest, or if it was begun earlier, `keep_watch` asks the history every few seconds.
    """

    def __init__(self, running: RunningHarvest, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that never go backwards."""
        self.harvest = running.harvest
        self._running = running
        self._clock = clock
        self._recent = Recent()
        self._earlier = NO_COST
        """What the harvest has cost before this process had a part in it."""
        self._recorded: HarvestSummary | None = None
        self._looked = 0.0
        """When that was asked for."""
        self._paused_since: str | None = None

    async def keep_watch(self) -> None:
        """Asks for what this process cannot know, until cancelled. Must begin before the harvest does."""
        await self._look()
        if self._recorded is not None:
            self._earlier = self._recorded.cost
        next_look = self._clock() + PAUSE
        while True:
            await self._ask_since_when()
            if self._clock() >= next_look and (self._running.is_shared or self._recorded is not None):
                began = self._clock()
                await self._look()
                next_look = self._clock() + max(PAUSE, _SHARE * (self._clock() - began))
            await asyncio.sleep(_WATCH)

    def figures(self) -> Figures:
        """Returns the figures of this moment. Costs next to nothing, and waits for nothing."""
        recorded, harvest, now = self._recorded, self.harvest, self._clock()
        is_pruned = harvest.is_pruned
        if is_pruned is None:
            # This run has not decided it yet, but an earlier run of the same harvest may have.
            is_pruned = recorded is not None and recorded.walk == "pruned"
        waits_for, waits_until = self._running.waits() or (None, None)
        is_counted_by_all = recorded is not None and self._running.is_shared
        figures = Figures(
            harvest.expected or (recorded.expected if recorded else 0),
            recorded.counts if recorded else dict(harvest.tally),
            recorded.cost if recorded and is_counted_by_all else self._earlier + harvest.traffic.total,
            State.of(
                self._running.reasons(),
                has_begun=harvest.is_open,
                is_idle=self._recent.is_idle(now),
                paused_since=self._paused_since,
                quiet_until=self._running.quiet_until(),
                waits_for=waits_for,
                waits_until=waits_until,
            ),
            is_pruned=is_pruned,
        )
        if figures.state.is_at_work:
            self._recent.add(self._looked if is_counted_by_all else now, figures.cost.requests, figures.done)
        else:
            self._recent.clear()
        # The average is that of one worker, and only the queue knows how many there are.
        average = None if self._running.is_shared else figures.average()
        return replace(figures, rate=self._recent.rate() or average)

    async def _ask_since_when(self) -> None:
        if Reason.PAUSED not in self._running.reasons():
            self._paused_since = None
        elif self._paused_since is None:
            # The scheduler says so where the queue fails.
            with suppress(TileHarvestError):
                self._paused_since = await self._running.paused_since()

    async def _look(self) -> None:
        # The pipeline says so where the history fails.
        with suppress(TileHarvestError):
            began = self._clock()
            progress = await self._running.progress()
            if progress is not None and progress.segment == self.harvest.segment.name:
                self._recorded, self._looked = progress, began
