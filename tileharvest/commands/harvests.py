"""`scrapy harvests NAME`: the harvests of a map, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from scrapy.commands import ScrapyCommand

from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.terminal import print_table, write_json
from tileharvest.history.settings import open_history_for_reading
from tileharvest.history.summaries import HarvestSummary, harvest_summaries
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings


class Command(MapCommand, ScrapyCommand):
    summary = "List a map's harvests with what they found, cost and spared, oldest first"

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        with open_history_for_reading(settings) as history:
            summaries = harvest_summaries(history, args[0])
        if opts.json:
            write_json([_plain(summary) for summary in summaries])
        else:
            print_table(_table(summaries))


def _plain(summary: HarvestSummary) -> dict[str, Any]:
    """Returns what the API tells of a harvest, and two numbers that it tells in another place."""
    spared = summary.counts.get(Outcome.SKIPPED, 0)
    return {**summary.as_plain(), "expected": summary.expected, "spared_requests": spared}


def _table(summaries: Sequence[HarvestSummary]) -> Table:
    """Returns a table whose twenty columns fit into a terminal of 160 characters.

    Its heads have two lines, and there is less room between the columns than in other tables. If they do not
    fit, the reason of a stop is broken into lines.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for head in ("day", "began\n(UTC)"):
        table.add_column(head, no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("end")
    table.add_column("walk", no_wrap=True)
    outcomes = [outcome.value for outcome in Outcome]
    for head in ("depth", *outcomes, "requests", "received", "without\nETags", "spared", "stored"):
        table.add_column(head, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(*_line(summary))
    return table


def _line(summary: HarvestSummary) -> list[str]:
    return [
        summary.day.isoformat(),
        f"{summary.started:%m-%d %H:%M}",
        "" if summary.took is None else f"{summary.took:,.0f}",
        _end(summary),
        summary.walk or "",
        ", ".join(str(depth) for depth in sorted(set(summary.depth.values()))),
        *(f"{summary.counts.get(outcome, 0):,}" for outcome in Outcome),
        f"{summary.cost.requests:,}",
        bytes_in_words(summary.cost.received_bytes),
        *_spared(summary),
        bytes_in_words(summary.cost.stored_bytes),
    ]


def _end(summary: HarvestSummary) -> str:
    state = summary.reason or "unfinished"
    return state if summary.stopped is None else f"{state}: {summary.stopped}"


def _spared(summary: HarvestSummary) -> tuple[str, str]:
    """Tells what it would have cost without ETags, and what of that was spared; empty if not known."""
    cost = summary.cost
    if not cost.seconds:
        return "", ""
    spared = f"{bytes_in_words(cost.spared_bytes)} {cost.spared_share:4.0%}"
    return bytes_in_words(cost.without_etags), spared
