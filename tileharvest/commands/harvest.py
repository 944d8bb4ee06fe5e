"""`tileharvest harvest NAME... | --all`: harvest maps side by side, and say how it went."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from scrapy.commands import BaseRunSpiderCommand

from tileharvest.commands.progress import HarvestProgress
from tileharvest.commands.project_command import ProjectCommand, switch, value
from tileharvest.commands.report import HarvestEnd, Report
from tileharvest.commands.runner import Runner
from tileharvest.commands.settings import ask_history, maps_at_once, progress_interval
from tileharvest.commands.shared_maps import LOOK, SharedMaps
from tileharvest.commands.terminal import (
    console,
    first_of,
    say,
    write_error,
)
from tileharvest.errors import ConfigurationError, QueueError, TileHarvestError
from tileharvest.harvest.due import first_day
from tileharvest.maps.settings import all_maps
from tileharvest.politeness.waits import waiting_for
from tileharvest.program import program

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.politeness.rules import Rules


_SWITCHES: Final = {
    "dry": "ask and report, but keep nothing",
    "fresh": "ask for everything again",
    "stay": "wait for pushed requests until you stop it",
}
"""The spiders' arguments that are switches, and what they mean."""

_FRESH: Final = 1.0
"""Seconds after which the history is asked again which harvests other workers have completed."""


class Command(ProjectCommand, BaseRunSpiderCommand):
    arguments = "[NAME...]"
    form = "NAME... | --all"
    summary = "Harvest maps, and show progress and outcomes"
    details = (
        "Exit status: 0 done, 1 error or stopped, 2 wrong usage or a map that another process harvests,"
        " 3 finished with failed tiles, 4 ended by a budget, 5 site unreachable or moved. Several maps are"
        " harvested side by side; their status is the worst, and a paused one is passed over, as it is with"
        " --all and --no-wait. A paused map that is named alone is waited for."
    )
    examples = ("my-server", "--all --at-once 4")
    requires_crawler_process = True
    # Warnings appear above the lines of progress.
    log_level = "WARNING"
    options = {
        "--all": switch("harvest every map that is enabled"),
        "--at-once": value("harvest so many maps side by side (MAPS_AT_ONCE, 16)", metavar="N"),
        "--no-wait": switch("leave a paused map alone, and do not wait for it (for cron)"),
        "--verbose": switch("write the outcomes with their codes"),
        "--day": value("harvest for this day, such as 2026-11-20"),
        "--segment": value(
            "day, hour, week, every:3d, or run: each start asks anew. Of several harvests in a day, the"
            " history keeps the last one"
        ),
        **{f"--{name}": switch(meaning) for name, meaning in _SWITCHES.items()},
    }

    def __init__(self) -> None:
        super().__init__()
        self._maps: dict[str, Rules] = {}
        """The maps to harvest."""

    def check(self, opts: Namespace) -> None:
        opts.spargs |= {name: getattr(opts, name) for name in ("day", "segment") if getattr(opts, name)}
        opts.spargs |= {name: "1" for name in _SWITCHES if getattr(opts, name)}
        if bool(opts.name) == opts.all:
            raise self.wrong_usage()
        if "map" in opts.spargs:
            raise ConfigurationError(
                f"write {program()} harvest {opts.spargs['map']}: -a map= is for {program()} crawl"
            )
        self._at_once = maps_at_once(self.settings, opts.at_once)
        progress_interval(self.settings)
        self._maps = _checked_maps(self.settings, opts.name, opts.spargs)

    def answer(self, opts: Namespace) -> None:
        assert self.crawler_process is not None
        settings = self.settings
        names = list(self._maps)
        report = Report(names, as_json=opts.json, is_verbose=opts.verbose)
        progress = HarvestProgress(
            console(sys.stderr), progress_interval(settings), maps=len(names), as_json=opts.json
        )
        choice = _Choice(
            settings,
            opts.spargs,
            report,
            progress,
            waits=len(names) == 1 and not (opts.all or opts.no_wait),
            looks_first=len(names) > 1 and _is_once_for_all(settings, names[0], opts.spargs),
        )
        order = names
        if min(self._at_once, len(names)) > 1:
            order = _longest_first(settings, self._maps, is_dry=opts.spargs.get("dry") == "1")
        runner = Runner(
            self.crawler_process,
            _Harvests(settings, opts.spargs, report, progress, choice.release),
            at_once=self._at_once,
            arguments=opts.spargs,
            is_alone=len(names) == 1,
        )
        runner.run(choice.names(order))
        # Scrapy has stopped the event loop, and has not closed it.
        asyncio.get_event_loop().run_until_complete(choice.close())
        progress.hide()
        self.exitcode = report.finish(runner.under_way)


def _checked_maps(settings: BaseSettings, args: list[str], arguments: dict[str, str]) -> dict[str, Rules]:
    """Returns the rules of each map to harvest. Raises ConfigurationError if anything is wrong with a map."""
    from tileharvest.harvest.settings import harvest_for
    from tileharvest.politeness.settings import rules_for

    named = dict.fromkeys(args)
    names = list(named) or [name for name, described in all_maps(settings).items() if described.enabled]
    if not names:
        raise ConfigurationError(f"no map is enabled: `{program()} maps` lists them")
    return {
        name: rules_for(settings, harvest_for(settings, {**arguments, "map": name}).description)
        for name in names
    }


def _longest_first(settings: BaseSettings, maps: Mapping[str, Rules], *, is_dry: bool) -> list[str]:
    """Returns the maps in the order in which they begin: those first that will probably take longest."""
    from tileharvest.harvest.due import longest_first
    from tileharvest.history.settings import has_history, open_history
    from tileharvest.history.summaries import last_costs

    if not is_dry and has_history(settings):
        # The history must be made before it is read. The first harvest would do so too late.
        open_history(settings).close()
    return longest_first(maps, ask_history(settings, last_costs) or {})


def _is_once_for_all(settings: BaseSettings, name: str, arguments: Mapping[str, str]) -> bool:
    """Returns whether a harvest with these arguments is made once in its segment, by whichever worker.

    It is not if each start asks for everything. `name` is any of the maps.
    """
    from tileharvest.harvest.settings import harvest_for

    if {"dry", "fresh", "stay"} & arguments.keys():
        return False
    return harvest_for(settings, {**arguments, "map": name}).segment.ends is not None


class _Choice:
    """Chooses which map begins next.

    It leaves out complete harvests, and paused maps for which nobody waits. Among workers that share the maps
    it takes the free ones first.
    """

    def __init__(
        self,
        settings: BaseSettings,
        arguments: Mapping[str, str],
        report: Report,
        progress: HarvestProgress,
        *,
        waits: bool,
        looks_first: bool,
    ) -> None:
        """`waits` says that a paused map is waited for. `looks_first` says that one look into the history
        finds the complete harvests of all maps, which then need not begin."""
        from tileharvest.queue.settings import is_shared

        self._settings = settings
        self._arguments = arguments
        self._report = report
        self._progress = progress
        self._waits = waits
        self._looks_first = looks_first
        self._shared = SharedMaps(settings) if looks_first and is_shared(settings) else None
        """The maps as shared with other workers. None if this process harvests all maps itself."""

    async def names(self, order: Sequence[str]) -> AsyncIterator[str]:
        """Yields the maps to harvest, in this order if no other worker shares them."""
        self._progress.begin()
        async for name in self._left(order) if self._shared is None else self._free(self._shared, order):
            if not self._waits and await self._is_paused(name):
                self._report.pass_over()
                self._progress.remove(name)
                self.release(name)
            else:
                yield name

    async def _left(self, order: Sequence[str]) -> AsyncIterator[str]:
        """Yields the maps whose harvest is not complete, and those with requests that were pushed since."""
        done: dict[str, Harvest] = {}
        if self._looks_first:
            # Each harvest meets the same error, and tells it.
            with suppress(TileHarvestError):
                done = await asyncio.to_thread(self._complete_ones, order)
        for name in order:
            if name in done and not await asyncio.to_thread(self._has_requests, name):
                self._complete(done[name])
            else:
                yield name

    async def _free(self, shared: SharedMaps, order: Sequence[str]) -> AsyncIterator[str]:
        """Yields the maps that this worker is to harvest, the free ones first.

        Waits for the maps that others hold, because these workers may leave them or be killed. If the leases
        cannot be opened, yields all maps: each harvest then meets the same error and tells it.
        """
        left = list(order)
        try:
            await shared.open()
            async for name in self._taken(shared, left):
                yield name
        except TileHarvestError as error:
            write_error(str(error))
        for name in left:
            yield name

    async def _taken(self, shared: SharedMaps, left: list[str]) -> AsyncIterator[str]:
        """Removes the maps from the list as it yields them, or as they are found complete."""
        looked, has_said = -inf, False
        while True:
            if (now := asyncio.get_running_loop().time()) - looked >= _FRESH:
                looked = now
                for complete, harvest in (await asyncio.to_thread(self._complete_ones, left)).items():
                    left.remove(complete)
                    self._complete(harvest)
            if not left:
                return
            lease = await shared.take(left)
            name = None if lease is None else lease.map
            if name is None:
                # A map that has failed elsewhere cannot be leased for a while, but a person wants it now.
                others = await shared.taken(left)
                name = next((one for one in left if one not in others), None)
            if name is not None:
                left.remove(name)
                yield name
                continue
            if not has_said:
                say(waiting_for(f"other workers, who are at {first_of(left)}", None))
                has_said = True
            await asyncio.sleep(LOOK)

    def _complete_ones(self, names: Sequence[str]) -> dict[str, Harvest]:
        """Returns the harvests of these maps that are complete, by map. This is one look into the history,
        and blocks. Raises HistoryError."""
        from tileharvest.harvest.settings import harvest_for
        from tileharvest.history.past import pasts

        asked = {name: harvest_for(self._settings, {**self._arguments, "map": name}) for name in names}
        segments = {name: (one.segment.name, first_day(one.segment)) for name, one in asked.items()}
        known = ask_history(self._settings, lambda history: pasts(history, segments, ())) or {}
        return {name: one for name, one in asked.items() if name in known and known[name].is_complete}

    def _has_requests(self, name: str) -> bool:
        from tileharvest.queue.settings import has_requests

        try:
            return has_requests(self._settings, name)
        except QueueError:
            # The harvest will meet the same error and tell it.
            return True

    def _complete(self, harvest: Harvest) -> None:
        """Notes a harvest that need not begin."""
        self._progress.remove(harvest.description.name)
        self._report.note(HarvestEnd.of_complete(harvest))

    async def _is_paused(self, name: str) -> bool:
        from tileharvest.queue.settings import orders_for

        # The harvest will meet the same error and tell it.
        with suppress(QueueError):
            since = (await orders_for(self._settings, name)).paused
            if since is not None:
                say(
                    f"map '{name}' is paused since {since} and was passed over;"
                    f" {program()} resume {name} lets it go on"
                )
                return True
        return False

    def release(self, name: str) -> None:
        """Lets other workers have a map."""
        if self._shared is not None:
            self._shared.leave(name)

    async def close(self) -> None:
        """Releases the maps that this worker holds."""
        if self._shared is not None:
            await self._shared.close()


class _Harvests:
    """The harvests of one command. It is the listener of the Runner."""

    def __init__(
        self,
        settings: BaseSettings,
        arguments: Mapping[str, str],
        report: Report,
        progress: HarvestProgress,
        release: Callable[[str], None],
    ) -> None:
        """`release` is called with the name of each map whose harvest has ended."""
        self._settings = settings
        self._arguments = arguments
        self._report = report
        self._progress = progress
        self._release = release

    def begun(self, name: str, crawler: Crawler) -> None:
        self._progress.watch(name, crawler, is_dry=self._arguments.get("dry") == "1")

    def ended(self, name: str, spider: Spider | None) -> None:
        from tileharvest.spiders.tiles import TileSpider

        self._progress.remove(name)
        self._release(name)
        if isinstance(spider, TileSpider) and spider.crawl.harvest is not None:
            self._report.note(HarvestEnd.of(spider, self._settings, self._arguments))
        if self._report.is_complete:
            self._progress.hide()

    def held_up(self) -> Collection[str]:
        return self._progress.held_up()
