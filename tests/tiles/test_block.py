"""Blocks: their arithmetic, against the tiles' own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.block import WHOLE, Block, bit_of, bits_of, blocks_in, blocks_of, mask_of
from tileharvest.tiles.grid import Tile, TileRange

columns = st.integers(-(2**20), 2**20)
masks = st.integers(1, WHOLE)


@given(zoom=st.integers(-12, 0), column=columns, row=columns)
def test_a_tile_has_the_bit_of_its_column_and_row_in_its_block(zoom, column, row):
    tile = Tile.at(zoom, column, row)
    [block] = blocks_of("day", [tile])
    assert (block.column, block.row) == (column // 8, row // 8)
    assert bit_of(tile) == (row % 8) * 8 + column % 8
    assert list(block.tiles()) == [(bit_of(tile), tile)]
    assert tile in block.area


def test_the_area_of_a_block_has_its_64_places():
    block = Block("day", -2, -1, 3)
    assert set(block.area) == {tile for _, tile in block.tiles()}
    assert len(block) == len(block.area) == 64


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


@given(several=areas)
def test_the_blocks_of_areas_have_their_tiles_each_once_however_they_overlap(several):
    blocks = list(blocks_in("day", several))
    assert {tile for block in blocks for _, tile in block.tiles()} == {
        tile for one in several for tile in one
    }
    assert len({block.place for block in blocks}) == len(blocks)
    assert all(map(len, blocks))


def test_a_block_keeps_those_tiles_that_a_mask_has_too():
    block = Block("day", 0, 0, 0, 0b1110)
    assert block.only(0b0111) == Block("day", 0, 0, 0, 0b0110)
    assert block.only(0b0001) is None


@pytest.mark.parametrize(("zoom", "mask"), [(1, 1), (0, WHOLE + 1), (0, -1)])
def test_no_block_has_such_a_zoom_or_mask(zoom, mask):
    with pytest.raises(ValueError, match=r"zoom|mask"):
        Block("day", zoom, 0, 0, mask)
