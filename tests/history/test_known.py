from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.history.making import DAY, LATER, LAYER, A, began, ended, found, image_of
from tileharvest.errors import HistoryError
from tileharvest.history import known as known_module
from tileharvest.history.harvests import HarvestRecord
from tileharvest.history.known import MOST_BLOCKS, Known, block_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator, Version

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.tiles.grid import Cell
    from tileharvest.walk.trust import Mark


class WatchedHarvest(HarvestRecord):
    """A real harvest that notes which areas it was asked for."""

    def __init__(self, harvest: HarvestRecord) -> None:
        self.__dict__.update(harvest.__dict__)
        self.areas: list[TileRange] = []

    def look_up(self, layer: str, area: TileRange) -> tuple[dict[Cell, Version], dict[Cell, Mark]]:
        self.areas.append(area)
        return super().look_up(layer, area)


@pytest.fixture
def history(sqlite_history: History) -> History:
    return sqlite_history


@pytest.fixture
def harvest(history: History) -> WatchedHarvest:
    first = began(history)
    first.record([found("add", body=b"sea")])
    ended(first)
    return WatchedHarvest(began(history, LATER))


def asked(harvest: HarvestRecord, *tiles: Tile) -> list[Version | None]:
    async def run() -> list[Version | None]:
        known = Known(harvest.look_up, harvest.history.reader)
        return [(await known.of(LAYER, tile))[0] for tile in tiles]

    return asyncio.run(run())


def test_a_known_version_is_given(harvest: WatchedHarvest) -> None:
    assert asked(harvest, A) == [Version(DAY, image_of(b"sea"), Validator('"1"'))]


def test_of_a_tile_never_recorded_nothing_is_known(harvest: WatchedHarvest) -> None:
    assert asked(harvest, Tile(0, 5, 5)) == [None]


def test_neighbours_share_a_query(harvest: WatchedHarvest) -> None:
    asked(harvest, *(Tile(0, x, y) for x in range(65, 128, 2) for y in range(1, 64, 2)))
    assert harvest.areas == [TileRange(0, 65, 127, 1, 63)]


def test_a_small_map_takes_one_query_for_a_zoom(harvest: WatchedHarvest) -> None:
    asked(harvest, *(Tile(0, x, y) for x in range(-31, 32, 2) for y in range(-31, 32, 2)))
    assert harvest.areas == [TileRange(0, -31, 31, -31, 31)]


def test_tiles_on_both_sides_of_an_axis_do_not_share_one_far_from_the_centre(harvest: WatchedHarvest) -> None:
    asked(harvest, Tile(0, -1, 33), Tile(0, 1, 33))
    assert harvest.areas == [TileRange(0, -63, -1, 1, 63), TileRange(0, 1, 63, 1, 63)]


def test_who_asks_at_the_same_time_shares_a_query(harvest: WatchedHarvest) -> None:
    async def run() -> None:
        known = Known(harvest.look_up, harvest.history.reader)
        await asyncio.gather(*(known.of(LAYER, Tile(0, x, 1)) for x in range(1, 32, 2)))

    asyncio.run(run())
    assert len(harvest.areas) == 1


def test_a_cancelled_call_takes_nothing_from_the_others(harvest: WatchedHarvest) -> None:
    async def run() -> tuple[Version | None, Mark | None]:
        known = Known(harvest.look_up, harvest.history.reader)
        cancelled = asyncio.ensure_future(known.of(LAYER, A))
        waiting = asyncio.ensure_future(known.of(LAYER, A))
        await asyncio.sleep(0)
        cancelled.cancel()
        return await waiting

    version, _ = asyncio.run(run())
    assert version is not None


def test_the_block_least_recently_used_is_thrown_away(
    harvest: WatchedHarvest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_module, "MOST_BLOCKS", 2)
    one, two, three = Tile(0, 65, 1), Tile(0, 129, 1), Tile(0, 193, 1)
    asked(harvest, one, two, one, three, one, two)
    assert [area.x_from for area in harvest.areas] == [65, 129, 193, 129]


def test_memory_stays_flat_on_a_large_map(harvest: WatchedHarvest) -> None:
    async def run() -> int:
        known = Known(harvest.look_up, harvest.history.reader)
        for column in range(MOST_BLOCKS + 20):
            await known.of(LAYER, Tile(0, 64 * column + 1, 1))
        return len(known._blocks)

    assert asyncio.run(run()) == MOST_BLOCKS


def test_after_a_failure_the_history_is_asked_again(history: History, harvest: WatchedHarvest) -> None:
    async def run() -> Version | None:
        known = Known(harvest.look_up, harvest.history.reader)
        rename(history, "tiles", "hidden")
        with pytest.raises(HistoryError, match="no such table"):
            await known.of(LAYER, A)
        rename(history, "hidden", "tiles")
        version, _ = await known.of(LAYER, A)
        return version

    assert asyncio.run(run()) is not None


def test_a_failure_that_nobody_waits_for_is_no_mistake_of_the_program(
    history: History, harvest: WatchedHarvest
) -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        known = Known(harvest.look_up, harvest.history.reader)
        rename(history, "tiles", "hidden")
        fetching = known.fetch(block_of(LAYER, A), A)
        assert fetching is not None
        await asyncio.wait([fetching])
        del fetching
        gc.collect()
        assert known.at_hand(block_of(LAYER, A)) is None

    told: list[Any] = []
    asyncio.run(run())
    assert told == []


def rename(history: History, table: str, name: str) -> None:
    with history.writing() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {name}")


async def marks_before_and_after_distrust(harvest: HarvestRecord, *, forget: bool) -> list[bool]:
    """Whether tile A is trusted, asked by one who had asked before."""
    known = Known(harvest.look_up, harvest.history.reader)
    trusted = []
    for _ in range(2):
        _, mark = await known.of(LAYER, A)
        trusted.append(mark is not None and mark.is_trusted)
        harvest.distrust(LAYER, "a change")
        if forget:
            known.forget()
    return trusted


@pytest.mark.parametrize("forget", [True, False])
def test_marks_are_kept_until_they_are_to_be_forgotten(history: History, forget: bool) -> None:
    first = began(history)
    first.record([replace(found("add"), step=Step(seen=Validator('"1"', "Sat, 13 Feb 2021 06:00:00 GMT")))])
    ended(first)
    trusted = asyncio.run(marks_before_and_after_distrust(began(history, LATER), forget=forget))
    assert trusted == [True, not forget]


def test_what_was_asked_before_forgetting_is_not_kept(harvest: WatchedHarvest) -> None:
    """Its block may have been read before trust was withdrawn."""

    async def run() -> None:
        known = Known(harvest.look_up, harvest.history.reader)
        waiting = asyncio.ensure_future(known.of(LAYER, A))
        # It begins in the first turn of the loop, and its query in the second.
        for _ in range(2):
            await asyncio.sleep(0)
        known.forget()
        await waiting
        await known.of(LAYER, A)

    asyncio.run(run())
    assert len(harvest.areas) == 2
