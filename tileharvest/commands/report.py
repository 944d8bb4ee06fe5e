"""How a harvest has ended: a line for people, a value for programs, and an exit status."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tileharvest.commands.terminal import first_of, say
from tileharvest.errors import ExitStatus, counted, program
from tileharvest.history.costs import Cost
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.monitoring.stats import outcomes_in_words
from tileharvest.spiders.tiles import TileSpider
from tileharvest.tiles.outcomes import Outcome, counts_as_plain

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
    cost: Cost
    is_finished: bool
    """Whether the harvest is complete, by this run or an earlier one."""
    ending: str | None
    """The line that says why it has ended. None if it was simply completed or stopped."""
    exit_status: ExitStatus
    failures: Mapping[str, int]
    """The reasons of failed tiles, each with its number of tiles, the most frequent first."""

    @classmethod
    def of(cls, spider: TileSpider) -> HarvestEnd:
        crawl, harvest = spider.crawl, spider.harvest
        return cls(
            harvest.description.name,
            harvest.day.isoformat(),
            crawl.counts,
            harvest.cost_meter.total,
            crawl.is_finished or crawl.exit_status is ExitStatus.DONE,
            "; ".join(crawl.refused) or None if crawl.ending is None else str(crawl.ending),
            crawl.exit_status,
            crawl.failures,
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
        else:
            state = "stopped" if self.is_stopped else _WORST_FIRST[self.exit_status]
        cost = (
            f"{counted(self.cost.requests, 'request')}, {bytes_in_words(self.cost.received_bytes)} received"
        )
        found = [state, outcomes_in_words(self.counts), cost]
        return f"{self.name}, {self.day}: " + "; ".join(filter(None, found))

    def as_plain(self) -> dict[str, Any]:
        """Returns the end for programs. The keys are stable."""
        is_error = self.exit_status is not ExitStatus.DONE
        return {
            "map": self.name,
            "day": self.day,
            "finished": self.is_finished,
            "counts": counts_as_plain(self.counts),
            "requests": self.cost.requests,
            "received_bytes": self.cost.received_bytes,
            "error": self.ending if is_error else None,
            "note": None if is_error else self.ending,
            "failures": dict(self.failures),
            "exit_status": int(self.exit_status),
        }


def say_what_is_left(ends: Collection[HarvestEnd], cut_short: Sequence[str]) -> ExitStatus:
    """Says why tiles have failed, and which harvests were stopped, or cut short by the second signal. Returns
    the exit status of all harvests together. If there are several, it says whose status it is."""
    for end in ends:
        if end.failures and end.exit_status is ExitStatus.FAILED_TILES:
            reasons = [f"{reason} {tiles:,}" for reason, tiles in end.failures.items()]
            say(
                f"failed tiles of map '{end.name}': {first_of(reasons, _MOST_REASONS)}; {program()} failures"
                f" {end.name} lists them, and the next harvest asks again"
            )
    stopped = [end.name for end in ends if end.is_stopped]
    for names, how in ((stopped, "stopped"), (cut_short, "left at once")):
        if names:
            maps = f"map '{names[0]}' was" if len(names) == 1 else f"{len(names):,} maps were"
            say(f"{maps} {how}; run again in the same segment to continue")
    statuses = {end.exit_status for end in ends}
    worst = next((status for status in _WORST_FIRST if status in statuses), ExitStatus.DONE)
    if len(ends) > 1 and worst is not ExitStatus.DONE:
        whose = [end.name for end in ends if end.exit_status is worst]
        say(f"exit status {int(worst)}, {_WORST_FIRST[worst]}: {first_of(whose)}")
    return worst
