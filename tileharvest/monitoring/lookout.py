"""What the process that harvests a map knows of the harvest's figures while it runs."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tileharvest.errors import TileHarvestError
from tileharvest.history.costs import NO_COST
from tileharvest.monitoring.figures import Figures, Recent, State, moment_in_words
from tileharvest.politeness.gate import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from datetime import datetime

    from tileharvest.harvest.harvest import Harvesting
    from tileharvest.history.summaries import HarvestSummary

PAUSE: Final = 3.0
"""Seconds between two looks into the history."""
_WATCH: Final = 1.0
"""Seconds between two looks at what costs nothing: whether a person has paused the map."""
_SHARE: Final = 20
"""A look may take one of so many parts of the time: it reads all tiles of the map."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look, besides the harvest itself."""

    reasons: Callable[[], Collection[Reason]]
    """Why requests are held back at this moment."""
    paused_since: Callable[[], Awaitable[str | None]]
    quiet_until: Callable[[], datetime | None]
    progress: Callable[[], Awaitable[HarvestSummary | None]]
    """What the history has of the map's unfinished harvest."""
    is_shared: bool = False
    """Whether other processes may work on the same harvest."""


class Lookout:
    """Gives the figures of a harvest that runs, whenever asked.

    A process that works alone on a harvest that it has begun counts itself. What others have a part in, and
    what was begun earlier, is looked up in the history every few seconds while `keep_watch` runs.
    """

    def __init__(
        self, harvesting: Harvesting, sources: Sources, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` in seconds that never go backwards."""
        self.harvesting = harvesting
        self._sources = sources
        self._clock = clock
        self._recent = Recent()
        self._earlier = NO_COST
        """Of the harvest before this process had a part in it."""
        self._recorded: HarvestSummary | None = None
        self._looked = 0.0
        """When what is recorded was so."""
        self._paused_since: str | None = None

    async def keep_watch(self) -> None:
        """Look for what this process cannot know, until cancelled. To be begun before the harvest begins."""
        await self._look()
        if self._recorded is not None:
            self._earlier = self._recorded.cost
        next_look = self._clock() + PAUSE
        while True:
            await self._ask_since_when()
            if self._clock() >= next_look and (self._sources.is_shared or self._recorded is not None):
                began = self._clock()
                await self._look()
                next_look = self._clock() + max(PAUSE, _SHARE * (self._clock() - began))
            await asyncio.sleep(_WATCH)

    def figures(self) -> Figures:
        """At this moment. At once, and cheap."""
        recorded, harvesting, now = self._recorded, self.harvesting, self._clock()
        own = self._earlier + harvesting.traffic.total
        figures = Figures(
            harvesting.expected or (recorded.expected if recorded else 0),
            recorded.counts if recorded else dict(harvesting.tally),
            recorded.cost if recorded and self._sources.is_shared else own,
            is_pruned=self._is_pruned(),
        )
        state = self._state(is_idle=self._recent.is_idle(now))
        if state.is_at_work:
            moment = self._looked if recorded and self._sources.is_shared else now
            self._recent.add(moment, figures.cost.requests, figures.done)
        else:
            self._recent.clear()
        # How many the others are, only the queue knows.
        average = None if self._sources.is_shared else figures.average()
        return replace(figures, state=state, rate=self._recent.rate() or average)

    def _is_pruned(self) -> bool:
        if self.harvesting.is_pruned is not None:
            return self.harvesting.is_pruned
        # Until that is decided, an earlier run's decision may be known.
        return self._recorded is not None and self._recorded.walk == "pruned"

    def _state(self, *, is_idle: bool) -> State:
        return State.of(
            self._sources.reasons(),
            has_begun=self.harvesting.is_open,
            is_idle=is_idle,
            paused_since=self._paused_since,
            quiet_until=moment_in_words(self._sources.quiet_until()),
        )

    async def _ask_since_when(self) -> None:
        if Reason.PAUSED not in self._sources.reasons():
            self._paused_since = None
        elif self._paused_since is None:
            # Whoever works on the queue says so where it fails.
            with suppress(TileHarvestError):
                self._paused_since = await self._sources.paused_since()

    async def _look(self) -> None:
        # Whoever writes to the history says so where it fails.
        with suppress(TileHarvestError):
            began = self._clock()
            progress = await self._sources.progress()
            if progress is not None and progress.segment == self.harvesting.segment.name:
                self._recorded, self._looked = progress, began
