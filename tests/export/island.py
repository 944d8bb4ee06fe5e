"""A small island for exports: what is to be seen on it on each day, put together by Pillow alone."""

import random
from datetime import date
from pathlib import Path
from typing import Final

from PIL import Image

from tests.viewer.building import FIRST, SECOND, SIZE, THIRD, World, as_png, square
from tileharvest.tiles.grid import Tile

COLUMNS: Final = range(-2, 2)
ROWS: Final = range(-2, 2)
CHANGED: Final = Tile(0, 1, 1)
GONE: Final = Tile(0, -1, 1)
NEW: Final = Tile(0, 3, 3)
UNREADABLE: Final = Tile(0, 3, -3)
"""Its image of the third day is missing in the store."""


def island(folder: Path) -> World:
    """4 x 4 tiles of the deepest zoom around the origin, one of them from the second day on; none coarser."""
    world = World(folder)
    tiles = [tile for tile in square(0, 4, -2, -2) if tile != NEW]
    world.harvest(FIRST, {tile: noise(number) for number, tile in enumerate(tiles)})
    world.harvest(SECOND, {CHANGED: noise(100), NEW: noise(101), GONE: None})
    lost = noise(102)
    world.harvest(THIRD, {UNREADABLE: lost})
    shown = world.shown(UNREADABLE, THIRD)
    assert shown is not None
    assert shown.image is not None
    (world.data / "tiles" / shown.image[:2] / shown.image).unlink()
    return world


def noise(seed: int) -> bytes:
    """An image of random pixels; some are transparent."""
    chance = random.Random(seed)
    return as_png(Image.frombytes("RGBA", (SIZE, SIZE), chance.randbytes(4 * SIZE * SIZE)))


def picture(world: World, day: date) -> Image.Image:
    """The whole island at the deepest zoom."""
    canvas = Image.new("RGBA", (4 * SIZE, 4 * SIZE))
    for column in COLUMNS:
        for row in ROWS:
            tile = Tile(0, 2 * column + 1, -2 * row - 1)
            shown = world.shown(tile, day)
            if shown is None or shown.image is None:
                continue
            file = world.data / "tiles" / shown.image[:2] / shown.image
            if file.exists():
                canvas.paste(Image.open(file).convert("RGBA"), ((column + 2) * SIZE, (row + 2) * SIZE))
    return canvas
