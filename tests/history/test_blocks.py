"""A block is looked up as it was recorded, and recording it again changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.history.making import DAY, LATER, LAYER, began, ended, image_of, look_up
from tileharvest.history.blocks import FoundBlock, KnownBlock
from tileharvest.history.costs import NO_COST
from tileharvest.history.summaries import failed_tiles
from tileharvest.tiles.block import Block
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator, Version
from tileharvest.walk.trust import RememberedValidator

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord

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
    harvest.history.writer.submit(harvest.record_blocks, (block, found, NO_COST)).result(240)


def test_of_a_block_that_was_never_asked_nothing_is_known(history: History) -> None:
    assert look_up(began(history), BLOCK) == KnownBlock()


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


def test_the_rest_of_a_block_that_was_cut_short_joins_what_was_recorded(history: History) -> None:
    harvest = began(history)
    record_block(harvest, BLOCK, FOUND)
    record_block(harvest, BLOCK, FoundBlock({Outcome.NOTHING: 0b1100}))
    assert harvest.counts() == {Outcome.ADDED: 2, Outcome.NOTHING: 3}
    assert failed_tiles(history, "world") == []


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
