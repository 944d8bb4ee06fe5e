"""Several processes end one harvest, and only one is told that it did. That one tells people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.viewer.building import FIRST, begun
from tileharvest.history.database import History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tileharvest.history.harvests import HarvestRecord


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[HarvestRecord]]:
    """One harvest, as two processes have it."""
    with History.open(f"sqlite:///{tmp_path / 'history.sqlite'}") as history:
        yield [begun(history, FIRST), begun(history, FIRST)]


def test_a_harvest_is_finished_by_one(both: list[HarvestRecord]) -> None:
    ended = datetime(2021, 2, 13, 7, tzinfo=UTC)
    assert [harvest.finish(ended, "finished", settle_gone=True) for harvest in both] == [True, False]
    assert not both[0].stop("budget: 1 request")


def test_one_notes_why_it_was_stopped_and_another_reason_is_news(both: list[HarvestRecord]) -> None:
    assert [harvest.stop("budget: 1 request") for harvest in both] == [True, False]
    assert both[1].stop("unreachable")
