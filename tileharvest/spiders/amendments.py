"""Amendments: what a person changes in `maps.toml` while a harvest runs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace as replace_rules
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict, replace

from tileharvest.errors import BudgetError, ConfigurationError, DaySpentError
from tileharvest.maps.maps_file import stamp_of
from tileharvest.maps.settings import data_folder, described_map, maps_file
from tileharvest.politeness.limits import budget_of_run
from tileharvest.politeness.settings import rules_for
from tileharvest.scheduler.crawl import as_error

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from tileharvest.history.costs import Cost
    from tileharvest.maps.budgets import Budget
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.scheduler.crawl import Crawl

_LOOK: Final = 1.0
"""Seconds between two looks at the file's time."""

_AT_ONCE: Final = (
    "concurrency",
    "requests_per_second",
    "delay",
    "quiet_hours",
    "quiet_rate",
    "budget",
    "daily_budget",
    "min_free",
    "notify",
    "on",
    "viewer",
)
"""The keys whose new values hold at once. The walk, the site and its tiles rest on all other keys, which the
next harvest reads."""

_logger = logging.getLogger(__name__)

_refused: Final[dict[Path, object]] = {}
"""By file: its stamp when it was last found wrong. A process tells that once, however many maps it
harvests."""


class Amendments:
    """Reads `maps.toml` again when it changes, and applies at once the keys of `_AT_ONCE`.

    A file that cannot be read, or that has lost the map, changes nothing, and one line of the log says so.
    """

    def __init__(self, settings: BaseSettings, crawl: Crawl, spent: Cost) -> None:
        """`crawl` has a harvest. `spent` is what its map had cost on this day before the crawl."""
        assert crawl.harvest is not None
        self._settings = settings
        self._crawl = crawl
        self._harvest = crawl.harvest
        self._spent = spent
        self._file = maps_file(settings)
        self._described = described_map(settings, crawl.harvest.description.name)
        """The map as the file last described it."""
        self._stamp = stamp_of(self._file)

    def budget(self) -> Budget:
        """Returns what the run may spend by the rules that hold now. Raises DaySpentError."""
        rules = self._crawl.rules
        assert rules is not None
        return budget_of_run(self._harvest.description.name, rules.budget, rules.daily_budget, self._spent)

    async def watch(self) -> None:
        """Looks at the file every second, until this is cancelled."""
        while True:
            await asyncio.sleep(_LOOK)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - or nothing that a person writes would hold any more
                self._crawl.end(as_error(error))
                return

    async def look(self) -> None:
        """Reads the file if it has changed since the last look. Raises QueueError."""
        stamp = stamp_of(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            described = described_map(self._settings, self._described.name)
            now = replace(self._harvest.description, **{key: getattr(described, key) for key in _AT_ONCE})
            rules = rules_for(self._settings, now)
        except ConfigurationError as error:
            if _refused.get(self._file) != stamp:
                _refused[self._file] = stamp
                _logger.warning("%s; what is under way goes on as before", error)
            return
        before, self._described = asdict(self._described), described
        changed = [key for key, value in asdict(described).items() if value != before[key]]
        is_amended = now != self._harvest.description or rules != self._crawl.rules
        if is_amended:
            await self._amend(now, rules)
        # Most changes of the file are about other maps.
        if is_amended or changed:
            self._say(changed)

    async def _amend(self, now: MapDescription, rules: Rules) -> None:
        crawl, harvest = self._crawl, self._harvest
        harvest.description, crawl.rules = now, rules
        harvest.limit(rules, data_folder(self._settings))
        if crawl.throttle is None:
            return
        try:
            budget = self.budget()
        except DaySpentError as error:
            message = (
                f"map '{now.name}' has spent its daily budget; what was found is kept; run it again tomorrow"
            )
            crawl.end(BudgetError(message, error.reason))
            return
        crawl.throttle.obey(replace_rules(rules, crawl_gap=crawl.robots.gap))
        crawl.throttle.budget = budget

    def _say(self, changed: list[str]) -> None:
        at_once = [key for key in changed if key in _AT_ONCE]
        later = [key for key in changed if key not in _AT_ONCE]
        parts = []
        if at_once or not changed:
            # If the map's own entry is as it was, that of its host has changed.
            parts.append(f"{', '.join(at_once) or 'what it says of hosts'}: from now on")
        if later:
            parts.append(f"{', '.join(later)}: from the next harvest on")
        _logger.warning("%s has changed; for map '%s' %s", self._file, self._described.name, "; ".join(parts))
