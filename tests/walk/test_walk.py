"""The walk over imagined maps: what is asked for, and what is never asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.grid import Tile, tile_at
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.zones import Zone
from tileharvest.walk.walk import Walk

THERE = [Outcome.IGNORED, Outcome.NOT_MODIFIED, Outcome.UPDATED, Outcome.ADDED, Outcome.REPLACED]
ZONE = Zone(center=(0, -8), width=56, height=29, zoom=-3)


def walk_over(walk: Walk, existing: set[Tile]) -> list[Tile]:
    """Returns all tiles that a walk asks for on a map with exactly these tiles, in order."""
    asked, waiting = [], list(walk.start())
    while waiting:
        tile = waiting.pop()
        asked.append(tile)
        outcome = Outcome.IGNORED if tile in existing else Outcome.NOTHING
        waiting.extend(walk.below(tile, outcome, known=False))
    return asked


def with_ancestors(tiles: set[Tile], depth: int) -> set[Tile]:
    found = set()
    for tile in tiles:
        current = tile
        while current.zoom > -depth:
            found.add(current)
            current = current.parent()
    return found


trees = st.integers(1, 5).flatmap(
    lambda depth: st.tuples(
        st.just(depth),
        st.sets(
            st.lists(st.sampled_from("0123"), min_size=1, max_size=depth).map(
                lambda digits: tile_at("/" + "/".join(digits), depth)
            ),
            max_size=12,
        ),
    )
)


@given(trees)
def test_whole_walk_finds_every_tile_and_asks_for_none_twice(tree):
    depth, tiles = tree
    existing = with_ancestors(tiles, depth)
    asked = walk_over(Walk(Pyramid(depth)), existing)
    assert existing <= set(asked)
    assert len(asked) == len(set(asked))


@given(trees)
def test_whole_walk_asks_only_below_tiles_that_exist(tree):
    depth, tiles = tree
    existing = with_ancestors(tiles, depth)
    asked = walk_over(Walk(Pyramid(depth)), existing)
    assert all(tile.parent() in existing or tile.zoom == 1 - depth for tile in asked)


@given(
    trees, st.integers(-4, 0), st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 4), st.integers(1, 4)
)
def test_walk_in_a_zone_finds_every_kept_tile_of_the_zone(tree, zoom, x, y, width, height):
    depth, tiles = tree
    existing = with_ancestors(tiles, depth)
    zone = Zone(center=(x, y), width=width, height=height, zoom=zoom)
    try:
        walk = Walk(Pyramid(depth), None, (zone,))
    except ValueError:
        return
    wanted = {tile for tile in existing if tile in zone.tiles_at(tile.zoom)}
    asked = walk_over(walk, existing)
    assert wanted <= set(asked)
    assert len(asked) == len(set(asked))
    assert all(tile in zone.tiles_at(tile.zoom) for tile in asked)


def test_walk_starts_at_the_first_level():
    assert Walk(Pyramid(12)).start() == tuple(tile_at(f"/{digit}", 12) for digit in range(4))


def test_walk_in_zones_with_deep_zooms_starts_three_levels_above_them():
    assert {tile.zoom for tile in Walk(Pyramid(12), (-3, 0), (ZONE,)).start()} == {-6}


def test_walk_without_zones_starts_at_the_first_level_even_for_deep_zooms():
    assert Walk(Pyramid(17), (-3, 0)).start() == Walk(Pyramid(17)).start()


def test_walk_never_starts_above_the_first_level():
    assert Walk(Pyramid(5), (-3, 0), (ZONE,)).top == -4


def test_tile_under_two_zones_is_asked_for_once():
    start = Walk(Pyramid(12), (-3, 0), (ZONE, ZONE)).start()
    assert len(start) == len(set(start)) == 32


@pytest.mark.parametrize("outcome", THERE)
def test_walk_goes_below_a_tile_that_is_there(outcome):
    tile = tile_at("/1/2", 4)
    assert Walk(Pyramid(4)).below(tile, outcome, known=False) == tile.children()


@pytest.mark.parametrize("outcome", [Outcome.NOTHING, Outcome.GONE])
def test_walk_ends_at_a_tile_that_is_not_there(outcome):
    assert Walk(Pyramid(4)).below(tile_at("/1/2", 4), outcome, known=True) == ()


def test_walk_goes_below_a_failed_tile_that_the_history_knows():
    tile = tile_at("/1/2", 4)
    assert Walk(Pyramid(4)).below(tile, Outcome.FAILED, known=True) == tile.children()


def test_walk_ends_at_a_failed_tile_of_which_nothing_is_known():
    assert Walk(Pyramid(4)).below(tile_at("/1/2", 4), Outcome.FAILED, known=False) == ()


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_walk_does_not_go_below_a_tile_above_where_it_starts(levels):
    """Such a tile may be pushed, or have failed before the map had zones: what is below is asked anyway."""
    walk = Walk(Pyramid(12), (-3, 0), (ZONE,))
    assert walk.below(walk.start()[0].ancestor(levels), Outcome.IGNORED, known=True) == ()


def test_walk_ends_at_the_deepest_zoom_that_is_kept():
    assert Walk(Pyramid(6), (-4, -2)).below(tile_at("/1/2/1/1", 6), Outcome.ADDED, known=True) == ()


def test_only_kept_zooms_are_kept():
    walk = Walk(Pyramid(6), (-3, -1))
    assert [zoom for zoom in range(-5, 1) if zoom in walk.kept_zooms] == [-3, -2, -1]


def test_kept_ranges_of_a_whole_layer_are_all_its_tiles():
    assert [len(tiles) for tiles in Walk(Pyramid(4)).kept()] == [4, 16, 64, 256]


def test_kept_below_a_tile_is_its_square():
    square = Walk(Pyramid(4)).kept_below(tile_at("/1", 4))
    assert [len(tiles) for tiles in square] == [1, 4, 16, 64]


def test_zooms_that_the_layer_lacks_are_refused():
    with pytest.raises(ValueError, match="zooms -2 to 0"):
        Walk(Pyramid(3), (-9, -5))


def test_zone_beyond_the_map_is_refused():
    with pytest.raises(ValueError, match="no zone lies within"):
        Walk(Pyramid(3), None, (Zone(center=(800, 0), width=2, height=2, zoom=0),))


@given(trees, st.integers(0, 5))
def test_a_limited_walk_asks_for_all_that_exists_down_to_its_limit_and_for_nothing_below(tree, max_depth):
    depth, tiles = tree
    existing = with_ancestors(tiles, depth)
    walk = Walk(Pyramid(depth), max_depth=max_depth)
    limit = 1 - depth + max_depth
    asked = walk_over(walk, existing)
    assert asked == [tile for tile in walk_over(Walk(Pyramid(depth)), existing) if tile.zoom <= limit]
    assert {zoom for zoom in range(1 - depth, 1) if zoom in walk.kept_zooms} == {
        part.zoom for part in walk.kept()
    }


def test_a_limit_is_counted_from_where_zones_let_the_walk_begin():
    walk = Walk(Pyramid(9), (-2, 0), (ZONE,), max_depth=4)
    assert (walk.top, walk.deepest) == (-5, -1)


def test_a_walk_that_may_not_reach_what_is_kept_is_refused():
    with pytest.raises(ValueError, match="max_depth = 7 the walk goes from zoom -8 to -1, where nothing"):
        Walk(Pyramid(9), (0, 0), max_depth=7)
    assert Walk(Pyramid(9), (0, 0), max_depth=8).deepest == 0


SEED = Tile.at(-2, 0, 0)
"""A tile of the coarsest zoom of an endless layer."""


def endless() -> Walk:
    return Walk(Pyramid.endless(3, (SEED,)))


def asked_of(walk: Walk, existing: set[Tile]) -> set[Tile]:
    """Returns all tiles that a walk asks for, sideways too, if a queue drops those that were asked before."""
    asked: set[Tile] = set()
    coming = list(walk.start())
    while coming:
        tile = coming.pop()
        if tile not in asked:
            asked.add(tile)
            outcome = Outcome.IGNORED if tile in existing else Outcome.NOTHING
            coming += walk.below(tile, outcome, known=False)
            coming += walk.beside(tile, outcome, known=False)
    return asked


def test_without_an_edge_the_walk_goes_on_from_tile_to_tile() -> None:
    """An L of three coarsest tiles, which touch at edges and corners, with one deepest tile at its end."""
    deepest = Tile.at(0, 11, 7)
    coast = {SEED, Tile.at(-2, 1, 0), deepest.ancestor(2)}
    existing = coast | {deepest.parent(), deepest}
    asked = asked_of(endless(), existing)
    assert existing <= asked
    around = {(tile.column + x, tile.row + y) for tile in coast for x in (-1, 0, 1) for y in (-1, 0, 1)}
    assert {(tile.column, tile.row) for tile in asked if tile.zoom == -2} == around


def test_without_an_edge_nothing_is_asked_around_a_place_with_nothing() -> None:
    assert asked_of(endless(), set()) == {SEED}


def test_an_unchanged_tile_is_asked_around_as_well_where_it_failed_and_is_known() -> None:
    assert len(endless().beside(SEED, Outcome.FAILED, known=True)) == 8
    assert endless().beside(SEED, Outcome.FAILED, known=False) == ()


def test_only_the_top_of_an_endless_layer_is_asked_sideways() -> None:
    assert endless().beside(Tile.at(-1, 0, 0), Outcome.IGNORED, known=True) == ()
    assert endless().goes_sideways
    assert not Walk(Pyramid(3)).goes_sideways


def test_zones_say_themselves_how_far_an_endless_layer_is_walked() -> None:
    zone = Zone(center=(0, 0), width=4, height=4, zoom=0)
    walk = Walk(Pyramid.endless(3, (SEED,)), None, (zone,))
    assert not walk.goes_sideways
    assert {(tile.column, tile.row) for tile in walk.start()} == {(x, y) for x in (-1, 0) for y in (-1, 0)}


def test_where_tiles_nest_by_fives_a_walk_goes_down_by_25() -> None:
    tile = Tile.at(-1, -3, 2)
    walk = Walk(Pyramid.endless(3, (tile.parent(5),), factor=5))
    below = walk.below(tile, Outcome.IGNORED, known=False)
    assert {(child.column, child.row) for child in below} == {
        (column, row) for column in range(-15, -10) for row in range(10, 15)
    }
    (one,) = [part for part in walk.kept_below(tile) if part.zoom == 0]
    assert set(one) == set(below)
