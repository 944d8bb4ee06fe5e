"""The table of harvests, as a terminal of 80 columns shows it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from io import StringIO
from typing import Any

from rich.console import Console

from tileharvest.commands.harvests import _plain, _table
from tileharvest.history.costs import Cost
from tileharvest.history.summaries import HarvestSummary
from tileharvest.tiles.outcomes import Outcome

COUNTS = dict(zip(Outcome, (8_123, 54_321, 43_210, 1_234, 4_321, 1_234, 12, 321, 17), strict=True))
LARGE = HarvestSummary(
    id=7,
    segment="2021-02-13",
    day=date(2021, 2, 13),
    started=datetime(2021, 2, 13, 6, 5, tzinfo=UTC),
    ended=datetime(2021, 2, 13, 16, 5, tzinfo=UTC),
    reason="interrupted",
    cost=Cost(123_456, 1_900_000_000, 500_000_000, 17_100_000_000, 12_345.6),
    depth={"day": 12, "night": 12},
    renderer="overviewer",
    counts=COUNTS,
    expected=61_000,
    walk="pruned",
)


def shown(**changes: Any) -> list[str]:
    """The lines of a table of one harvest."""
    written = StringIO()
    values = {name: getattr(LARGE, name) for name in HarvestSummary.__slots__} | changes
    Console(file=written, width=80).print(_table([HarvestSummary(**values)]))
    return written.getvalue().splitlines()


def cells(line: str) -> str:
    return " ".join(line.split())


def test_a_large_harvest_takes_one_line() -> None:
    *_, line = shown()
    assert cells(line) == "2021-02-13 pruned 55,555 43,210 4,333 1,234 321 17 123,456 1.9 GB interrupted"


def test_heads_name_all_outcomes_but_empty_places() -> None:
    heads = cells(" ".join(shown()[:2]))
    assert [outcome for outcome in Outcome if outcome.value not in heads] == [Outcome.NOTHING]


def test_a_program_is_told_the_walk_its_reason_and_the_requests_it_spared() -> None:
    told = _plain(replace(LARGE, walk_reason="walk = pruned is set"))
    assert (told["walk"], told["walk_reason"]) == ("pruned", "walk = pruned is set")
    assert (told["requests"], told["spared_requests"]) == (123_456, 43_210)


def test_why_a_harvest_was_stopped_takes_more_lines_and_nothing_from_the_figures() -> None:
    lines = shown(ended=None, reason=None, stopped="budget: 123,456 requests")
    start = next(number for number, line in enumerate(lines) if line.startswith("2021"))
    assert " 123,456 1.9 GB unfinished" in lines[start]
    assert cells(" ".join(line[69:] for line in lines[start:])) == "unfinished: budget: 123,456 requests"


def test_what_an_older_release_did_not_note_is_not_made_up() -> None:
    *_, line = shown(walk=None)
    assert cells(line).startswith("2021-02-13 55,555 ")
