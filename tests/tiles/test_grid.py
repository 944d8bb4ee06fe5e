"""The grid against the known values of a real map; its blocks, rectangles and pyramids against its tiles."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.renderers.overviewer import projection_of
from tileharvest.tiles.block import WHOLE, Block, bit_of, bits_of, blocks_in, blocks_of, mask_of
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
from tileharvest.tiles.ground import ON_GRID, Ground, Places, Projection, shows
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import ListedTiles, Pyramid
from tileharvest.walk.walk import Walk

KNOWN = [
    # Published with the coordinates of the first such harvester, for a map of depth 12.
    ((-3, -440, 216), "/0/3/3/3/2/0/1/2/0"),
    ((-3, 8, 8), "/1/2/2/2/2/2/2/2/2"),
    ((-3, 8, -8), "/3/0/0/0/0/0/0/0/0"),
]
AREA = TileRange(-1, -6, 2, 2, 6)
SEED = Tile.at(-3, 0, 0)
LAYER = Layer("night", Pyramid(7), "webp")


def zone_of(x: int, y: int, width: int, height: int, zoom: int) -> Zone:
    return Zone(center=(x, y), width=width, height=height, zoom=zoom)


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
        *(
            (Block, ("day", *its), "zoom 1|mask")
            for its in ((1, 0, 0, 1), (0, 0, 0, WHOLE + 1), (0, 0, 0, -1))
        ),
        *((zone_of, (0, 0, *its), "empty") for its in ((0, 1, 0), (1, 0, 0), (-3, 2, 0))),
        (zone_of, (0, 0, 1, 1, 1), "deepest"),
        *((Ground, its, "a rectangle") for its in ((1, 0, 1, 2), (0, 2, 1, 1), (0, 0, float("inf"), 1))),
        (Pyramid, (0,), "depth 0 has no tiles"),
        (Pyramid, (3, 1), "factor of 1"),
        (Pyramid.endless, (3, (), 9), "factor of 9"),
        (Pyramid, (3, 5), "no names that stay"),
        (Pyramid.endless, (4, (Tile.at(0, 0, 0),)), "not of the coarsest zoom, -3"),
        (Pyramid.endless, (4, (SEED,), 2, 0), "within 0 tiles"),
        # Refused before all are made.
        (ListedTiles, ((Tile.at(0, column, 0) for column in range(10**9)),), "more than 500,000 tiles"),
        *(
            (partial(replace, LAYER, **{name: one}), (), message)
            for name, one, message in (
                ("name", "", "no name"),
                ("image_extension", "gif", "'gif'"),
                ("tile_size", (0, 384), "0 x 384 pixels"),
                ("tile_size", (384, 0), "384 x 0 pixels"),
                ("north_direction", 4, "north direction 4"),
                ("spawn", (0, 64, 2**63), "a number beyond 64 bits"),
                ("rendered", 10**30, "a number beyond 64 bits"),
            )
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(make, arguments, message):
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


zones = st.builds(
    zone_of,
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


# -- blocks


columns = st.integers(-(2**20), 2**20)
masks = st.integers(1, WHOLE)


@given(zoom=st.integers(-12, 0), column=columns, row=columns)
def test_a_tile_has_the_bit_of_its_column_and_row_in_its_block(zoom, column, row):
    tile = Tile.at(zoom, column, row)
    [block] = blocks_of("day", [tile])
    assert (block.column, block.row) == (column // 8, row // 8)
    assert bit_of(tile) == (row % 8) * 8 + column % 8
    assert list(block.tiles()) == [(bit_of(tile), tile)]


@given(mask=masks, column=st.integers(-5, 5), row=st.integers(-5, 5), factor=st.sampled_from([2, 3, 5, 8]))
def test_the_blocks_below_have_the_children_of_the_masks_tiles_and_no_others(mask, column, row, factor):
    block = Block("day", -1, column, row, mask)
    below = block.below(factor)
    found = [tile for one in below for _, tile in one.tiles()]
    expected = {child for _, tile in block.tiles() for child in tile.children(factor)}
    assert len(found) == len(expected)
    assert set(found) == expected
    assert len({one.place for one in below}) == len(below)


@given(mask=masks)
def test_a_mask_is_its_bits(mask):
    assert mask_of(bits_of(mask)) == mask
    assert [*bits_of(mask)] == [bit for bit in range(64) if mask >> bit & 1]


@given(tiles=st.sets(st.builds(Tile.at, st.just(0), st.integers(-20, 20), st.integers(-20, 20)), max_size=99))
def test_blocks_hold_the_tiles_that_they_were_made_of(tiles):
    blocks = blocks_of("day", tiles)
    assert {tile for block in blocks for _, tile in block.tiles()} == tiles
    assert sum(map(len, blocks)) == len(tiles)


areas = st.lists(
    st.tuples(*[st.integers(-20, 20)] * 4).map(
        lambda edges: TileRange.between(
            Tile.at(0, min(edges[:2]), min(edges[2:])), Tile.at(0, max(edges[:2]), max(edges[2:]))
        )
    ),
    max_size=3,
)


@given(chosen=areas)
def test_the_blocks_of_areas_have_their_tiles_each_once_however_they_overlap(chosen):
    blocks = list(blocks_in("day", chosen))
    assert {tile for block in blocks for _, tile in block.tiles()} == {tile for one in chosen for tile in one}
    assert len({block.place for block in blocks}) == len(blocks)
    assert all(map(len, blocks))


def test_a_block_keeps_those_tiles_that_a_mask_has_too():
    block = Block("day", 0, 0, 0, 0b1110)
    assert block.only(0b0111) == Block("day", 0, 0, 0, 0b0110)
    assert block.only(0b0001) is None


# -- rectangles


CENTRES = st.integers(-200, 200).map(lambda number: 2 * number + 1)
ABOVE = Projection((0.125, 0, 0, 0), (0, 0, -0.125, 0))
"""Seen from above: eight blocks are a grid unit."""


@given(CENTRES, CENTRES, st.sampled_from([2, 5]), st.integers(-3, 0))
def test_the_tiles_of_what_tiles_cover_are_these_tiles(x: int, y: int, factor: int, zoom: int) -> None:
    area = TileRange.of(Tile(zoom, x << -zoom, y << -zoom)).wider(2)
    assert Ground.of(area, factor).tiles(zoom, factor) == area


def test_pixels_go_on_over_the_edge_of_a_tile() -> None:
    assert Ground(1, -1, 3, 1).pixels(0, (384, 384)) == (192, 192, 576, 576)
    assert Ground(1, -1, 3, 1).pixels(0, (384, 256)) == (192, 128, 576, 384)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(1, 300), st.integers(1, 300))
def test_a_rectangle_of_whole_pixels_has_exactly_these(x: int, y: int, wide: int, high: int) -> None:
    unit = 2 / 384
    ground = Ground(x * unit, -(y + high) * unit, (x + wide) * unit, -y * unit)
    assert ground.pixels(0, (384, 384)) == (x % 384, y % 384, x % 384 + wide, y % 384 + high)


def test_rectangles_that_share_only_an_edge_do_not_touch() -> None:
    one = Ground(0, 0, 2, 2)
    assert [one.touches(Ground(*edges)) for edges in [(2, 0, 4, 2), (1.9, 1.9, 4, 4)]] == [False, True]


def test_a_rectangle_of_the_world_seen_from_above_is_one_of_the_picture() -> None:
    ground = Ground.of_places((-8, 16, 24, 80), ABOVE)
    assert ground == Ground(-1, -10, 3, -2)
    assert ground.places(ABOVE) == (-8, 16, 24, 80)


SOME: Places = (13, -40, 77, 9)


def points(places: Places) -> Iterator[tuple[float, float]]:
    """A raster of places inside, three to a block."""
    west, north, east, south = (int(3 * edge) for edge in places)
    across, down = range(west, east), range(north, south)
    return product(((n + 0.5) / 3 for n in across), ((n + 0.5) / 3 for n in down))


@pytest.mark.parametrize("projection", [ABOVE, projection_of(384, 0), ON_GRID])
@pytest.mark.parametrize(("zoom", "factor"), [(0, 2), (-1, 2), (-3, 2), (-1, 5)])
def test_the_tiles_that_show_a_place_have_its_points(projection: Projection, zoom: int, factor: int) -> None:
    side = 2 * factor**-zoom
    drawn = (projection.point_of(*point) for point in points(SOME))
    wanted = {Tile.at(zoom, floor(x / side), floor(-y / side)) for x, y in drawn}
    around = Ground.of_places(SOME, projection).tiles(zoom, factor)
    assert wanted == {tile for tile in around if shows(tile, SOME, projection, factor)}


def test_a_tile_that_it_only_touches_does_not_show_it() -> None:
    chunk = (0, 0, 16, 16)
    assert [str(tile) for tile in Ground.of_places(chunk, ABOVE).tiles(0)] == ["0_1_-1"]
    assert not shows(Tile(0, 3, -1), chunk, ABOVE)


# -- pyramids


def test_within_an_area_nothing_outside_is_named() -> None:
    """Such as the bounds of a weather map: 3 x 1 deepest tiles, which lie below 2 x 1 coarser ones."""
    pyramid = Pyramid(2, area=TileRange.between(Tile.at(0, 1, 0), Tile.at(0, 3, 0)))
    assert tuple(pyramid.range_at(-1)) == (Tile.at(-1, 0, 0), Tile.at(-1, 1, 0))
    walk = Walk(pyramid)
    assert walk.below(Tile.at(-1, 0, 0)) == [Tile.at(0, 1, 0)]
    assert walk.below(Tile.at(-1, 1, 0)) == [Tile.at(0, 2, 0), Tile.at(0, 3, 0)]


@pytest.mark.parametrize("stride", [1, 2])
def test_an_endless_layer_begins_at_its_seeds_and_goes_on_all_around(stride: int) -> None:
    pyramid = Pyramid.endless(4, (SEED,), stride=stride)
    places = {(tile.column, tile.row) for tile in pyramid.beside(SEED)}
    steps = range(-stride, stride + 1)
    assert places == {(x, y) for x in steps for y in steps} - {(0, 0)}
    assert len(Walk(pyramid).below(SEED)) == 4
