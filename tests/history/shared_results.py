"""The results that each of several workers records of one map: for its own tiles, and for shared ones."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.history.making import found
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from tileharvest.tiles.results import TileResult

# Of different strengths, so that it does not matter who comes first.
OUTCOMES = ["fail", "404", "ign", "add"]


def results_of(worker: int) -> list[TileResult]:
    random = Random(worker)
    own = [Tile(0, 2 * worker + 1, y) for y in range(-31, 32, 2)]
    shared = [Tile(0, -1, y) for y in range(-31, 32, 2)]
    results = [
        found(random.choice(OUTCOMES), tile, f"image {random.randrange(5)}".encode())
        for tile in [*own, *shared]
    ]
    random.shuffle(results)
    return results
