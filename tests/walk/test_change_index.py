"""What a change index tells since an earlier reading, and the ground that a walk then keeps to."""

import pytest

from tileharvest.tiles.grid import Tile
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.walk.change_index import ChangedGround, ChangeIndex, audited_share
from tileharvest.walk.walk import Walk

DEPTH = 3
DEEP = Tile(0, 1, 1)
PYRAMID = Pyramid(DEPTH)


def ground(*tiles: Tile, pyramid: Pyramid = PYRAMID) -> ChangedGround:
    return ChangedGround(((tile.zoom, tile.x, tile.y) for tile in tiles), pyramid)


@pytest.mark.parametrize(
    ("earlier", "changed"),
    [
        (ChangeIndex("a", ((1, 1, "x"), (3, 1, "y"))), {(0, 1, 1), (0, 5, 1)}),
        (ChangeIndex("a", ((1, 1, "x 2"), (3, 1, "y"), (5, 1, "z"))), set()),
        (ChangeIndex("b", ((1, 1, "x 2"), (3, 1, "y"), (5, 1, "z"))), None),
        (ChangeIndex("0", ((1, 1, "x 2"), (3, 1, "y"), (5, 1, "z"))), None),
    ],
    ids=["a tile's stamp, and a new tile", "nothing", "the layer's stamp", "a lower stamp"],
)
def test_an_index_tells_of_changes(earlier: ChangeIndex, changed: set[tuple[int, int, int]] | None) -> None:
    now = ChangeIndex("a", ((1, 1, "x 2"), (3, 1, "y"), (5, 1, "z")))
    assert now.changed_since(earlier) == changed


def test_what_was_written_is_read_again() -> None:
    index = ChangeIndex("a", ((1, -1, "x"),))
    assert ChangeIndex.read(index.written()) == index
    its = ground(DEEP, Tile(-1, -2, 2))
    assert ChangedGround.read(its.written(), PYRAMID).cells == its.cells


def test_the_ground_is_all_above_and_below_its_tiles_and_nothing_beside() -> None:
    its = ground(Tile(-1, 2, 2))
    assert its.has(Tile(-2, 4, 4))
    assert its.has(Tile(-1, 2, 2))
    assert all(map(its.has, Tile(-1, 2, 2).children()))
    assert not its.has(Tile(-1, 6, 2))
    assert not its.has(Tile(-2, -4, 4))
    assert not its.has(Tile(0, 5, 1))


def walked_over(walk: Walk, its: ChangedGround) -> set[Tile]:
    found, coming = set[Tile](), list(walk.start_on(its))
    while coming:
        tile = coming.pop()
        found.add(tile)
        coming += filter(its.has, walk.below(tile))
    return found


def test_a_walk_on_a_ground_comes_to_its_tiles_and_those_above_them() -> None:
    assert walked_over(Walk(PYRAMID), ground(DEEP)) == {DEEP, DEEP.parent(), DEEP.ancestor(2)}
    assert Walk(PYRAMID).start_on(ground()) == ()


def test_land_that_lies_apart_is_where_an_endless_walk_starts() -> None:
    far = Tile.at(0, 400, 400)
    pyramid = Pyramid.endless(2, (Tile.at(-1, 0, 0),))
    assert Walk(pyramid).start_on(ground(far, pyramid=pyramid)) == (far.parent(),)


@pytest.mark.parametrize(
    ("share", "confirmed", "least"),
    [(0.02, 0, 0.02), (0.02, 1, 0.01), (0.02, 3, 0.0025), (1, 9, 1), (0, 4, 0), (0.5, 10_000, 0)],
)
def test_the_audit_becomes_smaller_as_the_index_was_right(share: float, confirmed: int, least: float) -> None:
    assert audited_share(share, confirmed) == pytest.approx(least, abs=1e-6)
