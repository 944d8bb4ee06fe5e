from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.history.random_world import (
    DAYS,
    FIRST,
    LAYERS,
    MAP,
    ZOOMS,
    World,
    any_area,
    any_day,
    random_world,
)
from tileharvest.history.changes import (
    ChangedBlock,
    changed_blocks,
    changes_below,
    counted_zooms,
    deepest_changes,
    heat,
    last_changes,
)
from tileharvest.history.outlines import map_outline
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.pyramid import EVERYWHERE, Pyramid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.history.random_world import Opening

BEFORE, AFTER = FIRST - timedelta(days=1), FIRST + timedelta(days=DAYS + 9)
REPEATS = 40


@pytest.fixture(scope="module", params=[("sqlite", 4), ("sqlite", 5), ("postgresql", 6)])
def world(request: pytest.FixtureRequest, opening: Opening) -> Iterator[World]:
    database, seed = request.param
    with opening(database) as history:
        yield random_world(history, seed)


def covers(coarse: Tile, tile: Tile) -> bool:
    """By geometry: whether the tile's centre lies in the coarser one's square."""
    return abs(tile.x - coarse.x) < coarse.reach and abs(tile.y - coarse.y) < coarse.reach


def tiles_of(area: TileRange) -> list[Tile]:
    return [Tile(area.zoom, x, y) for x in area.columns for y in area.rows]


def counted_days(world: World, layer: str, zooms: dict[int, date], area: TileRange) -> dict[date, int]:
    """By the versions: of each day the tiles of the deepest zoom that was there."""
    found: dict[date, int] = {}
    for deep in counted_zooms(zooms, area.zoom):
        found |= Counter(
            day
            for tile, versions in world.of(layer, deep).items()
            if tile.ancestor(deep - area.zoom) in area
            for day in versions
        )
    return found


@pytest.mark.parametrize("levels", range(6))
def test_days_are_counted_per_deepest_tile_of_the_area(world: World, levels: int) -> None:
    random = Random(8)
    for outline in map_outline(world.history, MAP).layers * (REPEATS // 4):
        area = any_area(random, -levels, most=7)
        found = deepest_changes(world.history, outline, area)
        assert found == counted_days(world, outline.name, outline.zooms, area)
        assert list(found) == sorted(found)


def test_heat_is_the_number_of_versions_after_one_day_and_until_another(world: World) -> None:
    random = Random(8)
    for _ in range(REPEATS):
        layer, area = random.choice(LAYERS), any_area(random, random.choice(ZOOMS))
        after, until = sorted([any_day(random), any_day(random)])
        expected = {
            tile: count
            for tile, versions in world.of(layer, area.zoom).items()
            if tile in area and (count := sum(after < day <= until for day in versions))
        }
        assert heat(world.history, world.ids[layer], area, after, until) == expected


def true_places(world: World, layer: str, zoom: int, after: date, until: date) -> list[ChangedBlock]:
    """Block by block and tile by tile, the most changed first."""
    days: dict[Tile, int] = {
        tile: sum(after < day <= until for day in versions)
        for tile, versions in world.of(layer, zoom).items()
    }
    blocks: dict[Tile, list[Tile]] = {}
    for tile in sorted(tile for tile, count in days.items() if count):
        blocks.setdefault(tile.parent().parent().parent(), []).append(tile)
    found = []
    for block in sorted(blocks):
        hottest = max(blocks[block], key=days.__getitem__)
        found.append(ChangedBlock(hottest, days[hottest], sum(days[tile] for tile in blocks[block])))
    return sorted(found, key=lambda place: -place.tiles)


def test_places_are_the_blocks_that_changed_most(world: World) -> None:
    random = Random(8)
    for _ in range(REPEATS):
        layer, zoom = random.choice(LAYERS), random.choice(ZOOMS)
        after, until = sorted([any_day(random), any_day(random)])
        limit = random.choice([1, 3, 100])
        expected = true_places(world, layer, zoom, after, until)[:limit]
        assert changed_blocks(world.history, world.ids[layer], zoom, after, until, limit) == expected


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 6])
def test_last_changes_are_those_of_the_tiles_below(world: World, levels: int) -> None:
    random = Random(8)
    for _ in range(REPEATS // 2):
        layer, zoom, day = random.choice(LAYERS), random.choice([0, -1]), any_day(random)
        area = any_area(random, zoom - levels, most=5)
        versions = world.of(layer, zoom)
        days = {
            coarse: [of for tile in versions if covers(coarse, tile) for of in versions[tile] if of <= day]
            for coarse in tiles_of(area)
        }
        expected = {coarse: max(of) for coarse, of in days.items() if of}
        assert last_changes(world.history, world.ids[layer], zoom, area, day) == expected


@pytest.mark.parametrize("factor", [2, 5])
@pytest.mark.parametrize("zoom", [0, -1, -2, -3, -4, -7])
def test_days_are_counted_below_each_tile(world: World, zoom: int, factor: int) -> None:
    """Of the deepest zoom, and of those that were the deepest at first."""
    random = Random(8)
    counted = 0
    for outline in map_outline(world.history, MAP).layers * 3:
        pyramid = Pyramid(8, factor=factor, area=EVERYWHERE.at_zoom(0))
        layer = replace(outline, descriptions={FIRST: replace(outline.latest, pyramid=pyramid)})
        area = any_area(random, zoom)
        expected: dict[Tile, dict[date, int]] = {}
        for deep in counted_zooms(layer.zooms, zoom):
            below: defaultdict[Tile, Counter[date]] = defaultdict(Counter)
            for tile, its in world.of(layer.name, deep).items():
                if deep > zoom and (above := tile.ancestor(deep - zoom, factor)) in area:
                    below[above].update(its.keys())
            for tile, days in below.items():
                expected[tile] = expected.get(tile, {}) | days
        assert changes_below(world.history, layer, area) == expected
        counted += len(expected)
    assert counted or zoom == 0
