"""The walk over imagined maps: what is asked for, and what is never asked for."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.block import WHOLE, Block
from tileharvest.tiles.grid import Tile, TileRange, Zone, first_level, tile_at
from tileharvest.tiles.pyramid import ListedTiles, Pyramid
from tileharvest.walk.flat import EarlierBlock, FlatStart, flat_start, has_turn
from tileharvest.walk.walk import Walk

ZONE = Zone(center=(0, -8), width=56, height=29, zoom=-3)
SEED = Tile.at(-2, 0, 0)
ENDLESS = Walk(Pyramid.endless(3, (SEED,)))
FIRST, SECOND, FAR = Tile.at(-1, 0, 0), Tile.at(-1, 1, 0), Tile.at(-1, -58_594, 58_593)


def asked_of(walk: Walk, existing: set[Tile]) -> list[Tile]:
    """All tiles that a walk asks for, sideways too, if a queue drops those that were asked before."""
    asked: dict[Tile, None] = {}
    coming = list(walk.start())
    while coming:
        tile = coming.pop()
        assert walk.goes_sideways or tile not in asked
        if tile not in asked:
            asked[tile] = None
            if tile in existing:
                coming += walk.below(tile)
                coming += walk.pyramid.beside(tile) if walk.goes_sideways and tile.zoom == walk.top else ()
    return list(asked)


def with_ancestors(tiles: set[Tile], depth: int) -> set[Tile]:
    return {tile.ancestor(levels) for tile in tiles for levels in range(depth + tile.zoom)}


trees = st.integers(1, 5).flatmap(
    lambda depth: st.tuples(
        st.just(depth),
        st.sets(
            st.lists(st.sampled_from("0123"), min_size=1, max_size=depth).map(
                lambda digits: tile_at("/" + "/".join(digits), depth)
            ),
            max_size=12,
        ).map(lambda tiles: with_ancestors(tiles, depth)),
    )
)


@given(trees)
def test_whole_walk_finds_every_tile_and_asks_only_below_tiles_that_exist(tree):
    depth, existing = tree
    asked = asked_of(Walk(Pyramid(depth)), existing)
    assert existing <= set(asked)
    assert all(tile.parent() in existing or tile.zoom == 1 - depth for tile in asked)


@given(
    trees, st.integers(-4, 0), st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 4), st.integers(1, 4)
)
def test_walk_in_a_zone_finds_every_kept_tile_of_the_zone(tree, zoom, x, y, width, height):
    depth, existing = tree
    zone = Zone(center=(x, y), width=width, height=height, zoom=zoom)
    try:
        walk = Walk(Pyramid(depth), None, (zone,))
    except ValueError:
        return
    asked = asked_of(walk, existing)
    assert {tile for tile in existing if tile in zone.tiles().at_zoom(tile.zoom)} <= set(asked)
    assert all(tile in zone.tiles().at_zoom(tile.zoom) for tile in asked)


@pytest.mark.parametrize(
    ("walk", "top"),
    [
        (Walk(Pyramid(12)), -11),
        # Three levels above the coarsest kept zoom, if there are zones; never above the first level.
        (Walk(Pyramid(12), (-3, 0), (ZONE,)), -6),
        (Walk(Pyramid(5), (-3, 0), (ZONE,)), -4),
        (Walk(Pyramid(17), (-3, 0)), -16),
    ],
)
def test_where_a_walk_starts(walk: Walk, top: int) -> None:
    assert {tile.zoom for tile in walk.start()} == {top} == {walk.top}


@pytest.mark.parametrize(
    ("pyramid", "start"),
    [
        (Pyramid(4), first_level(4)),
        (Pyramid(2, area=TileRange.between(Tile.at(0, 1, 0), Tile.at(0, 3, 0))), (FIRST, SECOND)),
        # What the site's list has beyond the world is left out.
        (
            Pyramid.listed(2, ListedTiles({FIRST, FAR, Tile.at(0, 1, 1), Tile.at(-1, 1 << 40, 0)})),
            (FAR, FIRST),
        ),
        (Pyramid.endless(3, (SEED,)), (SEED,)),
    ],
    ids=["a square", "an area", "a list", "seeds"],
)
def test_with_which_tiles_a_walk_over_a_whole_layer_starts(pyramid: Pyramid, start: tuple[Tile, ...]) -> None:
    assert tuple(Walk(pyramid).start()) == start


def test_a_whole_canvas_starts_block_by_block() -> None:
    canvas = Walk(Pyramid(1, area=TileRange.between(Tile.at(0, 0, 0), Tile.at(0, 2047, 2047))))
    blocks = canvas.start_blocks("zoom11")
    assert next(blocks) == Block("zoom11", 0, 0, 0)
    assert sum(map(len, blocks)) == canvas.start_size - 64 == 2048**2 - 64


def test_what_is_kept():
    zone = Walk(Pyramid(12), (-3, 0), (ZONE,))
    # A tile above the start may be pushed. What is below is asked anyway.
    assert zone.below(next(zone.start()).parent()) == []
    walk = Walk(Pyramid(6), (-3, -1))
    assert list(walk.kept_zooms) == [-3, -2, -1]
    assert walk.below(tile_at("/1/2/1/1/1", 6)) == []
    assert [len(tiles) for tiles in Walk(Pyramid(4)).kept()] == [4, 16, 64, 256]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"zooms": (-99, -50)}, "zooms -8 to 0, none of those that are kept"),
        ({"zones": (Zone(center=(80_000, 0), width=2, height=2, zoom=0),)}, "no zone lies within"),
    ],
)
def test_a_walk_that_could_never_ask_for_what_is_kept_is_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        Walk(Pyramid(9), **keys)


# -- layers of which nobody says how far they reach


def test_without_an_edge_the_walk_goes_on_from_tile_to_tile() -> None:
    """An L of three coarsest tiles, which touch at edges and corners, with one deepest tile at its end."""
    deepest = Tile.at(0, 11, 7)
    coast = {SEED, Tile.at(-2, 1, 0), deepest.ancestor(2)}
    existing = coast | {deepest.parent(), deepest}
    asked = asked_of(ENDLESS, existing)
    assert existing <= set(asked)
    around = {(tile.column + x, tile.row + y) for tile in coast for x in (-1, 0, 1) for y in (-1, 0, 1)}
    assert {(tile.column, tile.row) for tile in asked if tile.zoom == -2} == around
    assert asked_of(ENDLESS, set()) == [SEED]


# -- layers of one zoom


DAY = date(2026, 11, 20)
EVERY = 7
SIDE = 20
BLOCKS = [Block("zoom9", 0, column, row, WHOLE) for row in range(SIDE) for column in range(SIDE)]


def known(day: date = DAY, *, present: int = 0, days: int = 0, asked: int = WHOLE) -> EarlierBlock:
    return EarlierBlock(day, asked, present, days)


EMPTY = {(one.column, one.row): known() for one in BLOCKS}


def places(start: FlatStart, *, are_last: bool = True) -> list[tuple[int, int]]:
    return [(one.column, one.row) for one, is_last in start.blocks if is_last is are_last]


def test_empty_blocks_are_asked_again_by_a_share_each_day_and_all_of_them_within_a_week() -> None:
    earlier = dict(EMPTY)
    for number in range(1, 3 * EVERY + 1):
        day = DAY + timedelta(days=number)
        start = flat_start(BLOCKS, earlier, day, EVERY)
        assert (places(start, are_last=False), start.is_all) == ([], False)
        assert len(start.blocks) == pytest.approx(SIDE**2 / EVERY, rel=0.1)
        earlier |= dict.fromkeys(places(start), known(day))
        if number >= EVERY:
            assert min(one.day for one in earlier.values() if one.day) > day - timedelta(days=EVERY)


@pytest.mark.parametrize("missed", [2, 6, 7, 100])
def test_turns_that_fell_on_days_without_a_harvest_are_made_up_for(missed: int) -> None:
    today = DAY + timedelta(days=missed)
    days = [DAY + timedelta(days=day) for day in range(1, min(missed, EVERY) + 1)]
    expected = {place for place in EMPTY for day in days if has_turn(place, day - timedelta(1), day, EVERY)}
    start = flat_start(BLOCKS, EMPTY, today, EVERY)
    assert set(places(start)) == expected
    assert start.is_all == (missed >= EVERY)


def test_what_changed_often_comes_first_and_what_is_empty_last_near_a_tile_before_far_away() -> None:
    earlier = EMPTY | {
        (3, 3): known(present=1, days=2),
        (4, 4): known(present=1, days=5),
        (9, 9): known(present=1, days=1),
        (15, 15): known(asked=0),
    }
    day = DAY + timedelta(days=EVERY)
    start = flat_start(BLOCKS, earlier, day, EVERY)
    assert places(start, are_last=False) == [(4, 4), (3, 3)]
    order = places(start)
    assert order[:2] == [(9, 9), (15, 15)]
    near = {(x + i, y + j) for x, y in ((3, 3), (4, 4), (9, 9)) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    near -= {(3, 3), (4, 4), (9, 9)}
    assert set(order[2 : 2 + len(near)]) == near


@pytest.mark.parametrize(
    "before",
    [
        known(DAY, present=1, days=1),
        known(DAY, present=1, days=9),
        known(DAY, asked=WHOLE >> 1),
        EarlierBlock(None, WHOLE, 0, 0),
        None,
    ],
    ids=["never changed", "changed often", "asked in part", "asked by this harvest", "never asked"],
)
def test_a_block_that_is_not_known_to_be_empty_is_always_asked(before: EarlierBlock | None) -> None:
    (block,) = BLOCKS[:1]
    start = flat_start([block], {} if before is None else {(0, 0): before}, DAY, EVERY)
    assert ([one for one, _ in start.blocks], start.is_all) == ([block], True)
