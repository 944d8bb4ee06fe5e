"""Which tiles a layer can have, and how those of two zooms nest, whatever the renderer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.grid import Tile, TileRange, ancestors, covered_by, first_level, parent_cell
from tileharvest.tiles.pyramid import ListedTiles, Pyramid

FACTORS = st.sampled_from([2, 3, 5])
CELLS = st.integers(-10_000, 10_000)


@given(FACTORS, st.integers(-4, 0), CELLS, CELLS)
def test_a_parent_has_the_column_and_row_divided_by_the_factor(
    factor: int, zoom: int, column: int, row: int
) -> None:
    """As squaremap, BlueMap and the others name them: floor(x / factor), floor(y / factor)."""
    tile = Tile.at(zoom, column, row)
    parent = tile.parent(factor)
    assert (tile.column, tile.row) == (column, row)
    assert (parent.zoom, parent.column, parent.row) == (zoom - 1, column // factor, row // factor)
    assert tile in parent.children(factor)
    assert Tile(*parent_cell(tile.zoom, tile.x, tile.y, factor)) == parent


@given(FACTORS, st.integers(-4, -1), CELLS, CELLS)
def test_children_are_those_of_which_the_tile_is_the_parent(
    factor: int, zoom: int, column: int, row: int
) -> None:
    tile = Tile.at(zoom, column, row)
    children = tile.children(factor)
    assert len(set(children)) == factor**2
    assert {child.parent(factor) for child in children} == {tile}
    assert [(child.row, child.column) for child in children] == sorted(
        (child.row, child.column) for child in children
    )
    assert set(TileRange.of(tile).at_zoom(zoom + 1, factor)) == set(children)


@given(FACTORS, st.integers(0, 3), CELLS, CELLS)
def test_what_covers_a_tile_is_found_by_all_arithmetic_alike(
    factor: int, levels: int, column: int, row: int
) -> None:
    tile = Tile.at(0, column, row)
    line = [tile]
    for _ in range(levels):
        line.append(line[-1].parent(factor))
    above = line[-1]
    assert tile.ancestor(levels, factor) == above
    assert TileRange.of(tile).at_zoom(-levels, factor) == TileRange.of(above)
    cells = [(one.zoom, one.x, one.y) for one in line]
    assert ancestors(cells[:1], -levels, factor) == set(cells[1:])
    assert covered_by(cells[-1:], factor)(cells[0]) == (levels > 0)
    beside = Tile.at(above.zoom, above.column + 1, above.row)
    assert not covered_by([(beside.zoom, beside.x, beside.y)], factor)(cells[0])


class Listed(set[Tile]):
    """The tiles that a site lists."""

    def at(self, zoom: int) -> list[Tile]:
        return sorted(tile for tile in self if tile.zoom == zoom)


def test_of_a_depth_alone_it_is_the_square_around_the_origin() -> None:
    pyramid = Pyramid(4)
    assert pyramid.start() == first_level(4)
    assert pyramid.range_at(0) == TileRange.whole(4, 0)
    assert not pyramid.is_endless


def test_within_an_area_nothing_outside_is_named() -> None:
    """Such as the bounds of a weather map: 3 x 1 deepest tiles, which lie below 2 x 1 coarser ones."""
    pyramid = Pyramid(2, area=TileRange.between(Tile.at(0, 1, 0), Tile.at(0, 3, 0)))
    assert pyramid.start() == (Tile.at(-1, 0, 0), Tile.at(-1, 1, 0))
    assert pyramid.children(Tile.at(-1, 0, 0)) == (Tile.at(0, 1, 0),)
    assert pyramid.children(Tile.at(-1, 1, 0)) == (Tile.at(0, 2, 0), Tile.at(0, 3, 0))


def test_where_the_site_says_what_exists_nothing_else_is_named() -> None:
    far = Tile.at(-1, -58_594, 58_593)
    pyramid = Pyramid.listed(2, Listed({Tile.at(-1, 0, 0), Tile.at(0, 1, 1), far}))
    assert pyramid.start() == (far, Tile.at(-1, 0, 0))
    assert pyramid.children(Tile.at(-1, 0, 0)) == (Tile.at(0, 1, 1),)
    assert not pyramid.is_endless


def test_what_a_site_names_beyond_the_end_of_the_world_is_left_out() -> None:
    there = {Tile.at(-1, 0, 0), Tile.at(-1, 1 << 40, 0)}
    assert Pyramid.listed(2, Listed(there)).start() == (Tile.at(-1, 0, 0),)


def test_an_endless_layer_begins_at_its_seeds_and_goes_on_all_around() -> None:
    seed = Tile.at(-3, 0, 0)
    pyramid = Pyramid.endless(4, (seed,))
    assert pyramid.start() == (seed,)
    places = {(tile.column, tile.row) for tile in pyramid.beside(seed)}
    assert places == {(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)} - {(0, 0)}
    assert len(pyramid.children(seed)) == 4


def test_a_longer_stride_leads_over_a_place_where_nothing_is() -> None:
    """Seen on a real map of squaremap: the tile (-3, -2), apart from those around the origin."""
    pyramid = Pyramid.endless(4, (Tile.at(-3, 0, 0),), stride=2)
    beside = pyramid.beside(Tile.at(-3, -1, -1))
    assert len(beside) == 24
    assert Tile.at(-3, -3, -2) in beside


def test_an_endless_layer_by_fives_has_all_its_children_within() -> None:
    seed = Tile.at(-2, -7, 3)
    pyramid = Pyramid.endless(3, (seed,), factor=5)
    assert len(pyramid.children(seed)) == 25
    assert all(child in pyramid.range_at(-1) for child in pyramid.children(seed))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pyramid(0), "depth 0 has no tiles"),
        (lambda: Pyramid(3, factor=1), "factor of 1"),
        (lambda: Pyramid(3, factor=5), "no names that stay"),
        (lambda: Pyramid.endless(4, (Tile.at(0, 0, 0),)), "not of the coarsest zoom, -3"),
        (lambda: Pyramid.endless(4, (Tile.at(-3, 0, 0),), stride=0), "within 0 tiles"),
    ],
)
def test_a_pyramid_that_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_site_that_lists_too_many_tiles_is_refused_before_all_are_made() -> None:
    tiles = (Tile.at(0, column, 0) for column in range(10**9))
    with pytest.raises(ValueError, match="more than 500,000 tiles"):
        ListedTiles(tiles)
