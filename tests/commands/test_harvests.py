"""The table of harvests, as a terminal of 80 columns shows it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from tileharvest.commands.harvests import COLUMNS
from tileharvest.commands.terminal import write_rows
from tileharvest.history.costs import Cost
from tileharvest.history.summaries import HarvestSummary
from tileharvest.tiles.outcomes import Outcome

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
    counts=dict(zip(Outcome, (8_123, 54_321, 43_210, 1_234, 4_321, 1_234, 12, 321, 17), strict=True)),
    expected=61_000,
    walk="pruned",
)


@pytest.mark.parametrize(
    ("changes", "cells"),
    [
        ({}, "2021-02-13 pruned 1,234 4,333 321 17 55,555 43,210 interrupted"),
        ({"walk": None}, "2021-02-13 1,234 4,333 321 17 55,555 43,210 interrupted"),
        ({"reason": None, "stopped": "budget"}, "17 55,555 43,210 unfinished: budget"),
    ],
    ids=["large", "of an older release", "stopped"],
)
def test_a_large_harvest_takes_one_line(
    changes: dict[str, Any], cells: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    row = replace(LARGE, **changes).as_plain()
    write_rows([row], COLUMNS, as_json=False, otherwise="", spare=2)
    *_, line = capsys.readouterr().out.splitlines()
    assert len(line.rstrip()) <= 80 or "stopped" in changes
    assert " ".join(line.split()).endswith(cells)
