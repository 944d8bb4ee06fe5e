"""`tileharvest harvests NAME`: the harvests of a map, a line each."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from tileharvest.commands.project_command import Answer, ProjectCommand
from tileharvest.commands.terminal import table_of
from tileharvest.history.settings import open_history_for_reading
from tileharvest.history.summaries import harvest_summaries
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.monitoring.stats import FOR_PEOPLE
from tileharvest.tiles.outcomes import Outcome


class Command(ProjectCommand):
    summary = "List a map's harvests with their outcomes and costs"
    details = "The oldest comes first. A terminal that is too narrow shows no costs; --json has all of it."
    examples = ("my-server", "my-server --json")

    def answer(self, opts: Namespace) -> Answer:
        with open_history_for_reading(self.settings) as history:
            summaries = harvest_summaries(history, opts.name)
        rows = [
            one.as_plain() | {"expected": one.expected, "spared_requests": one.counts.get(Outcome.SKIPPED, 0)}
            for one in summaries
        ]
        nothing = f"map '{opts.name}' was not harvested yet"
        return rows, table_of(rows, COLUMNS, nothing, spare=2)


def _sum_of(row: Mapping[str, Any], words: str) -> str:
    return f"{sum(row['counts'].get(outcome.value, 0) for outcome in FOR_PEOPLE[words]):,}"


def _end(row: Mapping[str, Any]) -> str:
    state = row["reason"] or "unfinished"
    return state if row["stopped"] is None else f"{state}: {row['stopped']}"


COLUMNS: Final = {
    "day": "day",
    "walk": "walk",
    **{
        f">{'same' if words == 'unchanged' else words}": partial(_sum_of, words=words)
        for words in ("new", "changed", "gone", "failed", "unchanged", "skipped")
    },
    "end": _end,
    ">requests": "requests",
    ">received": lambda row: bytes_in_words(row["received_bytes"]),
}
"""Without the costs they fit into 80 columns, for up to 99,999 tiles."""
