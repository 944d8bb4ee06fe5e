"""The story of some pixels: told where they change, and not where only bytes or other pixels do."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from random import Random

import pytest
from PIL import Image, ImageDraw

from tests.viewer.building import DAY_LAYER, MAP, World, as_png
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.pictures.pixel_story import Chapter, PixelStory
from tileharvest.renderers.overviewer import projection_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.ground import Ground
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

DAY = date(2021, 2, 13)
SIZE = 64
UNIT = 2 / SIZE
"""A pixel in grid units."""
LEFT, RIGHT = Tile(0, 1, 1), Tile(0, 3, 1)
LAYER = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(SIZE, SIZE), projection=projection_of(SIZE, 0))


def textured(seed: int, size: int = SIZE) -> Image.Image:
    chance = Random(seed)
    return Image.frombytes("RGB", (size, size), chance.randbytes(3 * size * size)).convert("RGBA")


def with_mark(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """The image with a white rectangle, edges included."""
    marked = image.copy()
    ImageDraw.Draw(marked).rectangle(box, fill="white")
    return marked


def as_jpeg(image: Image.Image, quality: int = 85) -> bytes:
    body = io.BytesIO()
    image.convert("RGB").save(body, "JPEG", quality=quality)
    return body.getvalue()


def ground(left: int, top: int, right: int, bottom: int) -> Ground:
    """Of pixels, counted from the upper left corner of the left tile."""
    return Ground(left * UNIT, 2 - bottom * UNIT, right * UNIT, 2 - top * UNIT)


def day(number: int) -> date:
    return DAY + timedelta(days=number)


def harvest(world: World, *versions: dict[Tile, bytes | None], extension: str = "png") -> None:
    for number, found in enumerate(versions):
        world.harvest(day(number), found, described=LAYER, extension=extension)


def told(world: World, where: Ground) -> list[Chapter]:
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        layer = map_outline(history, MAP).layers[0]
        story = PixelStory(world.store, layer, 0, where)
        return list(story.chapters(story.days(history)))


def days(chapters: Sequence[Chapter]) -> list[date]:
    return [chapter.day for chapter in chapters]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_of_a_canvas_the_story_of_a_single_pixel_is_told(world: World) -> None:
    first, canvas = textured(1), replace(LAYER, pyramid=Pyramid(1))
    for number, image in enumerate((first, with_mark(first, (9, 9, 9, 9)), with_mark(first, (8, 9, 9, 9)))):
        world.harvest(day(number), {LEFT: as_png(image)}, described=canvas)
    assert days(told(world, ground(9, 9, 10, 10))) == [day(0), day(1)]
    assert days(told(world, ground(8, 9, 9, 10))) == [day(0), day(2)]


def test_a_rectangle_over_two_tiles_changes_with_either(world: World) -> None:
    left, right = textured(1), textured(2)
    harvest(
        world,
        {LEFT: as_png(left), RIGHT: as_png(right)},
        {RIGHT: as_png(with_mark(right, (0, 0, 3, 3)))},
        {LEFT: as_png(with_mark(left, (60, 60, 63, 63)))},
    )
    assert days(told(world, ground(58, 0, 70, 64))) == [day(0), day(1), day(2)]
    assert days(told(world, ground(48, 0, 64, 64))) == [day(0), day(2)]


def test_the_noise_of_jpeg_is_no_change_and_a_mark_is(world: World, shared_maps: Path) -> None:
    drawn = published_tile(shared_maps)
    noise = [as_jpeg(drawn, quality) for quality in (95, 85, 75)]
    versions = (*noise, as_jpeg(with_mark(drawn, (20, 20, 27, 27)), 75))
    harvest(world, *({LEFT: body} for body in versions), extension="jpg")
    assert days(told(world, ground(5, 3, 60, 61))) == [day(0), day(3)]


def test_an_image_that_cannot_be_read_is_told_and_the_story_goes_on(world: World) -> None:
    bodies = [as_png(textured(number)) for number in range(3)]
    harvest(world, *({LEFT: body} for body in bodies))
    damaged = world.versions(LEFT)[1].image
    assert damaged is not None
    for file in world.data.rglob(damaged):
        file.write_bytes(b"no image")
    assert [chapter.is_damaged for chapter in told(world, ground(0, 0, 20, 20))] == [False, True, False]


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (ground(0, 0, 7, 30), "it has 7 x 30 pixels, and must have 8 along each edge"),
        (ground(0, 0, 4 * SIZE + 1, 4 * SIZE), "it lies on 20 tiles, and 16 are the most"),
    ],
)
def test_a_rectangle_of_another_size_is_refused(world: World, where: Ground, reason: str) -> None:
    harvest(world, {LEFT: as_png(textured(1))})
    with pytest.raises(ValueError, match=reason):
        told(world, where)


def published_tile(shared_maps: Path) -> Image.Image:
    """64 x 64 pixels of land."""
    versions = json.loads((shared_maps / "antworld" / "versions.json").read_text(encoding="utf-8"))
    files = versions["versions"][0]["files"]
    blobs = [shared_maps / "antworld" / "blobs" / sha1 for name, (sha1, _) in files.items() if "png" in name]
    largest = max(blobs, key=lambda blob: blob.stat().st_size)
    return Image.open(largest).convert("RGB").crop((160, 160, 160 + SIZE, 160 + SIZE))
