"""The page's grid against the server's, tile by tile."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tileharvest.tiles.grid import Tile, TileRange, path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

MODULE = "grid.js"
THROWN = {"thrown": "RangeError"}


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


def test_what_is_no_name_is_refused(call: Call) -> None:
    wrong = ["", "0_1", "0_1_1_1", "0_2_1", "0_1_2", "-1_1_1", "1_1_1", "-0_1_1", "0_0_1", "0_+1_1", "00_1_1"]
    wrong += [
        " 0_1_1",
        "0_1_1\n",
        "0_1.0_1",
        "0_01_1",
        "0_1_1e3",
        "-60_1_1",
        f"0_{2**53 + 1}_1",
        "0_\u0661_1",
    ]
    assert call(MODULE, "parseTile", [[name] for name in wrong]) == [THROWN] * len(wrong)


def test_parents_and_ancestors_are_the_servers(call: Call) -> None:
    tiles = some_tiles()
    assert call(MODULE, "parent", [[as_object(tile)] for tile in tiles]) == [
        as_object(tile.parent()) for tile in tiles
    ]
    levels = [(tile, levels) for tile in tiles for levels in (0, 1, 3, 5)]
    assert call(MODULE, "ancestor", [[as_object(tile), up] for tile, up in levels]) == [
        as_object(tile.ancestor(up)) for tile, up in levels
    ]


def test_children_are_the_servers_in_its_order(call: Call) -> None:
    tiles = [tile for tile in some_tiles() if tile.zoom < 0]
    assert call(MODULE, "children", [[as_object(tile)] for tile in tiles]) == [
        [as_object(child) for child in tile.children()] for tile in tiles
    ]


def test_the_deepest_level_has_no_children(call: Call) -> None:
    assert call(MODULE, "children", [[as_object(Tile(0, 1, 1))]]) == [THROWN]


def test_paths_are_the_servers(call: Call) -> None:
    tiles = [(tile, depth_around(tile) + more) for tile in some_tiles() for more in (0, 1, 2)]
    assert call(MODULE, "pathOf", [[as_object(tile), depth] for tile, depth in tiles]) == [
        path_of(tile, depth) for tile, depth in tiles
    ]


@pytest.mark.parametrize(("tile", "depth"), [(Tile(0, 9, 1), 3), (Tile(0, 1, -9), 3), (Tile(-3, 8, 8), 3)])
def test_a_tile_outside_the_map_has_no_path(call: Call, tile: Tile, depth: int) -> None:
    assert call(MODULE, "pathOf", [[as_object(tile), depth]]) == [THROWN]


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


def test_a_point_on_an_edge_belongs_to_the_right_and_the_upper_tile(call: Call) -> None:
    found = call(MODULE, "tileAt", [[0, 0, 0], [0, 0, -2], [-4, 8, -1], [2, -2, 0]])
    assert [str(Tile(**tile)) for tile in found] == ["0_1_1", "-2_4_4", "-1_-2_10", "0_3_-1"]


@pytest.mark.parametrize("factor", [2, 3, 5])
def test_the_ground_of_a_tile_is_that_of_all_that_lies_below_it(call: Call, factor: int) -> None:
    tiles = [Tile.at(-zoom, column, row) for zoom in (0, 1, 3) for column in (-7, 0, 4) for row in (-1, 0, 9)]
    grounds = call(MODULE, "groundOf", [[as_object(tile), factor] for tile in tiles])
    for tile, ground in zip(tiles, grounds, strict=True):
        below = TileRange.of(tile).at_zoom(0, factor)
        assert ground == {
            "west": below.x_from - 1,
            "east": below.x_to + 1,
            "south": below.y_from - 1,
            "north": below.y_to + 1,
        }
        middle = ((ground["west"] + ground["east"]) / 2, (ground["south"] + ground["north"]) / 2)
        assert call(MODULE, "tileAt", [[*middle, tile.zoom, factor]]) == [as_object(tile)]


@pytest.mark.parametrize(("factor", "deepest", "zoom"), [(2, 0, -1), (2, -2, -2), (5, 0, -2), (6, 0, -3)])
def test_what_is_looked_at_more_closely_covers_the_same_ground(
    call: Call, factor: int, deepest: int, zoom: int
) -> None:
    """Two columns and three rows, of which at most 16 tiles of the deeper zoom are to lie along an edge."""
    tiles = [Tile.at(-3, column, row) for column in (-2, -1) for row in (0, 2)]
    (found,) = call(MODULE, "finestArea", [[[as_object(tile) for tile in tiles], factor, deepest, 16]])
    expected = TileRange.covering(tiles).at_zoom(zoom, factor)
    assert found == {
        "zoom": zoom,
        "xFrom": expected.x_from,
        "xTo": expected.x_to,
        "yFrom": expected.y_from,
        "yTo": expected.y_to,
    }


def test_cells_are_counted_from_the_centre_to_the_right_and_down(call: Call) -> None:
    cells = [
        (column, row, zoom) for column in (-3, -1, 0, 7) for row in (-5, -1, 0, 2) for zoom in (0, -1, -7)
    ]
    tiles = call(MODULE, "tileAtCell", [list(cell) for cell in cells])
    for (column, row, zoom), tile in zip(cells, tiles, strict=True):
        unit = 2**-zoom
        assert tile == as_object(Tile(zoom, 2 * column * unit + unit, -2 * row * unit - unit))
    assert call(MODULE, "cellOf", [[tile] for tile in tiles]) == [
        {"column": column, "row": row} for column, row, _ in cells
    ]


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


def depth_around(tile: Tile) -> int:
    """The least depth of a map that has the tile."""
    return max(abs(tile.x), abs(tile.y)).bit_length()
