from __future__ import annotations

from random import Random

import pytest

from tileharvest.tiles.grid import Tile, ancestors, covered_by

COARSEST = -5


def random_tiles(random: Random, count: int) -> list[Tile]:
    """On all four sides of the centre."""
    tiles = []
    for _ in range(count):
        zoom = random.randint(COARSEST, 0)
        places = range(-64 + (1 << -zoom), 64, 2 << -zoom)
        tiles.append(Tile(zoom, random.choice(places), random.choice(places)))
    return tiles


def lineage(tile: Tile) -> set[Tile]:
    found = set()
    while tile.zoom > COARSEST:
        tile = tile.parent()
        found.add(tile)
    return found


def place(tile: Tile) -> tuple[int, int, int]:
    return tile.zoom, tile.x, tile.y


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_a_tile_is_covered_by_what_it_has_above_it(count: int) -> None:
    random = Random(count)
    tops = random_tiles(random, count)
    is_covered = covered_by(map(place, tops))
    for tile in random_tiles(random, 500):
        assert is_covered(place(tile)) == (not lineage(tile).isdisjoint(tops))


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_above_tiles_is_what_covers_one_of_them(count: int) -> None:
    tiles = random_tiles(Random(count), count)
    expected = set().union(*map(lineage, tiles))
    assert ancestors(map(place, tiles), COARSEST) == set(map(place, expected))
