"""A harvest with a real history and a real store. The truth is what SQLite and the folder hold after it."""

import asyncio
import shutil
import sqlite3
import tracemalloc
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from msgspec import structs
from PIL import Image as Pillow

from tests.history.making import TileResult, image_of, tiles_of
from tests.middlewares.making import (
    ALL,
    DAY,
    FIRST_LEVEL,
    LATER,
    LAYER,
    SITE,
    added,
    drawn,
    keep,
    opened,
    remember,
    unopened,
)
from tileharvest.errors import (
    AlreadyHarvestedError,
    BudgetError,
    ConfigurationError,
    ExitStatus,
    MovedError,
    StoreError,
)
from tileharvest.harvest.harvest import Harvest
from tileharvest.history.blocks import FoundBlock
from tileharvest.maps.regions import Canvas
from tileharvest.maps.template import Template
from tileharvest.politeness.rules import Rules
from tileharvest.renderers.addresses import TemplateAddresses
from tileharvest.renderers.site import Site
from tileharvest.tiles.block import Block, blocks_of
from tileharvest.tiles.grid import Tile, TileRange, Zone
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Answer


def query(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{folder / 'history.sqlite'}?mode=ro", uri=True)) as connection:
        return list(connection.execute(statement))


def ends(folder: Path) -> list[str | None]:
    return [reason for (reason,) in query(folder, "SELECT reason FROM harvests ORDER BY id")]


async def keep_all(harvest: Harvest, outcome: Outcome, *tiles: Tile) -> None:
    await keep(harvest, [TileResult(LAYER, tile, outcome) for tile in tiles])


async def known(folder: Path, *tiles: Tile) -> None:
    """A first harvest has found these tiles, and all of them if none are given."""
    await remember(folder, *map(added, tiles or ALL))


async def test_a_harvest_that_is_continued_on_a_later_day_keeps_its_day(tmp_path: Path) -> None:
    """As one of a week: its versions are of the day on which it began."""
    async with opened(tmp_path, DAY) as begun:
        week = begun.segment
    continued = unopened(tmp_path, LATER)
    continued.segment = week
    await continued.open(SITE)
    await continued.close()
    assert (continued.continued, continued.day) == (True, DAY)


async def test_what_is_kept_is_in_the_store_and_in_the_history_when_keep_returns(tmp_path: Path) -> None:
    body = drawn("sea")
    image = image_of(body)

    async with opened(tmp_path) as harvest:
        await keep(harvest, [added(FIRST_LEVEL[0], body, '"sea"')])
        file = tmp_path / "tiles" / image.sha1[:2] / f"{image.sha1}.png"
        assert file.read_bytes() == body
        rows = query(tmp_path, "SELECT zoom, x, y, day, sha1, size, etag FROM versions")
        assert rows == [(-1, -2, 2, "2024-05-02", image.sha1, len(body), '"sea"')]


async def test_bytes_that_cannot_be_stored_make_no_version(tmp_path: Path) -> None:
    result = added(FIRST_LEVEL[0])
    assert result.image is not None
    in_the_way = tmp_path / "tiles" / result.image.sha1[:2]

    async with opened(tmp_path) as harvest:
        in_the_way.parent.mkdir()
        in_the_way.write_text("in the way", encoding="utf-8")
        with pytest.raises(StoreError):
            await keep(harvest, [result])
        assert harvest.tally == {}
    assert query(tmp_path, "SELECT * FROM versions") == []


async def test_what_comes_leaves_room_to_stay_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000))
    async with opened(tmp_path) as harvest:
        harvest.check_room(10_000)
        result = added(FIRST_LEVEL[0])
        assert result.body is not None
        least = 1_000 - len(result.body)
        harvest.limit(Rules("map.example.net", 1, min_free=least), tmp_path)
        await keep(harvest, [result])
        harvest.limit(Rules("map.example.net", 1, min_free=least + 1), tmp_path)
        harvest.check_room()
        with pytest.raises(BudgetError, match="min_free") as raised:
            await keep(harvest, [added(FIRST_LEVEL[1], result.body)])
        assert not raised.value.is_all_kept
        harvest.limit(Rules("map.example.net", 1, min_free=1_001), tmp_path)
        with pytest.raises(BudgetError, match="min_free") as raised:
            harvest.check_room()
        assert raised.value.is_all_kept
    assert query(tmp_path, "SELECT count(*) FROM versions") == [(1,)]


async def test_a_harvest_that_was_stopped_is_continued(tmp_path: Path) -> None:
    await known(tmp_path)

    async with opened(tmp_path) as stopped:
        await keep_all(stopped, Outcome.IGNORED, *ALL[:12])
    async with opened(tmp_path) as harvest:
        assert (harvest.continued, harvest.expected) == (True, 20)
        assert set(tiles_of(await harvest.unasked())) == set(ALL[12:])
        await keep_all(harvest, Outcome.IGNORED, *ALL[12:])
        assert await harvest.unasked() == []
        assert await harvest.finish() == {Outcome.IGNORED: 20}
    assert ends(tmp_path) == ["finished", "finished"]


async def test_when_one_more_than_half_is_found_gone_the_map_has_moved(tmp_path: Path) -> None:
    await known(tmp_path)

    async with opened(tmp_path) as harvest:
        await keep_all(harvest, Outcome.GONE, *ALL[:10])
        # Those below are asked before: no walk leads to them.
        assert set(tiles_of(await harvest.unasked())) == set(ALL[10:])
        with pytest.raises(MovedError, match=r"more than half of the 20 tiles .* put the new url"):
            await keep_all(harvest, Outcome.GONE, ALL[10])
        async with opened(tmp_path) as other:
            # No result of its own says so.
            with pytest.raises(MovedError):
                await other.unasked()
        assert await harvest.finish("moved") == {}
    assert query(tmp_path, "SELECT count(*) FROM versions WHERE sha1 IS NULL") == [(0,)]
    assert ends(tmp_path) == ["finished", "moved"]


async def test_a_harvest_that_was_finished_while_the_site_was_probed_does_not_begin(tmp_path: Path) -> None:
    late = unopened(tmp_path)
    await late.expect_work()
    async with opened(tmp_path) as first:
        await first.finish()
    with pytest.raises(AlreadyHarvestedError, match="already harvested for 2024-05-02"):
        await late.open(SITE)
    assert not late.is_open
    assert ends(tmp_path) == ["finished"]


async def test_a_result_that_comes_after_another_worker_has_finished_is_dropped(tmp_path: Path) -> None:
    async with opened(tmp_path) as one, opened(tmp_path) as other:
        await keep_all(other, Outcome.NOTHING, *ALL[:3])
        await other.finish()
        await keep_all(one, Outcome.NOTHING, *ALL[:2])
        one.cost_meter.requests += 2
        assert await one.counts() == {Outcome.NOTHING: 3}
    assert query(tmp_path, "SELECT requests FROM harvests") == [(2,)]


async def test_how_many_tiles_are_expected_is_what_the_first_worker_knew_of_its_zones(tmp_path: Path) -> None:
    await known(tmp_path, *ALL[:8])
    corner = Zone(center=(-3, 3), width=2, height=2, zoom=0)

    async with opened(tmp_path, zones=(corner,)) as one:
        await keep(one, [added(tile) for tile in ALL[8:]])
        # Tiles outside of its zones are not missed.
        assert set(tiles_of(await one.unasked())) == {ALL[0], ALL[4]}
        async with opened(tmp_path) as late:
            assert one.expected == late.expected
            await keep_all(late, Outcome.GONE, *ALL[:4])
            # With the wider zones of this one it has not moved before more than half of these are gone.
            with pytest.raises(MovedError, match="more than half of the 8 tiles"):
                await keep_all(late, Outcome.GONE, ALL[4])


@pytest.mark.parametrize(
    "keys",
    [{"zooms": (-9, -5)}, {"zones": (Zone(center=(101, 101), width=3, height=3, zoom=0),)}],
    ids=["zooms", "zones"],
)
async def test_zooms_and_zones_that_are_not_there_touch_nothing(tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"map 'small', layer 'world-day': .*; change its"):
        await unopened(tmp_path, **keys).open(SITE)
    assert list(tmp_path.iterdir()) == []


async def test_an_endless_layer_is_walked_from_its_known_tiles_too(tmp_path: Path) -> None:
    """Land that lies apart, which no walk from the seeds comes to."""
    (layer,) = SITE.layers
    seed, apart, below = Tile.at(-1, 0, 0), Tile.at(-1, 40, -7), Tile.at(0, 80, -14)
    await known(tmp_path, seed, apart, below)

    harvest = unopened(tmp_path)
    await harvest.open(Site("overviewer", (replace(layer, pyramid=Pyramid.endless(2, (seed,))),)))
    first = set(tiles_of(block for block, _ in harvest.walks.first()))
    await harvest.close()
    assert first == {seed, apart}


async def test_something_was_asked_below_where_there_is_a_result_or_no_kept_zoom(tmp_path: Path) -> None:
    """Also far below: what lies between was asked, too, and could not be kept."""
    site = replace(SITE, layers=(replace(SITE.layers[0], pyramid=Pyramid(3)),))
    tops = [Tile(-2, x, y) for x in (-4, 4) for y in (-4, 4)]
    blocks = [blocks_of(LAYER, [tile])[0] for tile in (*tops, Tile(-1, 2, 2))]
    async with opened(tmp_path, site=site) as harvest:
        await keep_all(harvest, Outcome.NOTHING, Tile(0, 5, 3))
        await keep_all(harvest, Outcome.IGNORED, tops[0])
        assert [await harvest.has_gone_below(one) for one in blocks[:4]] == [True, False, False, True]
    async with opened(tmp_path, site=site, zooms=(0, 0)) as harvest:
        assert [await harvest.has_gone_below(one) for one in (blocks[1], blocks[4])] == [True, False]
        await harvest.keep(blocks[1], FoundBlock({Outcome.IGNORED: blocks[1].mask}, is_kept=False), {})
        assert harvest.tally == {}


async def test_a_finished_segment_is_told_with_what_follows_and_is_no_failure(tmp_path: Path) -> None:
    """The next segment begins at midnight in the map's zone, where it is summer time."""
    await unopened(tmp_path).expect_work()
    assert list(tmp_path.iterdir()) == []
    await known(tmp_path)
    await unopened(tmp_path, LATER).expect_work()
    with pytest.raises(AlreadyHarvestedError) as raised:
        await unopened(tmp_path, DAY, timezone="Europe/Berlin").expect_work()
    assert str(raised.value) == (
        "map 'small' is already harvested for 2024-05-01; the next segment begins 2024-05-02 00:00 CEST; "
        "tileharvest harvest small --segment run asks again"
    )
    assert raised.value.exit_status is ExitStatus.DONE


async def test_an_image_that_stands_for_a_missing_tile_is_a_missing_tile(tmp_path: Path) -> None:
    """As maps.toml says: many servers answer 200 for what is missing, with an image that shows nothing."""
    blank = drawn("blank")
    async with opened(tmp_path, blank=(image_of(blank).sha1,)) as harvest:
        assert harvest.understood(Answer(200, body=blank)) == Answer(404)
        other = Answer(200, body=drawn("other"))
        assert harvest.understood(other) == other
        # A server that fails says nothing of the tile, whatever it sends.
        answers = {0: Answer(200, body=blank), 1: Answer(503, body=blank), 2: TimeoutError()}
        assert harvest.understood_all(answers) == answers | {0: Answer(404)}


# -- of a canvas, most of which is empty: what it costs, what is asked again, and in which order


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
        await find_nothing(harvest, [block for block, _ in harvest.walks.first()])
        assert await harvest.finish() == {Outcome.NOTHING: side**2}
    tracemalloc.start()
    try:
        async with opened(tmp_path, DAY + timedelta(days=7), site=canvas(side)) as harvest:
            assert sum(1 for _ in harvest.walks.first()) == blocks
            assert tracemalloc.get_traced_memory()[1] <= blocks * MOST_MEMORY + 10_000_000
    finally:
        tracemalloc.stop()
    assert sum(file.stat().st_size for file in tmp_path.glob("history*")) <= blocks * MOST_HISTORY


async def test_the_next_harvest_asks_what_changed_first_and_of_what_is_empty_a_share(tmp_path: Path) -> None:
    once, often = Tile.at(0, 9, 9), Tile.at(0, 100, 100)
    changed = structs.replace(added(often, b"other" * 9), outcome=Outcome.UPDATED)
    for number, results in enumerate([[added(once), added(often)], [changed]]):
        async with opened(tmp_path, DAY + timedelta(days=number), site=canvas(128)) as harvest:
            await keep(harvest, results)
            await find_nothing(harvest, [block for block, _ in harvest.walks.first()])
            await harvest.finish()
    async with opened(tmp_path, DAY + timedelta(days=2), site=canvas(128)) as harvest:
        first = list(harvest.walks.first())
    assert [(block.column, block.row, is_last) for block, is_last in first[:2]] == [
        (12, 12, False),
        (1, 1, True),
    ]
    assert len(first) == pytest.approx(2 + (16**2 - 2) / 7, rel=0.1)


async def test_a_killed_harvest_offers_the_same_again_and_a_later_day_what_was_left(tmp_path: Path) -> None:
    async with opened(tmp_path, DAY, site=canvas(128)) as harvest:
        blocks = [block for block, _ in harvest.walks.first()]
        await find_nothing(harvest, blocks[:100])
    offered = []
    for _ in range(2):
        # The queue drops those that it has seen.
        async with opened(tmp_path, DAY + timedelta(days=1), site=canvas(128)) as harvest:
            offered.append({block for block, _ in harvest.walks.first()})
            await find_nothing(harvest, blocks[100:103])
            assert not harvest.is_pruned
    assert offered[0] == offered[1] >= set(blocks[100:])
    assert len(offered[0] & set(blocks[:100])) == pytest.approx(100 / 7, abs=2)


@pytest.mark.parametrize("keys", [{"walk": "full"}, {"again": True}])
async def test_who_wants_all_asked_gets_all(tmp_path: Path, keys: dict[str, object]) -> None:
    async with opened(tmp_path, DAY, site=canvas(64)) as harvest:
        await find_nothing(harvest, [block for block, _ in harvest.walks.first()])
        await harvest.finish()
    async with opened(tmp_path, DAY + timedelta(days=1), site=canvas(64), **keys) as harvest:
        assert len(list(harvest.walks.first())) == 64


async def test_one_blank_image_for_all_that_is_empty_ends_the_walk_with_what_to_write(tmp_path: Path) -> None:
    blank = added(Tile.at(0, 0, 0), drawn("blank"))
    assert blank.image is not None
    keys = {"url": "http://canvas.example.net/{x}/{y}.png", "canvas": Canvas(tiles=(40, 30))}
    said = rf'has the same image .* at more than 1,000 .* maps.toml blank = \["{blank.image.sha1}"\]'
    async with opened(tmp_path, DAY, site=canvas(40), **keys) as harvest:
        places = tiles_of(block for block, _ in harvest.walks.first())
        everywhere = [structs.replace(blank, tile=tile) for tile in places]
        with pytest.raises(BudgetError, match=said):
            await keep(harvest, everywhere)


@pytest.mark.parametrize("is_told", [False, True])
async def test_a_tile_of_another_size_than_the_others_is_kept_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_told: bool
) -> None:
    (layer,) = canvas(64).layers
    site = Site("xyz", (replace(layer, tells_size=is_told, tile_size=(16, 16)),))
    keys = {"url": "http://canvas.example.net/{x}/{y}.png", "canvas": Canvas(tiles=(64, 64))}

    async with opened(tmp_path, DAY, site=site, **keys) as harvest:
        for column, pixels in enumerate((16, 16, 32, 8)):
            body = BytesIO()
            Pillow.new("L", (pixels, pixels), column).save(body, "PNG")
            await keep(harvest, [added(Tile.at(0, column, 0), body.getvalue())])
    ((description,),) = query(tmp_path, "SELECT description FROM harvest_layers")
    assert '"tile_size":[16,16]' in description.replace(" ", "")
    (line,) = [one.getMessage() for one in caplog.records if "pixels" in one.getMessage()]
    assert "an image has 32 x 32 pixels, and the others 16 x 16: it is kept" in line
