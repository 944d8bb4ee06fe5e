"""Differences of two days, beside pictures that Pillow puts together, and lists that are read again."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Final

import pytest
from PIL import Image, ImageDraw

from tests.export.island import CHANGED, GONE, NEW, picture
from tests.export.watching import Count
from tests.viewer.building import FIRST, MAP, SECOND, SIZE, World, as_png
from tileharvest.export.difference import changed_pixels, write_difference, write_list
from tileharvest.export.excerpt import Excerpt, excerpt_of
from tileharvest.export.mosaic import sheet_of
from tileharvest.history.database import History
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

GREEN: Final = (0, 200, 60, 255)
RED: Final = (230, 30, 30, 255)


def between(history: History, first: date, last: date) -> Excerpt:
    return excerpt_of(history, MAP, first=str(first), last=str(last))


def made(world: World, excerpt: Excerpt, path: Path, zoom: int = 0) -> tuple[Image.Image, int]:
    """The picture, and how many of its tiles are not whole."""
    _, damaged = write_difference(sheet_of(excerpt, path, zoom, None), path, world.store, Count(), None)
    with Image.open(path) as opened:
        opened.load()
        return opened, damaged


def place(tile: Tile) -> tuple[int, int, int, int]:
    """Where a tile lies in the picture of the island."""
    left, top = (tile.column + 2) * SIZE, (tile.row + 2) * SIZE
    return left, top, left + SIZE, top + SIZE


def is_faded(found: Image.Image, before: Image.Image) -> bool:
    """Whether each pixel has a quarter of the colours, and half of the way to grey."""
    for x in range(found.width):
        for y in range(found.height):
            pixel, colour = found.getpixel((x, y)), before.getpixel((x, y))
            assert isinstance(pixel, tuple)
            assert isinstance(colour, tuple)
            grey = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
            pale = [128 + (grey + 0.25 * (channel - grey) - 128) / 2 for channel in colour[:3]]
            if pixel[3] != colour[3] or max(abs(a - b) for a, b in zip(pixel, pale, strict=False)) > 2:
                return False
    return True


def test_what_has_changed_has_its_colours_and_all_else_is_faded(
    world: World, history: History, tmp_path: Path
) -> None:
    found, damaged = made(world, between(history, FIRST, SECOND), tmp_path / "diff.png")
    before, now = picture(world, FIRST), picture(world, SECOND)
    assert damaged == 0
    assert found.size == now.size
    expected = {CHANGED: now.crop(place(CHANGED)), GONE: before.crop(place(GONE)), NEW: now.crop(place(NEW))}
    for tile, colour in ((GONE, RED), (NEW, GREEN)):
        ImageDraw.Draw(expected[tile]).rectangle((0, 0, SIZE - 1, SIZE - 1), outline=colour)
    for tile in (Tile.at(0, column, row) for column in range(-2, 2) for row in range(-2, 2)):
        part = found.crop(place(tile))
        if tile in expected:
            assert part.tobytes() == expected[tile].tobytes(), tile
        else:
            assert is_faded(part, now.crop(place(tile))), tile


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A layer in which a block is a pixel and a tile has 8 of them."""
    projection = Projection((2 / 8, 0, 0, 0), (0, 0, -2 / 8, 0))
    layer = Layer("flat", Pyramid(4), "png", tile_size=(8, 8), projection=projection)
    world = World(tmp_path_factory.mktemp("flat"))
    tiles = [Tile.at(0, -2, 1), Tile.at(0, 0, 0)]
    for day, number in ((FIRST, 0), (SECOND, 1)):
        image = as_png(Image.new("RGBA", (8, 8), (number, 0, 0, 255)))
        world.harvest(day, dict.fromkeys(tiles[: 2 - number], image), layer="flat", described=layer)
    return world


def test_lists_name_the_blocks_of_each_tile(flat: World, tmp_path: Path) -> None:
    """The tile of column -2 and row 1 has the blocks -16 to -9 and 8 to 15."""
    with History.open_read_only(f"sqlite:///{flat.history_file}") as history:
        excerpt = between(history, FIRST, SECOND)
        for ending in ("json", "csv"):
            size = write_list(excerpt, tmp_path / f"diff.{ending}", Count())
            assert size == (tmp_path / f"diff.{ending}").stat().st_size
    (row,) = json.loads((tmp_path / "diff.json").read_text("utf-8"))
    assert {key: row[key] for key in ("tile", "change", "west", "north", "east", "south")} == {
        "tile": "0_-3_-3",
        "change": "changed",
        "west": -16,
        "north": 8,
        "east": -9,
        "south": 15,
    }
    with (tmp_path / "diff.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [{key: str(value) for key, value in row.items()}]


def test_changed_pixels_are_counted_with_the_box_around_them(tmp_path: Path) -> None:
    """Two of a tile left of the middle, in its colours, and one of a new tile right of it."""
    world = World(tmp_path)
    before = Image.new("RGBA", (SIZE, SIZE), RED)
    now, new = before.copy(), Image.new("RGBA", (SIZE, SIZE))
    for image, place in ((now, (1, 2)), (now, (3, 2)), (new, (5, 6))):
        image.putpixel(place, GREEN)
    world.harvest(FIRST, {Tile.at(0, -1, 0): as_png(before)})
    world.harvest(SECOND, {Tile.at(0, -1, 0): as_png(now), Tile.at(0, 0, 0): as_png(new)})
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        found = changed_pixels(between(history, FIRST, SECOND), world.store)
        assert found == (3, (1 - SIZE, 2, 6, 7))
        assert changed_pixels(between(history, SECOND, SECOND), world.store) == (0, None)
