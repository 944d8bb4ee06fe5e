"""What is recorded: block by block, once, and until the end of the harvest."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from tests.history.making import (
    DAY,
    EVERYWHERE,
    LATER,
    LAYER,
    began,
    ended,
    found,
    image_of,
    look_up,
    record,
)
from tileharvest.history.blocks import FoundBlock
from tileharvest.history.costs import NO_COST, Cost
from tileharvest.history.database import History
from tileharvest.history.harvest_row import HarvestEndedError
from tileharvest.history.harvests import HarvestRecord
from tileharvest.history.schema import failures, metadata
from tileharvest.history.summaries import harvest_summaries
from tileharvest.tiles.block import Block
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator, Version
from tileharvest.walk.walk import RememberedValidator

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


BLOCK = Block(LAYER, -1, -1, 2)
FIRST, LAST = 0, 63
SEEN = Validator('"1"', "Sat, 13 Feb 2021 06:00:00 GMT")
FOUND = FoundBlock(
    {Outcome.ADDED: 1 << FIRST | 1 << LAST, Outcome.NOTHING: 1 << 1, Outcome.FAILED: 1 << 2},
    images={FIRST: image_of(b"first"), LAST: image_of(b"last")},
    validators={FIRST: SEEN},
    reasons={2: "500 Internal Server Error"},
    seen={FIRST: SEEN},
)


def record_block(harvest: HarvestRecord, block: Block, found: FoundBlock) -> None:
    harvest.history.write(lambda connection: harvest.record_block(connection, block, found, NO_COST))


def test_a_block_is_looked_up_as_it_was_recorded(history: History) -> None:
    harvest = began(history)
    record_block(harvest, BLOCK, FOUND)
    known = look_up(harvest, BLOCK)
    assert known.versions == {
        FIRST: Version(DAY, image_of(b"first"), SEEN),
        LAST: Version(DAY, image_of(b"last")),
    }
    assert known.remembered == {FIRST: RememberedValidator(SEEN.etag, SEEN.last_modified, False)}
    assert known.outcomes == FOUND.outcomes
    assert (known.asked, known.failed) == (1 << FIRST | 1 << LAST | 0b110, 0b100)


def test_the_next_harvest_knows_what_was_found_and_has_asked_nothing(history: History) -> None:
    first = began(history)
    record_block(first, BLOCK, FOUND)
    ended(first)
    known = look_up(began(history, LATER), BLOCK)
    assert (len(known.versions), known.asked) == (2, 0)
    assert known.remembered == {FIRST: RememberedValidator(SEEN.etag, SEEN.last_modified, True)}


def test_of_a_zoom_that_is_not_kept_only_failures_count(history: History) -> None:
    harvest = began(history)
    found = FoundBlock(
        {Outcome.IGNORED: 0b01, Outcome.FAILED: 0b10}, reasons={1: "it broke"}, seen={0: SEEN}, is_kept=False
    )
    record_block(harvest, BLOCK, found)
    assert harvest.counts() == {Outcome.FAILED: 1}
    assert list(look_up(harvest, BLOCK).remembered) == [0]
