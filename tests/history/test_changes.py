"""The counts in `changes` that recording makes. test_recorder_model compares all of them with the rule."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from sqlalchemy import select

from tests.history.making import DAY, LATER, B, began, ended, found
from tileharvest.history.schema import changes
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord

BLOCK = Tile(-3, 8, 8)
"""The block of A and B."""


@pytest.fixture
def later(history: History) -> HarvestRecord:
    """A harvest of a later day; A and B have a version of the day before."""
    first = began(history)
    first.record([found("add"), found("add", B)])
    ended(first)
    return began(history, LATER)


def counted(history: History) -> dict[tuple[Tile, date], int]:
    """By block and day."""
    with history.reading() as connection:
        rows = connection.execute(select(changes)).all()
    return {(Tile(row.zoom - 3, row.x, row.y), row.day): row.tiles for row in rows}


@pytest.mark.parametrize("zoom", [0, -1, -5])
@pytest.mark.parametrize(("right", "up"), list(product([-1, 1], [-1, 1])))
def test_a_tile_counts_in_the_block_that_covers_it(history: History, zoom: int, right: int, up: int) -> None:
    """The four blocks at the centre of the map, and of each the tile at its far corner."""
    unit = 1 << -zoom
    began(history).record([found("add", Tile(zoom, right * 15 * unit, up * 15 * unit))])
    assert counted(history) == {(Tile(zoom - 3, right * 8 * unit, up * 8 * unit), DAY): 1}


@pytest.mark.parametrize(("right", "up"), list(product([-1, 1], [-1, 1])))
def test_a_tile_that_is_gone_counts_in_the_block_that_covers_it(
    history: History, right: int, up: int
) -> None:
    tile = Tile(-1, right * 30, up * 30)
    first = began(history)
    first.record([found("add", tile)])
    ended(first)
    second = began(history, LATER)
    second.record([found("gone", tile)])
    ended(second)
    block = Tile(-4, right * 16, up * 16)
    assert counted(history) == {(block, DAY): 1, (block, LATER): 1}


def test_tiles_of_a_block_add_up_over_batches(history: History) -> None:
    harvest = began(history)
    for y in range(1, 16, 2):
        harvest.record([found("add", Tile(0, x, y)) for x in range(1, 16, 2)])
    assert counted(history) == {(BLOCK, DAY): 64}


def test_what_is_recorded_again_is_not_counted_again(history: History, later: HarvestRecord) -> None:
    later.record([found("upd", body=b"second")])
    later.record([found("upd", body=b"second"), found("rep", body=b"third"), found("rep", body=b"fourth")])
    assert counted(history) == {(BLOCK, DAY): 2, (BLOCK, LATER): 1}


@pytest.mark.parametrize("outcome", ["ign", "nMod", "404", "fail", "gone"])
def test_what_makes_no_version_is_not_counted(history: History, later: HarvestRecord, outcome: str) -> None:
    later.record([found(outcome)])
    assert counted(history) == {(BLOCK, DAY): 2}


def test_a_change_of_the_same_day_in_a_later_harvest_is_counted_once(history: History) -> None:
    for segment, outcome in (("morning", "add"), ("evening", "rep")):
        harvest = began(history, segment=segment)
        harvest.record([found(outcome)])
        ended(harvest)
    assert counted(history) == {(BLOCK, DAY): 1}


def test_gone_tiles_count_when_they_are_settled(history: History, later: HarvestRecord) -> None:
    later.record([found("gone"), found("gone", B)])
    ended(later, settle_gone=True)
    assert counted(history) == {(BLOCK, DAY): 2, (BLOCK, LATER): 2}


def test_gone_after_a_change_of_the_same_day_is_not_counted_again(
    history: History, later: HarvestRecord
) -> None:
    later.record([found("upd", body=b"second"), found("gone", B)])
    later.record([found("gone")])
    ended(later, settle_gone=True)
    assert counted(history) == {(BLOCK, DAY): 2, (BLOCK, LATER): 2}


def test_gone_that_is_taken_back_counts_nothing(history: History, later: HarvestRecord) -> None:
    later.record([found("gone"), found("gone", B)])
    ended(later, settle_gone=False)
    assert counted(history) == {(BLOCK, DAY): 2}


def test_gone_that_was_never_there_or_is_gone_already_counts_nothing(
    history: History, later: HarvestRecord
) -> None:
    later.record([found("gone")])
    ended(later)
    before = counted(history)
    third = began(history, LATER.replace(day=20))
    third.record([found("gone"), found("gone", Tile(0, 101, 101))])
    ended(third)
    assert counted(history) == before


def test_maps_are_counted_apart(history: History) -> None:
    for name in ("world", "nether"):
        began(history, name=name).record([found("add")])
    with history.reading() as connection:
        rows = connection.execute(select(changes.c.layer, changes.c.tiles)).all()
    assert sorted(tuple(row) for row in rows) == [(1, 1), (2, 1)]


def test_a_batch_that_fails_counts_nothing(history: History) -> None:
    harvest = began(history)
    with pytest.raises(KeyError, match="night"):
        harvest.record([found("add"), replace(found("add", B), layer="night")])
    assert counted(history) == {}


def test_a_dry_run_counts_on_its_copy_only(history: History, later: HarvestRecord) -> None:
    with history.dry_copy("world") as copy:
        dry = began(copy, LATER)
        dry.record([found("upd", body=b"second"), found("gone", B)])
        ended(dry)
        assert counted(copy) == {(BLOCK, LATER): 2}
    assert counted(history) == {(BLOCK, DAY): 2}
