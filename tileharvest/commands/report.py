"""How harvests have ended: a line for each map, the reasons of failures, and the exit status."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tileharvest.commands.terminal import MOST_NAMED, first_of, say, write_json, write_line
from tileharvest.errors import ExitStatus, counted, program
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.monitoring.stats import outcomes_in_words
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from tileharvest.spiders.tiles import TileSpider

# Several harvests together end with the first of these statuses that any of them has.
_WORST_FIRST: Final = {
    ExitStatus.ERROR: "an error, or stopped",
    ExitStatus.USAGE: "wrong usage, or harvested by another process",
    ExitStatus.UNREACHABLE: "unreachable, or moved",
    ExitStatus.BUDGET: "ended by a budget",
    ExitStatus.FAILED_TILES: "with failed tiles",
}

_MOST_REASONS: Final = 3
"""The most reasons of failures that a line names."""


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
            harvest.cost_meter.requests,
            harvest.cost_meter.received_bytes,
            crawl.is_finished or crawl.exit_status is ExitStatus.DONE,
            "; ".join(crawl.refused) or None if crawl.ending is None else str(crawl.ending),
            crawl.exit_status,
            crawl.failures,
            would_go_on(settings, arguments, harvest),
        )

    @property
    def is_stopped(self) -> bool:
        """Whether a person has stopped it."""
        return not self.is_finished and self.ending is None

    @property
    def in_words(self) -> str:
        """The whole end in one line, such as `world, 2026-11-20: done; 298 new, 82 empty; 401 requests`."""
        if self.exit_status is ExitStatus.DONE:
            state = "done" if self.ending is None else "nothing to do"
        elif self.is_stopped:
            state = "stopped"
        else:
            state = _WORST_FIRST[self.exit_status]
        cost = f"{counted(self.requests, 'request')}, {bytes_in_words(self.received_bytes)} received"
        found = [state, outcomes_in_words(self.counts), cost]
        return f"{self.name}, {self.day}: " + "; ".join(filter(None, found))

    @property
    def why_failed(self) -> str:
        """The line that says why tiles have failed."""
        reasons = [f"{reason} {tiles:,}" for reason, tiles in self.failures.items()]
        return (
            f"failed tiles of map '{self.name}': {first_of(reasons, _MOST_REASONS)}; {program()} failures"
            f" {self.name} lists them, and the next harvest asks again"
        )

    def as_plain(self) -> dict[str, Any]:
        """Returns the end for programs. The keys are stable."""
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


class HarvestEnds:
    """Writes how the harvests of one command have ended."""

    def __init__(self, names: Sequence[str], *, as_json: bool, is_verbose: bool) -> None:
        self._names = names
        self._as_json = as_json
        self._is_verbose = is_verbose
        self._ends: dict[str, HarvestEnd] = {}
        self._passed_over = 0

    @property
    def is_complete(self) -> bool:
        """Whether each map has ended or was passed over."""
        return len(self._ends) + self._passed_over == len(self._names)

    def note(self, end: HarvestEnd) -> None:
        """Notes the end of a harvest. If there are several, it is written at once."""
        self._ends[end.name] = end
        if len(self._names) > 1 and not self._as_json:
            self._write(end)
            sys.stdout.flush()

    def pass_over(self) -> None:
        """Notes that a map was left alone."""
        self._passed_over += 1

    def finish(self, left: Sequence[str]) -> ExitStatus:
        """Writes the rest, and returns the worst status. `left` are the maps that the second signal has cut
        short."""
        ends = [self._ends[name] for name in self._names if name in self._ends]
        if self._as_json:
            write_json([end.as_plain() for end in ends])
        elif len(self._names) == 1:
            for end in ends:
                self._write_alone(end)
        for end in [end for end in ends if end.failures][:MOST_NAMED]:
            if end.exit_status is ExitStatus.FAILED_TILES:
                say(end.why_failed)
        _tell_stopped([end for end in ends if end.is_stopped])
        if left:
            say(f"{_maps(left)} left at once; run it again to continue")
        by_status: dict[ExitStatus, list[str]] = defaultdict(list)
        for end in ends:
            by_status[end.exit_status].append(end.name)
        worst = next((status for status in _WORST_FIRST if by_status[status]), ExitStatus.DONE)
        worst = worst if self.is_complete else ExitStatus.ERROR
        if len(self._names) > 1 and by_status[worst] and worst is not ExitStatus.DONE:
            say(f"exit status {int(worst)}, {_WORST_FIRST[worst]}: {first_of(by_status[worst])}")
        return worst

    def _write(self, end: HarvestEnd) -> None:
        write_line(end.in_words)
        if self._is_verbose:
            codes = (f"{word} {number:,}" for word, number in counts_as_plain(end.counts).items())
            write_line(f"  in codes: {', '.join(codes)}")

    def _write_alone(self, end: HarvestEnd) -> None:
        # The log has reported an end with an error.
        if end.ending is not None and end.exit_status is ExitStatus.DONE:
            write_line(end.ending)
        elif end.counts:
            self._write(end)
            # Nobody looks at a pipe.
            if end.is_finished and sys.stdout.isatty():
                write_line(f"see it: {program()} serve")


def _tell_stopped(stopped: Sequence[HarvestEnd]) -> None:
    if not stopped:
        return
    again = f"run it again to continue where {'it' if len(stopped) == 1 else 'they'} stopped"
    if not all(end.goes_on for end in stopped):
        again = "what was found is kept; run again, it begins anew, in another segment"
    say(f"{_maps([end.name for end in stopped])} stopped; {again}")


def _maps(names: Sequence[str]) -> str:
    return f"map '{names[0]}' was" if len(names) == 1 else f"{len(names):,} maps were"
