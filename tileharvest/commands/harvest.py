"""`scrapy harvest NAME... | --all`: harvest maps side by side, and say how it went."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError

from tileharvest.commands.display import Display
from tileharvest.commands.map_command import ProjectCommand
from tileharvest.commands.runner import Runner
from tileharvest.commands.settings import ask_history, maps_at_once, progress_interval
from tileharvest.commands.shared_maps import SharedHarvests, complete_harvests, is_once_for_all
from tileharvest.commands.terminal import (
    console,
    first_of,
    say,
    write_error,
    write_json,
    write_line,
    write_outcomes,
)
from tileharvest.errors import ConfigurationError, ExitStatus, QueueError, TileHarvestError, counted
from tileharvest.harvest.due import longest_first
from tileharvest.harvest.settings import harvest_for, would_go_on
from tileharvest.history.database import History
from tileharvest.history.settings import database_url, has_history
from tileharvest.history.summaries import last_costs
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.settings import all_maps
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.orders import Orders
from tileharvest.queue.settings import has_requests, is_shared, orders_for_all
from tileharvest.spiders.tiles import TileSpider
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Mapping, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.politeness.rules import Rules


# Several harvests end with the first of these statuses that occurred.
_WORST_FIRST: Final = {
    ExitStatus.ERROR: "an error, or stopped",
    ExitStatus.USAGE: "wrong usage, or harvested by another process",
    ExitStatus.UNREACHABLE: "unreachable, or moved",
    ExitStatus.BUDGET: "ended by a budget",
    ExitStatus.FAILED_TILES: "with failed tiles",
}

_MOST_NAMED: Final = 10
"""Maps that the last line names."""
_MOST_REASONS: Final = 3
"""Why tiles have failed, in one line."""

_AHEAD: Final = 16
"""Maps whose orders are asked for together. One by one they would hold up the beginnings of many maps."""

_FRESH: Final = 1.0
"""Seconds for which the answers are believed."""


class Command(ProjectCommand, BaseRunSpiderCommand):
    form = "[options] NAME... | --all"
    summary = "Harvest maps, with progress, the outcome table and an exit status that tells how it went"
    details = (
        "Exit status: 0 done, 1 error or stopped, 2 wrong usage or a map that another process harvests,"
        " 3 finished with failed tiles, 4 ended by a budget, 5 site unreachable or moved. Several maps are"
        " harvested side by side; their status is the worst, and a paused one is passed over, as it is with"
        " --all. Spider arguments: -a dry=1 asks and reports but keeps nothing; -a day=2026-11-20 harvests"
        " for that day instead of today."
    )

    requires_crawler_process = True
    # What a person must know appears above the lines of progress.
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
        parser.add_argument("--json", action="store_true", help="write JSON for programs")

    def check(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
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
        harvests = _Harvests(settings, list(self._maps), opts.spargs, as_json=opts.json, is_all=opts.all)
        order = list(self._maps)
        if min(self._at_once, len(order)) > 1:
            if opts.spargs.get("dry") != "1" and has_history(settings):
                # It is upgraded before it is read. The first harvest would do that later.
                History.open(database_url(settings)).close()
            order = longest_first(self._maps, ask_history(settings, last_costs) or {})
        runner = Runner(
            self.crawler_process,
            harvests,
            at_once=self._at_once,
            arguments=opts.spargs,
            is_alone=len(order) == 1,
        )
        runner.run(harvests.names(order))
        # The loop has been stopped, and is not closed.
        asyncio.get_event_loop().run_until_complete(harvests.close())
        self.exitcode = harvests.report(runner.under_way)


def _checked_maps(settings: BaseSettings, args: list[str], arguments: dict[str, str]) -> dict[str, Rules]:
    """Returns the maps to harvest, by name. Raises ConfigurationError if anything is wrong with any of
    them."""
    named = dict.fromkeys(args)
    names = list(named) or [name for name, described in all_maps(settings).items() if described.enabled]
    if not names:
        raise ConfigurationError("no map is enabled: `scrapy maps` lists them")
    return {
        name: rules_for(settings, harvest_for(settings, {**arguments, "map": name}).description)
        for name in names
    }


@dataclass(frozen=True, slots=True)
class HarvestEnd:
    """How a map's harvest has ended in this process. It holds nothing of the crawl."""

    name: str
    day: str
    counts: Mapping[Outcome, int]
    requests: int
    received_bytes: int
    is_finished: bool
    """Whether the harvest is complete, also where it was finished by an earlier run."""
    ending: str | None
    """Why it has ended, in one line, where there is more to say than that it is complete."""
    exit_status: ExitStatus
    failures: Mapping[str, int]
    """Why tiles have failed, the most frequent reason first."""
    goes_on: bool
    """Whether what was stopped goes on when it is run again."""

    @classmethod
    def of(cls, spider: TileSpider, settings: BaseSettings, arguments: Mapping[str, str]) -> HarvestEnd:
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
        """Returns the end of a harvest that is not begun, as that of its segment is complete."""
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
        """Says all in one line."""
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
        """Says in one line why tiles have failed; nothing where none has."""
        if not self.failures:
            return ""
        reasons = [f"{reason} {tiles:,}" for reason, tiles in self.failures.items()]
        return (
            f"failed tiles of map '{self.name}': {first_of(reasons, _MOST_REASONS)}; scrapy failures"
            f" {self.name} lists them, and the next harvest asks again"
        )

    def as_plain(self) -> dict[str, Any]:
        """Returns what programs are told: the names stay."""
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
    """The harvests that one command was asked for: in which order they begin, and how they have ended."""

    def __init__(
        self,
        settings: BaseSettings,
        names: Sequence[str],
        arguments: Mapping[str, str],
        *,
        as_json: bool,
        is_all: bool,
    ) -> None:
        self._settings = settings
        self._names = names
        self._arguments = arguments
        self._as_json = as_json
        self._is_alone = len(names) == 1
        self._passes_over = is_all or not self._is_alone
        """Whether a paused map is left out: it is if the person has not named it alone."""
        self._passed_over = 0
        self._orders: dict[str, Orders] = {}
        """Of the next maps, as they were when they were last asked for."""
        self._orders_until = 0.0
        """Until when they are believed, by the clock of the event loop."""
        self._ends: dict[str, HarvestEnd] = {}
        self._display = Display(
            console(sys.stderr), progress_interval(settings), maps=len(names), as_json=as_json
        )
        self._looks_first = not self._is_alone and is_once_for_all(settings, names[0], arguments)
        """Whether what is complete is found by one look for all maps, and not begun."""
        self._shared: SharedHarvests | None = None
        """None where this process harvests all the maps itself."""
        if self._looks_first and is_shared(settings):
            self._shared = SharedHarvests(settings, arguments, self._complete)

    async def names(self, order: Sequence[str]) -> AsyncIterator[str]:
        """Yields the maps in this order. A paused one is passed over: it would keep the person waiting."""
        self._display.begin()
        places = {name: place for place, name in enumerate(order)}
        async for name in self._left(order) if self._shared is None else self._shared.free(order):
            # Which maps of a fleet come next, nobody knows.
            following = [name] if self._shared else order[places[name] : places[name] + _AHEAD]
            if self._passes_over and await self._is_paused(name, following):
                self._passed_over += 1
                self._display.remove(name)
                self._release(name)
            else:
                yield name

    async def _left(self, order: Sequence[str]) -> AsyncIterator[str]:
        """Yields the maps whose harvest is not complete, or into whose queue something was pushed since."""
        done: dict[str, Harvest] = {}
        if self._looks_first:
            # Each harvest meets the same error, and says so.
            with suppress(TileHarvestError):
                found = await asyncio.to_thread(complete_harvests, self._settings, self._arguments, order)
                done = {harvest.description.name: harvest for harvest in found}
        for name in order:
            if name in done and not await asyncio.to_thread(self._has_requests, name):
                self._complete(done[name])
            else:
                yield name

    def _has_requests(self, name: str) -> bool:
        try:
            return has_requests(self._settings, name)
        except QueueError:
            # The harvest will meet the same error and say so.
            return True

    async def close(self) -> None:
        """Leaves what this worker has to others."""
        if self._shared is not None:
            await self._shared.close()

    def _release(self, name: str) -> None:
        if self._shared is not None:
            self._shared.release(name)

    async def _is_paused(self, name: str, following: Sequence[str]) -> bool:
        now = asyncio.get_running_loop().time()
        if name not in self._orders or now > self._orders_until:
            # A harvest will meet the same errors and say so.
            self._orders, _ = await orders_for_all(self._settings, following)
            self._orders_until = now + _FRESH
        since = self._orders.get(name, Orders()).paused
        if since is not None:
            say(
                f"map '{name}' is paused since {since} and was passed over;"
                f" scrapy resume {name} lets it go on"
            )
        return since is not None

    def begun(self, name: str, crawler: Crawler) -> None:
        self._display.watch(name, crawler, is_dry=self._arguments.get("dry") == "1")

    def ended(self, name: str, spider: Spider | None) -> None:
        self._display.remove(name)
        self._release(name)
        if isinstance(spider, TileSpider) and spider.crawl.harvest is not None:
            self._note(HarvestEnd.of(spider, self._settings, self._arguments))

    def _complete(self, harvest: Harvest) -> None:
        """It need not be begun."""
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
        """Writes how they have ended, and returns the worst status. `left` are the maps that were left at
        once."""
        self._display.hide()
        ends = [self._ends[name] for name in self._names if name in self._ends]
        if self._as_json:
            write_json([end.as_plain() for end in ends])
        self._tell(ends)
        if left:
            whose = f"map '{left[0]}' was" if len(left) == 1 else f"{len(left):,} maps were"
            write_error(f"{whose} left at once; run it again to continue")
        by_status: dict[ExitStatus, list[str]] = defaultdict(list)
        for end in ends:
            by_status[end.exit_status].append(end.name)
        missing = len(ends) + self._passed_over < len(self._names)
        worst = next((status for status in _WORST_FIRST if by_status[status]), ExitStatus.DONE)
        worst = ExitStatus.ERROR if missing else worst
        if not self._is_alone and by_status[worst] and worst is not ExitStatus.DONE:
            say(f"exit status {int(worst)}, {_WORST_FIRST[worst]}: {first_of(by_status[worst], _MOST_NAMED)}")
        return worst

    def _tell(self, ends: Sequence[HarvestEnd]) -> None:
        """Says how the harvests went, as far as the log and their lines have not said it already."""
        if self._is_alone and not self._as_json:
            for end in ends:
                if end.counts:
                    write_outcomes(end.title, end.counts)
                if end.ending is not None and end.exit_status is ExitStatus.DONE:
                    write_line(end.ending)
        failed = [end for end in ends if end.failures and end.exit_status is ExitStatus.FAILED_TILES]
        for end in failed[:_MOST_NAMED]:
            say(end.why_failed)
        stopped = [end for end in ends if end.is_stopped]
        if not stopped:
            return
        is_one = len(stopped) == 1
        whose = f"map '{stopped[0].name}' was" if is_one else f"{len(stopped):,} maps were"
        again = f"run it again to continue where {'it' if is_one else 'they'} stopped"
        if not all(end.goes_on for end in stopped):
            again = "what was found is kept; run again, it begins anew, in another segment"
        write_error(f"{whose} stopped; {again}")
