"""The maps that are due, and how one worker takes them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from scrapy.settings import BaseSettings

from tileharvest.commands.terminal import say, write_error
from tileharvest.errors import ConfigurationError, ExitStatus, QueueError, TileHarvestError, program
from tileharvest.harvest.due import Due, Times, due, pause_after
from tileharvest.harvest.settings import times_for
from tileharvest.history.database import History
from tileharvest.history.settings import open_history_if_any
from tileharvest.history.summaries import Past, past_of
from tileharvest.maps.description import MapDescription
from tileharvest.maps.maps_file import stamp_of
from tileharvest.maps.settings import all_maps, described_map, maps_file
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.map_leases import LocalMapLeases
from tileharvest.queue.settings import controls_for, lease_seconds, map_leases, workers_of_all
from tileharvest.scheduler.crawl import cancel

_LOOK: Final = 5.0
"""Seconds between two signs of life. A killed worker counts as gone after six times as long."""

_FRESH: Final = timedelta(seconds=20)
"""The time after which the history is asked again, which costs 0.1 ms of CPU for each map. The map that is to
begin is always looked at anew."""

_HELD_BACK: Final = timedelta(minutes=1)
"""The time after which the queue of a map that is passed over is asked again."""

_JOINED_AT_ONCE: Final = 16
"""The most maps of others that an idle worker looks at in one look."""

_SUCCESS: Final = (ExitStatus.DONE, ExitStatus.FAILED_TILES)


def dues(history: History | None, times: Iterable[Times], now: datetime) -> dict[str, Due]:
    """Returns when these maps are due, the earliest first."""
    found = []
    for one in times:
        past, segment, is_adaptive = Past(), one.segments(now), one.description.adaptive is not None
        if history is not None:
            # In the map's time zone the segment may begin on the day before.
            since = (segment.begins - timedelta(days=1)).date()
            past = past_of(history, one.description.name, segment.name, since, with_visits=is_adaptive)
        found.append(due(one, past, now))
    return {one.name: one for one in sorted(filter(None, found), key=lambda one: one.moment)}


def dues_of(
    settings: BaseSettings, history: History | None, descriptions: Iterable[MapDescription], now: datetime
) -> dict[str, Due]:
    """Returns when each enabled map is due. A map that is never due is left out."""
    times = []
    for one in descriptions:
        # `tileharvest run` says what is wrong with a map's times.
        with suppress(ConfigurationError):
            times += [times_for(settings, one, now)] if one.enabled else []
    return dues(history, times, now)


class DueMaps:
    """Gives a worker one map after the other, each when it is due and no other worker holds it.

    A worker leases its maps, so that others leave them alone. If no map is free, it joins others at a map
    without a rate, which one worker alone would not keep as busy as it may be.
    maps.toml and the history decide when a map is due. Both are read again while the worker runs. So maps can
    be added, changed and removed without a restart, and a kill loses nothing.
    """

    def __init__(
        self,
        settings: BaseSettings,
        only: Sequence[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`only` names the maps. Without names all enabled maps are taken. Opens nothing yet."""
        self._settings = settings
        self._only = only
        self._clock = clock
        self._leases = map_leases(settings)
        self._signs: asyncio.Task[None] | None = None
        self._file = maps_file(settings)
        self._stamp: object = None
        """The state of the file when it was read last. None if there was no file."""
        self.described: list[MapDescription] = []
        """The maps to harvest, as the file describes them."""
        self._times: dict[str, Times] = {}
        self._dues: dict[str, Due] = {}
        self._looked: datetime | None = None
        self._held: set[str] = set()
        self._failed: Counter[str] = Counter()
        """By map: how often in a row its harvest has failed here."""
        self._held_back: dict[str, datetime] = {}
        """The moments until which maps are left alone that were passed over or have failed here."""
        self._passed_over: dict[str, str] = {}
        """By map that is passed over: the reason that was written."""
        self._fault = ""
        """The error that was written last. Empty if the last look found none."""

    def read_maps(self) -> None:
        """Reads maps.toml, which need not be there yet if no map is named.

        Raises ConfigurationError for any mistake in it, and for an unknown name.
        """
        self._stamp = stamp_of(self._file)
        self.described = [described_map(self._settings, name) for name in self._only]
        if not self.described and self._stamp is not None:
            self.described = [one for one in all_maps(self._settings).values() if one.enabled]

        now = self._clock()
        self._times = {one.name: times_for(self._settings, one, now) for one in self.described}

    async def open(self) -> None:
        """Opens the leases and begins to give signs of life. Raises QueueError."""
        await self._leases.open()
        self._signs = asyncio.ensure_future(self._give_signs())

    async def close(self) -> None:
        """Releases all maps. Raises nothing."""
        if self._signs is not None:
            await cancel(self._signs)
        with suppress(TileHarvestError):
            await self._leases.close()

    async def _give_signs(self) -> None:
        pause = min(_LOOK, lease_seconds(self._settings) / 6)
        while True:
            await asyncio.sleep(pause)
            with suppress(TileHarvestError):
                await self._leases.extend()

    async def take(self) -> str | None:
        """Returns a map that is due, or None if there is none. The worker holds the map until `done`.

        Raises nothing, but writes errors on stderr: Redis or the database may come back, and a person may
        repair maps.toml. Until then the former state of the file counts.
        """
        try:
            name, fault = await self._taken(), ""
        except TileHarvestError as error:
            name, fault = None, f"{error}; trying again every second"
        if fault and fault != self._fault:
            write_error(fault)
        self._fault = fault
        return name

    @property
    def outlook(self) -> str:
        """The line that says what an idle worker will do next."""
        if self._stamp is None:
            return f"there is no {self._file}: `{program()} add NAME URL` writes one"
        others = [one for name, one in self._dues.items() if name not in self._held]
        following = next((one for one in others if one.moment > self._clock()), None)
        said = "nothing is due"
        if others and following is not others[0]:
            said = "what is due is at other workers, paused, or tried again later"
        if following is None:
            return said
        return f"{said}; next is map '{following.name}' at {self._in_words(following.name, following.moment)}"

    async def done(self, name: str, status: ExitStatus, *, is_stopping: bool) -> None:
        """Releases a map whose harvest has ended with this status.

        A failed harvest is tried again later. If the worker is stopping, another worker may do so at once.
        """
        now = self._clock()
        self._held.discard(name)
        if status in _SUCCESS or is_stopping:
            self._failed.pop(name, None)
            await self._release(name)
        else:
            segment = self._times[name].segments(now) if name in self._times else None
            length = None if segment is None or segment.ends is None else segment.ends - segment.begins
            self._failed[name] += 1
            again = now + pause_after(self._failed[name], length)
            say(f"map '{name}' is tried again at {self._in_words(name, again)}")
            # If other workers share the map, their lease goes on, and only this worker leaves the map alone.
            self._held_back[name] = again
            await self._release(name, (again - now).total_seconds())

    async def _release(self, name: str, pause: float = 0.0) -> None:
        # If the queue does not hear of it, it learns so from this worker's silence.
        with suppress(TileHarvestError):
            await self._leases.release(name, pause)

    def _in_words(self, name: str, moment: datetime) -> str:
        """Returns the moment in the map's time zone, as text."""
        zone = self._times[name].description.zone_info if name in self._times else UTC
        return f"{moment.astimezone(zone):%Y-%m-%d %H:%M %Z}"

    async def _taken(self) -> str | None:
        if stamp_of(self._file) != self._stamp:
            self._looked = None
            try:
                self.read_maps()
            except ConfigurationError as error:
                write_error(f"{error}; what the file said before holds until it is repaired")
        now = self._clock()
        if self._looked is None or not timedelta() <= now - self._looked < _FRESH:
            await self._look(list(self._times), now)
            self._looked = now
        while names := self._candidates(now):
            name = await self._leased(names)
            if name is None:
                return None
            begins = False
            try:
                # Another worker may have finished the harvest since the last look.
                await self._look([name], now)
                begins = name in self._candidates(now) and await self._may_begin(name, now)
            finally:
                if not begins:
                    await self._release(name)
            if begins:
                self._held.add(name)
                return name
        return None

    async def _leased(self, names: Sequence[str]) -> str | None:
        """Leases the first of these maps that is free or has room, and returns it, or None if there is
        none."""
        free = await self._leases.acquire(names)
        if free is not None or isinstance(self._leases, LocalMapLeases):
            return free
        others = (await self._leases.taken(names))[:_JOINED_AT_ONCE]
        for name, workers in (await workers_of_all(self._settings, others)).items():
            if 0 < len(workers) < self._most_workers(name):
                return name
        return None

    def _most_workers(self, name: str) -> int:
        rules = rules_for(self._settings, described_map(self._settings, name))
        of_host, gap = rules.limits_at(rules.host)
        return 1 if rules.gap.at_least(gap) else min(rules.concurrency, of_host)

    async def _look(self, names: Sequence[str], now: datetime) -> None:
        """Asks the history about these maps, and keeps what it said of the others."""

        def ask() -> dict[str, Due]:
            with open_history_if_any(self._settings) or nullcontext() as history:
                return dues(history, (self._times[name] for name in names), now)

        known = self._dues | dict.fromkeys(names) | await asyncio.to_thread(ask)
        ordered = sorted((one for one in known.values() if one), key=lambda one: one.moment)
        self._dues = {one.name: one for one in ordered if one.name in self._times}

    def _candidates(self, now: datetime) -> list[str]:
        return [
            name
            for name, one in self._dues.items()
            if one.moment <= now and name not in self._held and self._held_back.get(name, now) <= now
        ]

    async def _may_begin(self, name: str, now: datetime) -> bool:
        """Returns False for a map that is paused, or whose queue cannot be read. It would only take the place
        of another one."""
        why = ""
        try:
            since = (await controls_for(self._settings, name)).paused
            if since is not None:
                why = f"paused since {since} and is passed over; {program()} resume {name} lets it go on"
        except QueueError as error:
            why = f"passed over: {error}"
        if why and self._passed_over.get(name) != why:
            say(f"map '{name}' is {why}")
        self._passed_over[name] = why
        if why:
            self._held_back[name] = now + _HELD_BACK
        return not why
