from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from tests.history.making import (
    EVERYWHERE,
    LATER,
    began,
    ended,
    found,
    record,
)
from tileharvest.history.costs import Cost
from tileharvest.history.errors import HarvestEndedError
from tileharvest.history.schema import failures, metadata
from tileharvest.history.summaries import harvest_summaries

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord

# Strongest last, as the rule is written down; those of one line are equal.


@pytest.fixture
def harvest(history: History) -> HarvestRecord:
    return began(history)


@pytest.fixture
def later(history: History) -> HarvestRecord:
    """A harvest of a later day, on which tile A has the version of the body `first`."""
    first = began(history)
    record(first, [found("add")])
    ended(first)
    return began(history, LATER)


def dump(history: History) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    with history.reading() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
        }


def test_the_reason_of_a_failure_is_kept_until_the_tile_answers(
    history: History, harvest: HarvestRecord
) -> None:
    def reason() -> str | None:
        with history.reading() as connection:
            return connection.execute(select(failures.c.reason)).scalar()

    record(harvest, [found("fail")])
    assert reason() == "500 Internal Server Error"
    record(harvest, [found("404")])
    assert reason() is None


def test_an_ended_harvest_takes_no_more_results(harvest: HarvestRecord) -> None:
    ended(harvest)
    with pytest.raises(HarvestEndedError, match="has ended already"):
        record(harvest, [found("add")], Cost(1, 2, 3))
    assert harvest.known(EVERYWHERE) == 0


def test_what_a_harvest_cost_is_counted_when_it_is_told_after_its_end(
    history: History, harvest: HarvestRecord
) -> None:
    """Another process may end it while one has not told its last requests."""
    ended(harvest)
    harvest.add_cost(Cost(1, 20, 300))
    (summary,) = harvest_summaries(history, "world")
    assert (summary.cost.requests, summary.cost.received_bytes, summary.cost.stored_bytes) == (1, 20, 300)


def test_a_harvest_ends_with_one_reason_only(history: History, harvest: HarvestRecord) -> None:
    ended(harvest)
    before = dump(history)
    with pytest.raises(HarvestEndedError, match=r"has ended already \(finished\)") as caught:
        harvest.finish(harvest_end_later(), "moved", finalise_gone=True)
    assert caught.value.reason == "finished"
    assert dump(history) == before


def test_a_harvest_that_another_process_has_ended_the_same_way_stays_as_it_is(
    history: History, later: HarvestRecord
) -> None:
    other = began(history, LATER)
    record(later, [found("gone")])
    assert other.ended() is None
    ended(later)
    before = dump(history)
    assert not other.finish(harvest_end_later(), "finished", finalise_gone=True)
    assert not other.stop("budget: 1 request")
    assert dump(history) == before
    assert other.ended() == "finished"


def harvest_end_later() -> datetime:
    return datetime(2021, 2, 13, 8, tzinfo=UTC)
