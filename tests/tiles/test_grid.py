"""The grid against the known values of a real map, exhaustion of small depths, and the law of growth."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.grid import Tile, TileRange, first_level, path_of, tile_at

KNOWN = [
    # Published with the coordinates of the first such harvester, for a map of depth 12.
    ((-3, -440, 216), "/0/3/3/3/2/0/1/2/0"),
    ((-3, 8, 8), "/1/2/2/2/2/2/2/2/2"),
    ((-3, 8, -8), "/3/0/0/0/0/0/0/0/0"),
]

paths = st.lists(st.sampled_from("0123"), min_size=1, max_size=20).map(lambda digits: "/" + "/".join(digits))


@pytest.mark.parametrize(("name", "path"), KNOWN)
def test_known_name_gives_its_path(name, path):
    assert path_of(Tile(*name), depth=12) == path


@pytest.mark.parametrize(("name", "path"), KNOWN)
def test_known_path_gives_its_name(name, path):
    assert tile_at(path, depth=12) == Tile(*name)


@pytest.mark.parametrize("depth", range(1, 7))
def test_every_tile_of_small_depths_round_trips_under_a_name_of_its_own(depth):
    paths = [
        "/" + "/".join(digits) for level in range(1, depth + 1) for digits in product("0123", repeat=level)
    ]
    names = {tile_at(path, depth): path for path in paths}
    assert len(names) == len(paths)
    assert all(path_of(tile, depth) == path for tile, path in names.items())


def test_steps_follow_the_rule_of_the_centre():
    """The definition itself, walked step by step: towards the target on both axes, a digit per step."""
    depth, target = 5, Tile(-1, -10, 6)
    x = y = 0
    digits = []
    for k in range(depth - 1, -1, -1):
        right, up = target.x > x, target.y > y
        x, y = x + (2**k if right else -(2**k)), y + (2**k if up else -(2**k))
        digits.append(
            {(False, True): "0", (True, True): "1", (False, False): "2", (True, False): "3"}[right, up]
        )
        if (x, y) == (target.x, target.y):
            break
    assert path_of(target, depth) == "/" + "/".join(digits)


@given(paths, st.integers(0, 5))
def test_growth_by_one_level_changes_the_path_and_not_the_name(path, deeper):
    """Overviewer's own renaming: 0 becomes 0/3, 1 becomes 1/2, 2 becomes 2/1, 3 becomes 3/0."""
    depth = path.count("/") + deeper
    moved = {"0": "/0/3", "1": "/1/2", "2": "/2/1", "3": "/3/0"}[path[1]] + path[2:]
    assert tile_at(moved, depth + 1) == tile_at(path, depth)


@given(paths, st.integers(1, 5))
def test_children_extend_the_path_by_the_digits_in_order(path, deeper):
    depth = path.count("/") + deeper
    children = tile_at(path, depth).children()
    assert [path_of(child, depth) for child in children] == [f"{path}/{digit}" for digit in range(4)]


@given(paths, st.integers(1, 5))
def test_parent_of_every_child_is_the_tile(path, deeper):
    tile = tile_at(path, path.count("/") + deeper)
    assert {child.parent() for child in tile.children()} == {tile}


@given(paths, st.integers(1, 5), st.integers(0, 6))
def test_ancestor_is_the_parent_taken_so_many_times(path, deeper, levels):
    tile = tile_at(path, path.count("/") + deeper)
    ancestor = tile
    for _ in range(levels):
        ancestor = ancestor.parent()
    assert tile.ancestor(levels) == ancestor


@pytest.mark.parametrize("factor", [2, 5])
def test_there_is_no_ancestor_below_the_tile(factor):
    with pytest.raises(ValueError, match="negative"):
        Tile(-3, 8, 8).ancestor(-1, factor)


@given(paths, st.integers(0, 5))
def test_name_round_trips_through_text(path, deeper):
    tile = tile_at(path, path.count("/") + deeper)
    assert Tile.parse(str(tile)) == tile


def test_first_level_has_the_paths_of_one_digit():
    assert [path_of(tile, 9) for tile in first_level(9)] == ["/0", "/1", "/2", "/3"]


@pytest.mark.parametrize(
    "name", ["", "0_1", "0_1_1_1", "1_1_1", "0_01_1", "0_1_x", "-0_1_1", "0_٣_1", "0 1 1"]
)
def test_text_that_is_no_name_is_refused_with_an_example(name):
    with pytest.raises(ValueError, match=r"0_1_1"):
        Tile.parse(name)


@pytest.mark.parametrize("name", ["0_2_1", "-1_1_2", "-3_8_16", "-2_0_4"])
def test_point_that_is_no_centre_is_refused(name):
    with pytest.raises(ValueError, match=r"odd multiple|no tile name"):
        Tile.parse(name)


def test_a_name_with_a_zero_is_told_that_there_is_none():
    with pytest.raises(ValueError, match="x and y are odd at zoom 0, "):
        Tile.parse("0_0_0")


@pytest.mark.parametrize("path", ["", "0/1", "/4", "/0//1", "/01", "/", "/a"])
def test_path_with_other_digits_is_refused(path):
    with pytest.raises(ValueError, match="no tile path"):
        tile_at(path, 8)


def test_path_deeper_than_the_map_is_refused():
    with pytest.raises(ValueError, match="deeper"):
        tile_at("/0/1/2", 2)


@pytest.mark.parametrize("tile", [Tile(0, 9, 1), Tile(0, 1, -9), Tile(-3, 8, 8)])
def test_tile_outside_of_the_map_has_no_path(tile):
    with pytest.raises(ValueError, match="outside"):
        path_of(tile, 3)


def test_deepest_tile_has_no_children():
    with pytest.raises(ValueError, match="deepest"):
        Tile(0, 1, 1).children()


def test_range_counts_the_tiles_that_it_lists():
    tiles = TileRange(-1, -2, 6, 2, 6)
    listed = [Tile(-1, x, y) for x in tiles.columns for y in tiles.rows]
    assert len(tiles) == len(listed) == 6
    assert all(tile in tiles for tile in listed)


@pytest.mark.parametrize("other", [Tile(-1, 10, 2), Tile(-1, -2, -2), Tile(0, 1, 3)])
def test_range_holds_no_tile_beyond_its_edges_or_of_another_zoom(other):
    assert other not in TileRange(-1, -2, 6, 2, 6)


def test_range_without_tiles_is_refused():
    with pytest.raises(ValueError, match="no tile"):
        TileRange(0, 3, 1, 1, 1)


tiles = st.builds(
    lambda levels, column, row: Tile(-levels, (2 * column + 1) << levels, (2 * row + 1) << levels),
    st.integers(0, 9),
    st.integers(-300, 300),
    st.integers(-300, 300),
)


@given(tiles, st.integers(0, 12))
def test_a_coarser_zoom_has_the_ancestor_on_the_same_ground(tile, levels):
    ancestor = tile
    for _ in range(levels):
        ancestor = ancestor.parent()
    assert TileRange.of(tile).at_zoom(tile.zoom - levels) == TileRange.of(ancestor)


@given(tiles.filter(lambda tile: tile.zoom < 0))
def test_children_are_the_four_tiles_one_level_deeper(tile):
    area = TileRange.of(tile).at_zoom(tile.zoom + 1)
    assert len(area) == 4
    assert all(child in area for child in tile.children())


@given(tiles, st.integers(0, 20), st.integers(0, 20), st.integers(1, 4))
def test_the_ground_of_an_area_is_that_of_its_corners(corner, columns, rows, levels):
    unit = 2 * corner.reach
    far = Tile(corner.zoom, corner.x + columns * unit, corner.y + rows * unit)
    area = TileRange(corner.zoom, corner.x, far.x, corner.y, far.y)
    coarser = area.at_zoom(area.zoom - levels)
    first, last = (TileRange.of(tile).at_zoom(area.zoom - levels) for tile in (corner, far))
    assert coarser == TileRange(first.zoom, first.x_from, last.x_to, first.y_from, last.y_to)
    assert len(coarser.at_zoom(area.zoom)) == len(coarser) * 4**levels


def test_what_lies_below_a_known_tile_has_paths_that_begin_with_its_own():
    square = TileRange.of(Tile(-3, 8, 8)).at_zoom(0)
    assert square == TileRange(0, 1, 15, 1, 15)
    assert all(path_of(tile, 12).startswith("/1/2/2/2/2/2/2/2/2/") for tile in square)


@given(tiles, st.integers(0, 6))
def test_a_block_holds_the_tiles_below_one_ancestor(tile, levels):
    top = tile.ancestor(levels)
    unit = 2 * top.reach
    assert tile.block(levels) == ((top.x - top.reach) // unit, (top.y - top.reach) // unit)
    others = [Tile(tile.zoom, tile.x + 2 * tile.reach * step, tile.y) for step in (-1, 1)]
    assert all((one.block(levels) == tile.block(levels)) == (one.ancestor(levels) == top) for one in others)


@pytest.mark.parametrize("depth", range(1, 5))
def test_the_whole_of_a_zoom_is_every_tile_that_has_a_path(depth):
    for zoom in range(1 - depth, 1):
        paths = {path_of(tile, depth) for tile in TileRange.whole(depth, zoom)}
        assert len(paths) == len(TileRange.whole(depth, zoom)) == 4 ** (depth + zoom)


def test_two_ranges_share_what_is_in_both():
    one, other = TileRange(-1, -6, 2, -2, 6), TileRange(-1, -2, 10, 2, 2)
    assert one.intersection(other) == TileRange(-1, -2, 2, 2, 2)
    assert set(one) & set(other) == set(TileRange(-1, -2, 2, 2, 2))
    assert one.intersection(TileRange(-1, 6, 10, 2, 2)) is None


def test_the_corners_of_a_range_are_its_upper_left_and_its_lower_right_tile():
    area = TileRange(-1, -6, 2, 2, 6)
    assert area.corners == (Tile(-1, -6, 6), Tile(-1, 2, 2))
    assert TileRange.between(*area.corners) == area


def test_a_wider_range_has_more_tiles_on_each_side():
    wider = TileRange(-1, 2, 6, 2, 2).wider(2)
    assert wider == TileRange(-1, -6, 14, -6, 10)
    assert wider.middle == (4, 2)
