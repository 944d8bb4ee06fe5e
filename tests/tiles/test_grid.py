"""The grid against the known values of a real map, exhaustion of small depths, and the law of growth."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.grid import (
    Tile,
    TileRange,
    Zone,
    ancestors,
    covered_by,
    first_level,
    path_of,
    tile_at,
)

KNOWN = [
    # Published with the coordinates of the first such harvester, for a map of depth 12.
    ((-3, -440, 216), "/0/3/3/3/2/0/1/2/0"),
    ((-3, 8, 8), "/1/2/2/2/2/2/2/2/2"),
    ((-3, 8, -8), "/3/0/0/0/0/0/0/0/0"),
]
AREA = TileRange(-1, -6, 2, 2, 6)

paths = st.lists(st.sampled_from("0123"), min_size=1, max_size=20).map(lambda digits: "/" + "/".join(digits))
factors = st.sampled_from([2, 3, 5])
tiles = st.builds(Tile.at, st.integers(-9, 0), st.integers(-300, 300), st.integers(-300, 300))


@pytest.mark.parametrize(("name", "path"), KNOWN)
def test_known_names_have_their_paths(name, path):
    assert path_of(Tile(*name), depth=12) == path
    assert tile_at(path, depth=12) == Tile(*name)


@pytest.mark.parametrize("depth", range(1, 7))
def test_every_tile_of_small_depths_round_trips_under_a_name_of_its_own(depth):
    every = ["/" + "/".join(digits) for level in range(depth) for digits in product("0123", repeat=level + 1)]
    names = {tile_at(path, depth): path for path in every}
    assert len(names) == len(every)
    assert all(path_of(tile, depth) == path for tile, path in names.items())
    whole = [tile for zoom in range(1 - depth, 1) for tile in TileRange.whole(depth, zoom)]
    assert sorted(whole) == sorted(names)
    assert [path_of(tile, depth) for tile in first_level(depth)] == ["/0", "/1", "/2", "/3"]


@given(paths, st.integers(0, 5))
def test_growth_by_one_level_changes_the_path_and_not_the_name(path, deeper):
    """Overviewer's own renaming: 0 becomes 0/3, 1 becomes 1/2, 2 becomes 2/1, 3 becomes 3/0."""
    depth = path.count("/") + deeper
    moved = {"0": "/0/3", "1": "/1/2", "2": "/2/1", "3": "/3/0"}[path[1]] + path[2:]
    tile = tile_at(path, depth)
    assert tile_at(moved, depth + 1) == tile
    assert Tile.parse(str(tile)) == tile
    if deeper:
        assert [path_of(one, depth) for one in tile.children()] == [f"{path}/{digit}" for digit in range(4)]


@given(factors, tiles, st.integers(0, 3))
def test_parents_children_and_ancestors_agree_by_all_arithmetic(factor, tile, levels):
    """A parent's column and row are divided by the factor, as squaremap, BlueMap and the others name them."""
    parent = tile.parent(factor)
    assert (parent.zoom, parent.column, parent.row) == (
        tile.zoom - 1,
        tile.column // factor,
        tile.row // factor,
    )
    children = parent.children(factor)
    assert tile in children
    assert len(set(children)) == factor**2
    assert {child.parent(factor) for child in children} == {parent}
    places = [(child.row, child.column) for child in children]
    assert places == sorted(places)
    assert set(TileRange.of(parent).at_zoom(tile.zoom, factor)) == set(children)
    line = [tile]
    for _ in range(levels):
        line.append(line[-1].parent(factor))
    top = line[-1]
    assert tile.ancestor(levels, factor) == top
    assert TileRange.of(tile).at_zoom(top.zoom, factor) == TileRange.of(top)
    cells = [(one.zoom, one.x, one.y) for one in line]
    assert ancestors(cells[:1], top.zoom, factor) == set(cells[1:])
    assert covered_by(cells[-1:], factor)(cells[0]) == (levels > 0)
    beside = Tile.at(top.zoom, top.column + 1, top.row)
    assert not covered_by([(beside.zoom, beside.x, beside.y)], factor)(cells[0])


NO_NAMES = ("", "0_1", "0_1_1_1", "1_1_1", "0_01_1", "0_1_x", "-0_1_1", "0_٣_1", "0 1 1")
NO_CENTRES = ("0_2_1", "-1_1_2", "-3_8_16", "-2_0_4")
NO_PATHS = ("", "0/1", "/4", "/0//1", "/01", "/", "/a")


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        *((Tile.parse, (name,), "0_1_1") for name in NO_NAMES),
        *((Tile.parse, (name,), "odd multiple|no tile name") for name in NO_CENTRES),
        (Tile.parse, ("0_0_0",), "x and y are odd at zoom 0, "),
        *((tile_at, (path, 8), "not a tile path") for path in NO_PATHS),
        (tile_at, ("/0/1/2", 2), "deeper"),
        *((path_of, (tile, 3), "outside") for tile in (Tile(0, 9, 1), Tile(0, 1, -9), Tile(-3, 8, 8))),
        (Tile(0, 1, 1).children, (), "deepest"),
        (TileRange, (0, 3, 1, 1, 1), "no tile"),
    ],
)
def test_what_is_no_tile_is_refused_with_a_reason(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(*arguments)


def test_a_range_has_the_tiles_between_its_corners():
    listed = [Tile(-1, x, y) for x in AREA.columns for y in AREA.rows]
    assert len(AREA) == len(listed) == 6
    assert all(tile in AREA for tile in listed)
    assert not any(other in AREA for other in (Tile(-1, 6, 2), Tile(-1, -2, -2), Tile(0, 1, 3)))
    assert AREA.corners == (Tile(-1, -6, 6), Tile(-1, 2, 2))
    assert TileRange.between(*AREA.corners) == TileRange.covering(listed) == AREA
    assert AREA.wider(2) == TileRange(-1, -14, 10, -6, 14)
    assert AREA.middle == (-2, 4)


zones = st.builds(
    lambda x, y, width, height, zoom: Zone(center=(x, y), width=width, height=height, zoom=zoom),
    st.integers(-50, 50),
    st.integers(-50, 50),
    st.integers(1, 8),
    st.integers(1, 8),
    st.integers(-4, 0),
)


def counted_by_hand(zone: Zone) -> set[tuple[int, int]]:
    """Every integer point of the rectangle, tried: centres lie at odd multiples of 2^-zoom; the left and
    the upper edge belong to the zone, the right and the lower one do not."""
    unit = 2**-zone.zoom
    x, y = zone.center
    columns = [c for c in range(x - zone.width * unit, x + zone.width * unit) if c % (2 * unit) == unit]
    rows = [r for r in range(y + zone.height * unit, y - zone.height * unit, -1) if r % (2 * unit) == unit]
    return {(c, r) for c in columns for r in rows}


def test_zone_of_the_documentation_has_1624_tiles_from_its_known_upper_left_corner():
    tiles = Zone(center=(0, -8), width=56, height=29, zoom=-3).tiles()
    assert (len(tiles), tiles.x_from, tiles.y_to) == (1624, -440, 216)


@given(zones, st.integers(-6, 0))
def test_tiles_at_another_zoom_are_those_that_share_ground(zone, zoom):
    ground = {
        (x, y)
        for cx, cy in counted_by_hand(zone)
        for x in range(cx - 2**-zone.zoom, cx + 2**-zone.zoom)
        for y in range(cy - 2**-zone.zoom, cy + 2**-zone.zoom)
    }
    width = 2 ** (1 - zoom)
    expected = {(x // width * width + width // 2, y // width * width + width // 2) for x, y in ground}
    found = zone.tiles().at_zoom(zoom)
    assert {(x, y) for x in found.columns for y in found.rows} == expected


@pytest.mark.parametrize(
    ("width", "height", "zoom", "message"),
    [(0, 1, 0, "empty"), (1, 0, 0, "empty"), (-3, 2, 0, "empty"), (1, 1, 1, "deepest")],
)
def test_a_zone_without_tiles_or_of_no_zoom_is_refused(width, height, zoom, message):
    with pytest.raises(ValueError, match=message):
        Zone(center=(0, 0), width=width, height=height, zoom=zoom)
