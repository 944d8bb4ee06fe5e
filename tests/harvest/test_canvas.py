"""Harvests of a canvas, most of which is empty: what they cost, what is asked again, and in which order."""

import asyncio
import dataclasses
import sqlite3
import tracemalloc
from collections.abc import Iterable
from contextlib import closing
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from PIL import Image as Pillow

from tests.middlewares.making import DAY, LAYER, added, drawn, opened
from tileharvest.errors import BudgetError
from tileharvest.harvest.harvest import Harvest
from tileharvest.history.blocks import FoundBlock
from tileharvest.maps.regions import Canvas
from tileharvest.maps.template import Template
from tileharvest.renderers.addresses import TemplateAddresses
from tileharvest.renderers.site import Site
from tileharvest.tiles.block import Block
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid

WHOLE: Final = 2048
"""Tiles along the edge of the largest canvas, which has 65,536 blocks."""
MOST_MEMORY: Final = 100_000_000 / 65_536
"""Bytes that a block of it may cost in memory."""
MOST_HISTORY: Final = 1_000
"""Bytes that a block may cost in the history."""


def canvas(side: int) -> Site:
    area = TileRange.between(Tile.at(0, 0, 0), Tile.at(0, side - 1, side - 1))
    addresses = TemplateAddresses(Template("http://canvas.example.net/{x}/{y}.png"), 1, 11)
    return Site("xyz", (Layer(LAYER, Pyramid(1, area=area), "png", addresses, tile_size=(4, 4)),))


async def find_nothing(harvest: Harvest, blocks: Iterable[Block]) -> None:
    coming = list(blocks)
    while coming:
        some, coming = coming[:256], coming[256:]
        nothing = (harvest.keep(one, FoundBlock({Outcome.NOTHING: one.mask}), {}) for one in some)
        await asyncio.gather(*nothing)


@pytest.mark.parametrize("side", [WHOLE // 4, pytest.param(WHOLE, marks=pytest.mark.repetition)])
async def test_an_empty_canvas_costs_1_kb_of_history_a_block_and_100_mb_of_memory_in_all(
    tmp_path: Path, side: int
) -> None:
    blocks = (side // 8) ** 2

    async with opened(tmp_path, DAY, site=canvas(side)) as harvest:
        await find_nothing(harvest, [block for block, _ in harvest.first()])
        assert await harvest.finish() == {Outcome.NOTHING: side**2}
    tracemalloc.start()
    try:
        async with opened(tmp_path, DAY + timedelta(days=7), site=canvas(side)) as harvest:
            assert sum(1 for _ in harvest.first()) == blocks
            assert tracemalloc.get_traced_memory()[1] <= blocks * MOST_MEMORY + 10_000_000
    finally:
        tracemalloc.stop()
    assert sum(file.stat().st_size for file in tmp_path.glob("history*")) <= blocks * MOST_HISTORY


async def test_the_next_harvest_asks_what_changed_first_and_of_what_is_empty_a_share(tmp_path: Path) -> None:
    once, often = Tile.at(0, 9, 9), Tile.at(0, 100, 100)
    changed = replace(added(often, b"other" * 9), outcome=Outcome.UPDATED)
    for number, results in enumerate([[added(once), added(often)], [changed]]):
        async with opened(tmp_path, DAY + timedelta(days=number), site=canvas(128)) as harvest:
            await harvest.keep_results(results)
            await find_nothing(harvest, [block for block, _ in harvest.first()])
            await harvest.finish()
    async with opened(tmp_path, DAY + timedelta(days=2), site=canvas(128)) as harvest:
        first = list(harvest.first())
    assert [(block.column, block.row, is_last) for block, is_last in first[:2]] == [
        (12, 12, False),
        (1, 1, True),
    ]
    assert len(first) == pytest.approx(2 + (16**2 - 2) / 7, rel=0.1)


async def test_a_killed_harvest_offers_the_same_again_and_a_later_day_what_was_left(tmp_path: Path) -> None:
    async with opened(tmp_path, DAY, site=canvas(128)) as harvest:
        blocks = [block for block, _ in harvest.first()]
        await find_nothing(harvest, blocks[:100])
    offered = []
    for _ in range(2):
        # The queue drops those that it has seen.
        async with opened(tmp_path, DAY + timedelta(days=1), site=canvas(128)) as harvest:
            offered.append({block for block, _ in harvest.first()})
            await find_nothing(harvest, blocks[100:103])
            assert not harvest.is_pruned
    assert offered[0] == offered[1] >= set(blocks[100:])
    assert len(offered[0] & set(blocks[:100])) == pytest.approx(100 / 7, abs=2)


@pytest.mark.parametrize("keys", [{"walk": "full"}, {"again": True}])
async def test_who_wants_all_asked_gets_all(tmp_path: Path, keys: dict[str, object]) -> None:
    async with opened(tmp_path, DAY, site=canvas(64)) as harvest:
        await find_nothing(harvest, [block for block, _ in harvest.first()])
        await harvest.finish()
    async with opened(tmp_path, DAY + timedelta(days=1), site=canvas(64), **keys) as harvest:
        assert len(list(harvest.first())) == 64


async def test_one_blank_image_for_all_that_is_empty_ends_the_walk_with_what_to_write(tmp_path: Path) -> None:
    blank = added(Tile.at(0, 0, 0), drawn("blank"))
    assert blank.image is not None
    keys = {"url": "http://canvas.example.net/{x}/{y}.png", "canvas": Canvas(tiles=(40, 30))}
    said = rf'has the same image .* at more than 1,000 .* maps.toml blank = \["{blank.image.sha1}"\]'
    async with opened(tmp_path, DAY, site=canvas(40), **keys) as harvest:
        everywhere = [replace(blank, tile=tile) for block, _ in harvest.first() for _, tile in block.tiles()]
        with pytest.raises(BudgetError, match=said):
            await harvest.keep_results(everywhere)


@pytest.mark.parametrize("is_told", [False, True])
async def test_a_tile_of_another_size_than_the_others_is_kept_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_told: bool
) -> None:
    (layer,) = canvas(64).layers
    site = Site("xyz", (dataclasses.replace(layer, tells_size=is_told, tile_size=(16, 16)),))
    keys = {"url": "http://canvas.example.net/{x}/{y}.png", "canvas": Canvas(tiles=(64, 64))}

    async with opened(tmp_path, DAY, site=site, **keys) as harvest:
        for column, pixels in enumerate((16, 16, 32, 8)):
            body = BytesIO()
            Pillow.new("L", (pixels, pixels), column).save(body, "PNG")
            await harvest.keep_results([added(Tile.at(0, column, 0), body.getvalue())])
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as database:
        ((description,),) = database.execute("SELECT description FROM harvest_layers")
    assert '"tile_size":[16,16]' in description.replace(" ", "")
    (line,) = [one.getMessage() for one in caplog.records if "pixels" in one.getMessage()]
    assert "an image has 32 x 32 pixels, and the others 16 x 16: it is kept" in line
