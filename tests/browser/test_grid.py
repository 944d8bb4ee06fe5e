"""The page's grid against the server's, tile by tile."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

MODULE = "grid.js"


def some_tiles(most_bits: int = 45) -> list[Tile]:
    """Tiles of all zooms near the centre and far out, beyond 32 bits."""
    chance = random.Random(1)
    tiles = [Tile(0, 1, 1), Tile(0, -1, -1), Tile(-3, -440, 216), Tile(-3, 8, -8)]
    for _ in range(400):
        zoom = -chance.randrange(0, 30)
        reach = 1 << chance.randrange(0, most_bits + zoom if most_bits + zoom > 0 else 1)
        x, y = (2 * chance.randrange(-reach, reach) + 1 for _ in "xy")
        tiles.append(Tile(zoom, x << -zoom, y << -zoom))
    return tiles


def as_object(tile: Tile) -> dict[str, int]:
    return {"zoom": tile.zoom, "x": tile.x, "y": tile.y}


def test_names_are_the_servers(call: Call) -> None:
    tiles = some_tiles()
    assert call(MODULE, "tileName", [[as_object(tile)] for tile in tiles]) == [str(tile) for tile in tiles]
    assert call(MODULE, "parseTile", [[str(tile)] for tile in tiles]) == [as_object(tile) for tile in tiles]


def test_parents_and_ancestors_are_the_servers(call: Call) -> None:
    tiles = some_tiles()
    assert call(MODULE, "parent", [[as_object(tile)] for tile in tiles]) == [
        as_object(tile.parent()) for tile in tiles
    ]
    levels = [(tile, levels) for tile in tiles for levels in (0, 1, 3, 5)]
    assert call(MODULE, "ancestor", [[as_object(tile), up] for tile, up in levels]) == [
        as_object(tile.ancestor(up)) for tile, up in levels
    ]


def test_the_tile_at_a_point_covers_it(call: Call) -> None:
    chance = random.Random(2)
    points = [
        (chance.uniform(-(1 << bits), 1 << bits), chance.uniform(-(1 << bits), 1 << bits), -zoom)
        for bits in range(1, 40)
        for zoom in range(0, bits, 3)
    ]
    for (x, y, zoom), found in zip(
        points, call(MODULE, "tileAt", [list(point) for point in points]), strict=True
    ):
        tile = Tile(**found)
        assert tile.zoom == zoom
        assert abs(x - tile.x) <= tile.reach
        assert abs(y - tile.y) <= tile.reach


def test_a_chunk_is_the_16_by_16_tiles_that_share_an_ancestor(call: Call) -> None:
    tiles = [tile for tile in some_tiles() if tile.zoom > -25][:40]
    chunks = call(MODULE, "chunkOf", [[as_object(tile)] for tile in tiles])
    for tile, chunk in zip(tiles, chunks, strict=True):
        members = [tile.ancestor(4)]
        for _ in range(4):
            members = [child for member in members for child in member.children()]
        assert tile in members
        assert chunk == {
            "zoom": tile.zoom,
            "xFrom": min(member.x for member in members),
            "xTo": max(member.x for member in members),
            "yFrom": min(member.y for member in members),
            "yTo": max(member.y for member in members),
        }
