"""Four tiles on three levels, as a harvest sees them for its walk."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tests.history.making import LAYER, A, B, D, began, found, look_up, record
from tileharvest.tiles.block import bit_of, blocks_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.tiles.results import TileResult
    from tileharvest.walk.trust import RememberedValidator

OLD, NEW = "Sat, 13 Feb 2021 06:00:00 GMT", "Sat, 13 Feb 2021 07:00:00 GMT"
UPPER = Tile(-2, 4, 4)
"""A tile of a zoom that is not kept. D lies below it, and A and B below D."""
THIRD = date(2021, 2, 20)


def seen(outcome: str, tile: Tile, last_modified: str | None = OLD, etag: str | None = '"1"') -> TileResult:
    kept = tile.zoom > UPPER.zoom
    return replace(found(outcome, tile), step=Step(seen=Validator(etag, last_modified), is_kept=kept))


def skipping(tile: Tile) -> TileResult:
    return replace(found("ign", tile), step=Step(skips=True, is_kept=tile.zoom > UPPER.zoom))


def mark(harvest: HarvestRecord, tile: Tile) -> RememberedValidator | None:
    (block,) = blocks_of(LAYER, [tile])
    return look_up(harvest, block).remembered.get(bit_of(tile))


def is_trusted(harvest: HarvestRecord, *tiles: Tile) -> list[bool]:
    marks = [mark(harvest, tile) for tile in tiles]
    return [one is not None and one.is_trusted for one in marks]


def first_harvest(history: History) -> HarvestRecord:
    """One that has seen the pyramid and is not finished."""
    harvest = began(history)
    record(harvest, [seen("ign", UPPER, NEW), seen("add", D, NEW), seen("add", A), seen("add", B, NEW)])
    return harvest
