"""The page's projection against Overviewer's formulas, written down from fractions of the whole map."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from tileharvest.renderers.overviewer import projection_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

MODULE = "projection.js"
NORTHS = (0, 1, 2, 3)
TILE_SIZES = (384, 256, 512)


class Block(NamedTuple):
    x: int
    y: int
    z: int


class Layer(NamedTuple):
    """What Overviewer's page knows of a tileset."""

    north: int
    levels: int
    tile_size: int

    @property
    def per_pixel(self) -> Fraction:
        return Fraction(1, self.tile_size * 2**self.levels)

    @property
    def layout(self) -> dict[str, Any]:
        """What the page is told of it."""
        return {"projection": msgspec.to_builtins(projection_of(self.tile_size, self.north))}

    def on_map(self, block: Block) -> tuple[Fraction, Fraction]:
        """Where a block is drawn, as `fromWorldToLatLng` says: fractions of the map from left and top."""
        x, y, z = block
        x, z = {0: (x, z), 1: (-z + 15, x), 2: (-x + 15, -z + 15), 3: (z, -x + 15)}[self.north]
        pixel = self.per_pixel
        lng = Fraction(1, 2) - Fraction(1, 2 ** (self.levels + 1)) + 12 * x * pixel + 12 * z * pixel
        lat = Fraction(1, 2) - 6 * x * pixel + 6 * z * pixel + 12 * (256 - y) * pixel
        return lng + 12 * pixel, lat

    def in_world(self, lng: Fraction, lat: Fraction) -> dict[str, int]:
        """The block at height 64 there, as `fromLatLngToWorld` says."""
        lng -= Fraction(1, 2) - Fraction(1, 2 ** (self.levels + 1))
        lat -= Fraction(1, 2)
        x = math.floor((lng - 2 * lat) / (24 * self.per_pixel)) + 256 - 64
        z = math.floor((lng + 2 * lat) / (24 * self.per_pixel)) - (256 - 64)
        x, z = {0: (x, z), 1: (z, -x + 15), 2: (-x + 15, -z + 15), 3: (-z + 15, x)}[self.north]
        return {"x": x, "z": z}

    def in_grid(self, lng: Fraction, lat: Fraction) -> dict[str, float]:
        """Grid units count from the middle of the map, of which each half has 2^levels of them."""
        units = 2 ** (self.levels + 1)
        return {"x": float((lng - Fraction(1, 2)) * units), "y": -float((lat - Fraction(1, 2)) * units)}


def some_layers() -> list[Layer]:
    return [
        Layer(north, levels, size) for north in NORTHS for levels in (1, 7, 12, 17) for size in TILE_SIZES
    ]


def some_blocks() -> list[Block]:
    chance = random.Random(3)
    blocks = [Block(0, 64, 0), Block(15, 64, 15), Block(-1, 64, -1), Block(-220, 64, -89)]
    for reach in (20, 2_000, 1_000_000):
        for _ in range(20):
            x, z = (chance.randint(-reach, reach) for _ in "xz")
            blocks.append(Block(x, chance.choice([64, 64, 0, 255, 319, -64]), z))
    return blocks


def test_the_block_at_a_point_is_the_one_that_overviewer_names(call: Call) -> None:
    chance = random.Random(4)
    cases = []
    for layer in some_layers():
        for _ in range(60):
            # Odd numerators over a prime lie on no block's edge, where doubles and fractions may part.
            lng, lat = (Fraction(chance.randrange(1, 10_000_019), 10_000_019) for _ in "xy")
            cases.append((layer, lng, lat))
    found = call(MODULE, "blockAt", [[layer.in_grid(lng, lat), layer.layout] for layer, lng, lat in cases])
    assert found == [layer.in_world(lng, lat) for layer, lng, lat in cases]


def test_a_block_is_found_where_it_is_drawn(call: Call) -> None:
    cases = [(layer, block._replace(y=64)) for layer in some_layers() for block in some_blocks()]
    points = call(MODULE, "worldToGrid", [[block._asdict(), layer.layout] for layer, block in cases])
    found = call(
        MODULE, "blockAt", [[point, layer.layout] for (layer, _), point in zip(cases, points, strict=True)]
    )
    assert found == [{"x": block.x, "z": block.z} for _, block in cases]
    # And Overviewer's own page finds it there, too.
    assert found == [layer.in_world(*layer.on_map(block)) for layer, block in cases]


@pytest.mark.parametrize(
    ("x", "z", "file"),
    [
        (0, 0, "r.0.0.mca"),
        (511, 512, "r.0.1.mca"),
        (-1, 1024, "r.-1.2.mca"),
        (-512, -513, "r.-1.-2.mca"),
        (1_000_000, -1_000_000, "r.1953.-1954.mca"),
    ],
)
def test_a_block_lies_in_the_region_file_of_its_512_by_512_blocks(
    call: Call, x: int, z: int, file: str
) -> None:
    assert call(MODULE, "regionFile", [[x, z]]) == [file]
