"""`scrapy harvests NAME`: the harvests of a map, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.terminal import print_table, write_json
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

    from tileharvest.history.summaries import HarvestSummary

_TOGETHER: Final = (
    (Outcome.IGNORED, Outcome.NOT_MODIFIED),
    (Outcome.SKIPPED,),
    (Outcome.UPDATED, Outcome.REPLACED),
    (Outcome.ADDED,),
    (Outcome.GONE,),
    (Outcome.FAILED,),
)
"""The outcomes that each column counts together. There is no column for 404."""


class Command(ProjectCommand, ScrapyCommand):
    summary = "List a map's harvests with their outcomes and costs"
    details = "The oldest harvest comes first."

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        from tileharvest.history.settings import open_history_for_reading
        from tileharvest.history.summaries import harvest_summaries

        with open_history_for_reading(settings) as history:
            summaries = harvest_summaries(history, args[0])
        if opts.json:
            write_json([_plain(summary) for summary in summaries])
        else:
            print_table(_table(summaries))


def _plain(summary: HarvestSummary) -> dict[str, Any]:
    """Returns what programs are told of a harvest: the fields of the API, and two more numbers."""
    spared = summary.counts.get(Outcome.SKIPPED, 0)
    return {**summary.as_plain(), "expected": summary.expected, "spared_requests": spared}


def _table(summaries: Sequence[HarvestSummary]) -> Table:
    """Returns a table that fits into a terminal of 80 columns, for up to 99,999 tiles.

    A long reason of a stop is broken into lines. Only `--json` tells how long a harvest took and how many
    requests it spared.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    table.add_column("day", no_wrap=True)
    table.add_column("walk", no_wrap=True)
    heads = (",\n".join(outcome.value for outcome in together) for together in _TOGETHER)
    for head in (*heads, "re-\nquests", "re-\nceived"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("end")
    for summary in summaries:
        table.add_row(*_line(summary))
    return table


def _line(summary: HarvestSummary) -> list[str]:
    return [
        summary.day.isoformat(),
        summary.walk or "",
        *(f"{sum(summary.counts.get(one, 0) for one in together):,}" for together in _TOGETHER),
        f"{summary.cost.requests:,}",
        bytes_in_words(summary.cost.received_bytes),
        _end(summary),
    ]


def _end(summary: HarvestSummary) -> str:
    state = summary.reason or "unfinished"
    return state if summary.stopped is None else f"{state}: {summary.stopped}"
