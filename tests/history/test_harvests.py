"""What a harvest is begun with, and what is recorded: block by block, once, and until its end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from tests.history.making import (
    DAY,
    END,
    EVERYWHERE,
    LATER,
    LAYER,
    START,
    B,
    began,
    ended,
    found,
    image_of,
    record,
)
from tileharvest.errors import AlreadyHarvestedError, HistoryError
from tileharvest.history.blocks import FoundBlock
from tileharvest.history.costs import NO_COST, Cost
from tileharvest.history.database import History
from tileharvest.history.harvest_row import HarvestEndedError
from tileharvest.history.harvests import HarvestRecord, begin
from tileharvest.history.outlines import map_outline
from tileharvest.history.recorded_versions import tile_versions
from tileharvest.history.schema import metadata
from tileharvest.history.summaries import harvest_summaries
from tileharvest.tiles.block import Block
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Validator, Version


def described(history: History, *layers: Layer) -> dict[str, int]:
    """The depths of the layers after a harvest was begun or continued with these."""
    begin(history, "world", DAY.isoformat(), DAY, START, "overviewer", layers)
    return {one.name: one.latest.depth for one in map_outline(history, "world").layers}


def test_an_unfinished_harvest_of_the_segment_is_continued_on_its_day(history: History) -> None:
    first = began(history, segment="2021-W06")
    record(first, [found("add")])
    again = began(history, LATER, segment="2021-W06")
    record(again, [found("add", B)])
    assert (again.id, again.continued, again.day) == (first.id, True, DAY)
    assert again.counts() == {Outcome.ADDED: 2}
    assert [recorded.version.day for recorded in tile_versions(history, "world")] == [DAY, DAY]


def test_a_finished_segment_gets_another_harvest_only_when_it_is_asked_for_again(history: History) -> None:
    first = began(history)
    ended(first)
    with pytest.raises(
        AlreadyHarvestedError,
        match="'world' is already harvested for 2021-02-13; nothing was changed",
    ):
        began(history)
    assert len(harvest_summaries(history, "world")) == 1
    second = began(history, again=True)
    assert second.id != first.id
    assert not second.continued


def test_a_harvest_of_what_was_pushed_goes_on_until_everything_is_asked_for_again(history: History) -> None:
    ended(began(history))
    pushed = began(history, pushed=True)
    assert (pushed.is_pushed, pushed.continued) == (True, False)
    again = began(history)
    assert (again.id, again.is_pushed, again.continued) == (pushed.id, True, True)
    whole = began(history, again=True)
    assert (whole.is_pushed, whole.continued) == (False, False)
    assert pushed.ended() == "interrupted"


def test_an_unfinished_harvest_of_an_older_segment_ends_as_interrupted(history: History) -> None:
    first = began(history)
    record(first, [found("add"), found("fail", B)])
    began(history, LATER)
    summary = harvest_summaries(history, "world")[0]
    assert (summary.reason, summary.ended) == ("interrupted", datetime(2021, 2, 16, 6, tzinfo=UTC))
    assert summary.counts == {Outcome.ADDED: 1, Outcome.FAILED: 1}


def test_a_day_before_the_latest_version_is_refused(history: History) -> None:
    harvest = began(history, LATER)
    record(harvest, [found("add")])
    ended(harvest)
    with pytest.raises(
        HistoryError, match="2021-02-16 already: history is only written forwards, so 2021-02-13"
    ):
        began(history, DAY)


def test_a_continued_harvest_takes_what_the_site_says_now(history: History) -> None:
    described(history, Layer("day", Pyramid(7), "png"))
    now = described(history, Layer("day", Pyramid(8), "png"), Layer("new", Pyramid(2), "png"))
    assert now == {"day": 8, "new": 2}


@pytest.mark.parametrize("layers", [[], [Layer("day", Pyramid(7), "png")] * 2])
def test_a_harvest_has_each_layer_once(history: History, layers: list[Layer]) -> None:
    with pytest.raises(ValueError, match="at least one layer, and each once"):
        described(history, *layers)


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


def test_an_ended_harvest_takes_no_more_results(harvest: HarvestRecord) -> None:
    ended(harvest)
    with pytest.raises(HarvestEndedError, match="has ended already"):
        record(harvest, [found("add")], Cost(1, 2, 3))
    assert harvest.known_before(EVERYWHERE) == 0


def test_what_a_harvest_cost_is_counted_when_it_is_told_after_its_end(
    history: History, harvest: HarvestRecord
) -> None:
    """Another process may end it while one has not told its last requests."""
    ended(harvest)
    harvest.add_cost(Cost(1, 20, 300))
    (summary,) = harvest_summaries(history, "world")
    assert summary.cost == Cost(1, 20, 300)


def test_a_harvest_ends_once_and_with_one_reason_only(history: History, later: HarvestRecord) -> None:
    other = began(history, LATER)
    record(later, [found("gone")])
    assert other.ended() is None
    ended(later)
    before, moment = dump(history), END + timedelta(hours=1)
    assert not other.finish(moment, "finished")
    with pytest.raises(HarvestEndedError, match=r"has ended already \(finished\)") as caught:
        other.finish(moment, "moved")
    assert caught.value.reason == "finished"
    assert not other.stop("budget: 1 request")
    assert dump(history) == before
    assert other.ended() == "finished"


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
    known = harvest.look_up(BLOCK)
    assert known.versions == {
        FIRST: Version(DAY, image_of(b"first"), SEEN),
        LAST: Version(DAY, image_of(b"last")),
    }
    assert (known.remembered, known.trusted) == ({FIRST: (SEEN.etag, SEEN.last_modified)}, 0)
    assert known.outcomes == FOUND.outcomes
    assert known.asked == 1 << FIRST | 1 << LAST | 0b110
    ended(harvest)
    known = began(history, LATER).look_up(BLOCK)
    assert (len(known.versions), known.asked) == (2, 0)
    assert (known.remembered, known.trusted) == ({FIRST: (SEEN.etag, SEEN.last_modified)}, 1 << FIRST)


def test_of_a_zoom_that_is_not_kept_only_failures_count(history: History) -> None:
    harvest = began(history)
    found = FoundBlock(
        {Outcome.IGNORED: 0b01, Outcome.FAILED: 0b10}, reasons={1: "it broke"}, seen={0: SEEN}, is_kept=False
    )
    record_block(harvest, BLOCK, found)
    assert harvest.counts() == {Outcome.FAILED: 1}
    assert list(harvest.look_up(BLOCK).remembered) == [0]


def test_a_tile_counts_as_asked_once_a_failure_is_over(history: History) -> None:
    harvest, asked = began(history), []
    for outcome in ("fail", "404"):
        record(harvest, [found(outcome, B)])
        asked += [one.asked.bit_count() for one in harvest.earlier(LAYER, EVERYWHERE[LAYER]).values()]
    assert asked == [0, 1]
