"""A small island for exports, what is to be seen on it by Pillow alone, and a disk without room."""

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Final

import pytest
from PIL import Image

from tests.viewer.building import FIRST, SECOND, SIZE, THIRD, World, as_png, square
from tileharvest.history.database import History
from tileharvest.tiles.grid import Tile

CHANGED: Final = Tile(0, 1, 1)
GONE: Final = Tile(0, -1, 1)
NEW: Final = Tile(0, 3, 3)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """4 x 4 tiles of the deepest zoom around the origin, one from the second day on. The store lacks an image
    of the third day. Read only."""
    world = World(tmp_path_factory.mktemp("island"))
    tiles = [tile for tile in square(0, 4, -2, -2) if tile != NEW]
    world.harvest(FIRST, {tile: noise(number) for number, tile in enumerate(tiles)})
    world.harvest(SECOND, {CHANGED: noise(100), NEW: noise(101), GONE: None})
    world.harvest(THIRD, {Tile(0, 3, -3): noise(102)})
    lost = world.shown(Tile(0, 3, -3), THIRD)
    assert lost is not None
    next(world.data.rglob(str(lost.image))).unlink()
    return world


@pytest.fixture(scope="session")
def history(world: World) -> Iterator[History]:
    with History.open_read_only(f"sqlite:///{world.database}") as opened:
        yield opened


def noise(seed: int) -> bytes:
    """An image of random pixels; some are transparent."""
    chance = random.Random(seed)
    return as_png(Image.frombytes("RGBA", (SIZE, SIZE), chance.randbytes(4 * SIZE * SIZE)))


def picture(world: World, day: date) -> Image.Image:
    """The whole island at the deepest zoom."""
    canvas = Image.new("RGBA", (4 * SIZE, 4 * SIZE))
    for column in range(4):
        for row in range(4):
            shown = world.shown(Tile.at(0, column - 2, row - 2), day)
            for file in world.data.rglob(str(shown and shown.image)):
                canvas.paste(Image.open(file).convert("RGBA"), (column * SIZE, row * SIZE))
    return canvas


class Count:
    """How many parts of an export were expected, and how many are done."""

    expected = done = 0
    note = ""

    def expects(self, parts: int) -> None:
        self.expected = parts

    def passed(self, parts: int = 1) -> None:
        self.done += parts


@contextmanager
def most_bytes_of_a_file(most: int | None) -> Iterator[None]:
    """As on a disk with so much room, if any number is given: the system refuses what goes beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most or before[0], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
