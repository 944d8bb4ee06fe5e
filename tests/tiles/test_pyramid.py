"""What a layer can be, and which tiles it can have, whatever the renderer."""

from dataclasses import replace

import pytest

from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import ListedTiles, Pyramid
from tileharvest.walk.walk import Walk

SEED = Tile.at(-3, 0, 0)


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pyramid(0), "depth 0 has no tiles"),
        (lambda: Pyramid(3, factor=1), "factor of 1"),
        (lambda: Pyramid.endless(3, (), factor=9), "factor of 9"),
        (lambda: Pyramid(3, factor=5), "no names that stay"),
        (lambda: Pyramid.endless(4, (Tile.at(0, 0, 0),)), "not of the coarsest zoom, -3"),
        (lambda: Pyramid.endless(4, (SEED,), stride=0), "within 0 tiles"),
        # Refused before all are made.
        (lambda: ListedTiles(Tile.at(0, column, 0) for column in range(10**9)), "more than 500,000 tiles"),
    ],
)
def test_a_pyramid_that_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


LAYER = Layer("night", Pyramid(7), "webp")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "no name"),
        ({"image_extension": "gif"}, "'gif'"),
        ({"tile_size": (0, 384)}, "0 x 384 pixels"),
        ({"tile_size": (384, 0)}, "384 x 0 pixels"),
        ({"north_direction": 4}, "north direction 4"),
        ({"spawn": (0, 64, 2**63)}, "a number beyond 64 bits"),
        ({"rendered": 10**30}, "a number beyond 64 bits"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LAYER, **change)
