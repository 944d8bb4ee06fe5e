"""`scrapy harvest NAME... | --all`: harvest maps side by side, and say how it went."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError

from tileharvest.commands.display import Display
from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.runner import Runner
from tileharvest.commands.settings import ask_history, maps_at_once, progress_interval
from tileharvest.commands.shared_maps import LOOK, SharedMaps
from tileharvest.commands.terminal import (
    MOST_NAMED,
    console,
    first_of,
    say,
    write_error,
    write_json,
    write_line,
    write_outcomes,
)
from tileharvest.errors import ConfigurationError, ExitStatus, QueueError, TileHarvestError, counted
from tileharvest.harvest.due import first_day
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import all_maps
from tileharvest.politeness.waits import waiting_for
from tileharvest.queue.orders import Orders
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Mapping, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.politeness.rules import Rules
    from tileharvest.spiders.tiles import TileSpider


# Several harvests together end with the first of these statuses that any of them has.
_WORST_FIRST: Final = {
    ExitStatus.ERROR: "an error, or stopped",
    ExitStatus.USAGE: "wrong usage, or harvested by another process",
    ExitStatus.UNREACHABLE: "unreachable, or moved",
    ExitStatus.BUDGET: "ended by a budget",
    ExitStatus.FAILED_TILES: "with failed tiles",
}

_SWITCHES: Final = {
    "dry": "ask and report, but keep nothing",
    "fresh": "ask for everything again",
    "stay": "wait for pushed requests until you stop it",
}
"""The spiders' arguments that are switches, and what they mean."""

_MOST_REASONS: Final = 3
"""The most reasons of failures that a line names."""

_AHEAD: Final = 16
"""The most maps whose orders are asked for together. One by one, many maps would begin later."""

_FRESH: Final = 1.0
"""Seconds for which these orders are believed. After so many seconds, too, the history is asked again which
harvests other workers have completed."""


class Command(ProjectCommand, BaseRunSpiderCommand):
    form = "[options] NAME... | --all"
    summary = "Harvest maps, and show progress and outcomes"
    details = (
        "Exit status: 0 done, 1 error or stopped, 2 wrong usage or a map that another process harvests,"
        " 3 finished with failed tiles, 4 ended by a budget, 5 site unreachable or moved. Several maps are"
        " harvested side by side; their status is the worst, and a paused one is passed over, as it is with"
        " --all and --no-wait. A paused map that is named alone is waited for."
    )

    requires_crawler_process = True
    # Warnings appear above the lines of progress.
    log_level = "WARNING"

    def __init__(self) -> None:
        super().__init__()
        self._maps: dict[str, Rules] = {}
        """The maps to harvest."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--all", action="store_true", help="harvest every map that is enabled")
        parser.add_argument(
            "--at-once", metavar="N", help="harvest so many maps side by side (MAPS_AT_ONCE, 16)"
        )
        parser.add_argument(
            "--no-wait",
            action="store_true",
            help="leave a paused map alone, and do not wait for it (for cron)",
        )
        parser.add_argument("--day", metavar="DAY", help="harvest for this day, such as 2026-11-20")
        parser.add_argument(
            "--segment",
            help="day, hour, week, every:3d, or run: each start asks anew. Of several harvests in a day, the"
            " history keeps the last one",
        )
        for name, meaning in _SWITCHES.items():
            parser.add_argument(f"--{name}", action="store_true", help=meaning)

    def check(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        opts.spargs |= {name: getattr(opts, name) for name in ("day", "segment") if getattr(opts, name)}
        opts.spargs |= {name: "1" for name in _SWITCHES if getattr(opts, name)}
        if bool(args) == opts.all:
            raise UsageError(
                "say which maps: scrapy harvest NAME..., or scrapy harvest --all", print_help=False
            )
        if "map" in opts.spargs:
            raise ConfigurationError(
                f"write scrapy harvest {opts.spargs['map']}: -a map= is for scrapy crawl"
            )
        self._at_once = maps_at_once(settings, opts.at_once)
        progress_interval(settings)
        self._maps = _checked_maps(settings, args, opts.spargs)

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        assert self.crawler_process is not None
        harvests = _Harvests(
            settings, list(self._maps), opts.spargs, as_json=opts.json, waits=not (opts.all or opts.no_wait)
        )
        order = list(self._maps)
        if min(self._at_once, len(order)) > 1:
            order = _longest_first(settings, self._maps, is_dry=opts.spargs.get("dry") == "1")
        runner = Runner(
            self.crawler_process,
            harvests,
            at_once=self._at_once,
            arguments=opts.spargs,
            is_alone=len(order) == 1,
        )
        runner.run(harvests.names(order))
        # Scrapy has stopped the event loop, and has not closed it.
        asyncio.get_event_loop().run_until_complete(harvests.close())
        self.exitcode = harvests.report(runner.under_way)


def _checked_maps(settings: BaseSettings, args: list[str], arguments: dict[str, str]) -> dict[str, Rules]:
    """Returns the rules of each map to harvest. Raises ConfigurationError if anything is wrong with a map."""
    from tileharvest.harvest.settings import harvest_for
    from tileharvest.politeness.settings import rules_for

    named = dict.fromkeys(args)
    names = list(named) or [name for name, described in all_maps(settings).items() if described.enabled]
    if not names:
        raise ConfigurationError("no map is enabled: `scrapy maps` lists them")
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


@dataclass(frozen=True, slots=True)
class HarvestEnd:
    """How a map's harvest has ended in this process. It keeps no object of the crawl alive."""

    name: str
    day: str
    counts: Mapping[Outcome, int]
    requests: int
    received_bytes: int
    is_finished: bool
    """Whether the harvest is complete, by this run or an earlier one."""
    ending: str | None
    """The line that says why it has ended. None if it was simply completed or stopped."""
    exit_status: ExitStatus
    failures: Mapping[str, int]
    """The reasons of failed tiles, each with its number of tiles, the most frequent first."""
    goes_on: bool
    """Whether a stopped harvest goes on when it is run again."""

    @classmethod
    def of(cls, spider: TileSpider, settings: BaseSettings, arguments: Mapping[str, str]) -> HarvestEnd:
        from tileharvest.harvest.settings import would_go_on

        crawl, harvest = spider.crawl, spider.harvest
        return cls(
            harvest.description.name,
            harvest.day.isoformat(),
            crawl.counts,
            harvest.traffic.requests,
            harvest.traffic.received_bytes,
            crawl.is_finished or crawl.exit_status is ExitStatus.DONE,
            "; ".join(crawl.refused) or None if crawl.ending is None else str(crawl.ending),
            crawl.exit_status,
            crawl.failures,
            would_go_on(settings, arguments, harvest),
        )

    @classmethod
    def of_complete(cls, harvest: Harvest) -> HarvestEnd:
        """Returns the end of a harvest that need not begin, because its segment is complete."""
        said = str(harvest.already_harvested())
        name, day = harvest.description.name, harvest.day.isoformat()
        return cls(name, day, {}, 0, 0, True, said, ExitStatus.DONE, {}, True)

    @property
    def is_stopped(self) -> bool:
        """Whether a person has stopped it."""
        return not self.is_finished and self.ending is None

    @property
    def title(self) -> str:
        cost = f"{counted(self.requests, 'request')}, {bytes_in_words(self.received_bytes)} received"
        return f"{self.name}, {self.day}: {cost}"

    @property
    def in_words(self) -> str:
        """The whole end in one line."""
        if self.exit_status is ExitStatus.DONE:
            state = "done" if self.ending is None else "nothing to do"
        elif self.is_stopped:
            state = "stopped"
        else:
            state = _WORST_FIRST[self.exit_status]
        found = ", ".join(
            f"{outcome} {self.counts[outcome]:,}" for outcome in Outcome if self.counts.get(outcome)
        )
        return f"{self.title}; {state}" + (f"; {found}" if found else "")

    @property
    def why_failed(self) -> str:
        """The line that says why tiles have failed. Empty if none has."""
        if not self.failures:
            return ""
        reasons = [f"{reason} {tiles:,}" for reason, tiles in self.failures.items()]
        return (
            f"failed tiles of map '{self.name}': {first_of(reasons, _MOST_REASONS)}; scrapy failures"
            f" {self.name} lists them, and the next harvest asks again"
        )

    def as_plain(self) -> dict[str, Any]:
        """Returns what programs are told. The keys are stable."""
        is_error = self.exit_status is not ExitStatus.DONE
        return {
            "map": self.name,
            "day": self.day,
            "finished": self.is_finished,
            "counts": counts_as_plain(self.counts),
            "requests": self.requests,
            "received_bytes": self.received_bytes,
            "error": self.ending if is_error else None,
            "note": None if is_error else self.ending,
            "failures": dict(self.failures),
            "exit_status": int(self.exit_status),
        }


class _Harvests:
    """The harvests of one command: which begin next, and how they have ended. Listens to the Runner."""

    def __init__(
        self,
        settings: BaseSettings,
        names: Sequence[str],
        arguments: Mapping[str, str],
        *,
        as_json: bool,
        waits: bool,
    ) -> None:
        from tileharvest.queue.settings import is_shared

        self._settings = settings
        self._names = names
        self._arguments = arguments
        self._as_json = as_json
        self._is_alone = len(names) == 1
        self._passes_over = not (waits and self._is_alone)
        """Whether a paused map is left out. If it is not, the harvest waits for the end of the pause."""
        self._passed_over = 0
        self._orders: dict[str, Orders] = {}
        """The orders of the next maps, as they were at the last look."""
        self._orders_until = -inf
        """The moment of the event loop's clock until which they are believed."""
        self._ahead = _AHEAD
        """The number of maps whose orders are asked for together at present: fewer if these maps begin so
        slowly that the answers grow too old before they are used."""
        self._ends: dict[str, HarvestEnd] = {}
        self._display = Display(
            console(sys.stderr), progress_interval(settings), maps=len(names), as_json=as_json
        )
        self._looks_first = not self._is_alone and _is_once_for_all(settings, names[0], arguments)
        """Whether one look into the history finds the complete harvests of all maps, which then need not
        begin."""
        self._shared: SharedMaps | None = None
        """The maps as shared with other workers. None if this process harvests all maps itself."""
        if self._looks_first and is_shared(settings):
            self._shared = SharedMaps(settings)

    async def names(self, order: Sequence[str]) -> AsyncIterator[str]:
        """Yields the maps in this order. Passes over a paused map, for which the person would have to
        wait."""
        self._display.begin()
        places = {name: place for place, name in enumerate(order)}
        async for name in self._left(order) if self._shared is None else self._free(self._shared, order):
            # In a fleet nobody knows which maps come next.
            following = [name] if self._shared else order[places[name] : places[name] + self._ahead]
            is_paused = await self._is_paused(name, following)
            if is_paused and self._passes_over:
                self._passed_over += 1
                self._display.remove(name)
                self._release(name)
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

    async def close(self) -> None:
        """Releases the maps that this worker holds."""
        if self._shared is not None:
            await self._shared.close()

    def _release(self, name: str) -> None:
        if self._shared is not None:
            self._shared.leave(name)

    async def _is_paused(self, name: str, following: Sequence[str]) -> bool:
        from tileharvest.queue.settings import orders_for_all

        now = asyncio.get_running_loop().time()
        if name not in self._orders or now > self._orders_until:
            self._ahead = max(1, self._ahead // 2) if name in self._orders else min(2 * self._ahead, _AHEAD)
            following = following[: self._ahead]
            # A harvest will meet the same errors and tell them.
            self._orders, _ = await orders_for_all(self._settings, following)
            self._orders_until = now + _FRESH
        since = self._orders.get(name, Orders()).paused
        if since is not None:
            state = "was passed over" if self._passes_over else "is waited for (--no-wait ends instead)"
            say(f"map '{name}' is paused since {since} and {state}; scrapy resume {name} lets it go on")
        return since is not None

    def begun(self, name: str, crawler: Crawler) -> None:
        self._display.watch(name, crawler, is_dry=self._arguments.get("dry") == "1")

    def ended(self, name: str, spider: Spider | None) -> None:
        from tileharvest.spiders.tiles import TileSpider

        self._display.remove(name)
        self._release(name)
        if isinstance(spider, TileSpider) and spider.crawl.harvest is not None:
            self._note(HarvestEnd.of(spider, self._settings, self._arguments))

    def _complete(self, harvest: Harvest) -> None:
        """Notes a harvest that need not begin."""
        self._display.remove(harvest.description.name)
        self._note(HarvestEnd.of_complete(harvest))

    def _note(self, end: HarvestEnd) -> None:
        self._ends[end.name] = end
        if not (self._is_alone or self._as_json):
            write_line(end.in_words)
            sys.stdout.flush()
        if len(self._ends) + self._passed_over == len(self._names):
            self._display.hide()

    def report(self, left: Sequence[str]) -> ExitStatus:
        """Writes how the harvests have ended, and returns the worst status.

        `left` are the maps that the second signal has cut short.
        """
        self._display.hide()
        ends = [self._ends[name] for name in self._names if name in self._ends]
        if self._as_json:
            write_json([end.as_plain() for end in ends])
        self._tell(ends)
        if left:
            whose = f"map '{left[0]}' was" if len(left) == 1 else f"{len(left):,} maps were"
            say(f"{whose} left at once; run it again to continue")
        by_status: dict[ExitStatus, list[str]] = defaultdict(list)
        for end in ends:
            by_status[end.exit_status].append(end.name)
        missing = len(ends) + self._passed_over < len(self._names)
        worst = next((status for status in _WORST_FIRST if by_status[status]), ExitStatus.DONE)
        worst = ExitStatus.ERROR if missing else worst
        if not self._is_alone and by_status[worst] and worst is not ExitStatus.DONE:
            say(f"exit status {int(worst)}, {_WORST_FIRST[worst]}: {first_of(by_status[worst])}")
        return worst

    def _tell(self, ends: Sequence[HarvestEnd]) -> None:
        """Writes what the log and the lines of the harvests have not told already."""
        if self._is_alone and not self._as_json:
            for end in ends:
                if end.counts:
                    write_outcomes(end.title, end.counts)
                if end.ending is not None and end.exit_status is ExitStatus.DONE:
                    write_line(end.ending)
        failed = [end for end in ends if end.failures and end.exit_status is ExitStatus.FAILED_TILES]
        for end in failed[:MOST_NAMED]:
            say(end.why_failed)
        stopped = [end for end in ends if end.is_stopped]
        if not stopped:
            return
        is_one = len(stopped) == 1
        whose = f"map '{stopped[0].name}' was" if is_one else f"{len(stopped):,} maps were"
        again = f"run it again to continue where {'it' if is_one else 'they'} stopped"
        if not all(end.goes_on for end in stopped):
            again = "what was found is kept; run again, it begins anew, in another segment"
        say(f"{whose} stopped; {again}")
