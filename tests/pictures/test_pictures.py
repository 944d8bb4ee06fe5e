"""Pictures of some ground, of a change, and the story of some pixels, against the tiles that lie there."""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from pathlib import Path
from random import Random

import pytest
from PIL import Image, ImageChops, ImageDraw

from tests.viewer.building import DAY_LAYER, FIRST, GREEN, MAP, RED, SECOND, World, as_png, picture, square
from tileharvest.errors import StoreError
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.notices.notice import changed_places
from tileharvest.pictures.composer import Composer, PastLayer
from tileharvest.pictures.pixel_story import Chapter, PixelStory
from tileharvest.pictures.pixels import background
from tileharvest.pictures.scenes import GAP, HALF, HEADING, MOST_ACROSS, Scenes, change_picture
from tileharvest.renderers.overviewer import projection_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

LEFT, RIGHT = Tile(0, 1, 1), Tile(0, 3, 1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@contextmanager
def scenes(world: World) -> Iterator[Scenes]:
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        outline = map_outline(history, MAP)
        yield Scenes(world.store, Composer(world.store), history, outline, outline.layers[0])


def test_a_large_rectangle_is_shown_at_a_coarser_zoom_that_is_composed(world: World) -> None:
    world.harvest(FIRST, dict.fromkeys(square(0, 8), picture(GREEN)))
    ground = Ground.of(TileRange(0, 1, 15, 1, 15))
    with scenes(world) as drawn:
        zoom = drawn.zoom(ground, FIRST)
        assert zoom == -1
        assert drawn.mosaic(ground, zoom, FIRST).getcolors() == [((8 * MOST_ACROSS) ** 2, GREEN[:3])]


@pytest.mark.parametrize("depth", [1, 2])
def test_pixels_of_a_canvas_are_not_blended_and_those_of_other_maps_are(world: World, depth: int) -> None:
    """Each fourth pixel is transparent."""
    image = Image.new("RGBA", (8, 8), RED)
    for place in range(64):
        if place % 4 == 0 or place % 3 == 0:
            image.putpixel((place % 8, place // 8), GREEN if place % 4 else (0, 0, 0, 0))
    layer = Layer(DAY_LAYER, Pyramid(depth), "png", tile_size=(8, 8))
    world.harvest(FIRST, dict.fromkeys(square(0, 8), as_png(image)), described=layer)
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        outline, composer, above = map_outline(history, MAP), Composer(world.store), Tile(-2, 4, 4)
        past = PastLayer.of(history, outline, outline.layers[0], FIRST, -2)
        assert past is not None
        found, _ = composer.image(past, composer.parts(past, TileRange.of(above))[above])
    assert found is not None
    seen = {colour for _, colour in found.getcolors() or ()}
    assert (seen <= {RED, GREEN, (0, 0, 0, 0)}) == (depth == 1)


def test_two_days_are_cropped_to_what_differs(world: World) -> None:
    image = Image.new("RGBA", (256, 256), RED)
    image.paste(GREEN, (100, 100, 110, 110))
    layer = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(256, 256))
    world.harvest(FIRST, dict.fromkeys(square(0, 4), picture(RED, 256)), described=layer)
    world.harvest(SECOND, {LEFT: as_png(image)}, described=layer)
    ground = Ground.of(TileRange(0, 1, 7, 1, 7))
    with scenes(world) as drawn:
        body = drawn.before_and_after(ground, 0, FIRST, SECOND)
        assert drawn.before_and_after(ground, 0, SECOND, SECOND) is None
    assert body is not None
    both = Image.open(io.BytesIO(body)).convert("RGB")
    # The crop is square, so each half is; and the mark is seen in the right one alone.
    assert both.size == (2 * HALF + GAP, HALF)
    assert share(both.crop((0, 0, HALF, HALF)), GREEN) == 0
    assert share(both.crop((HALF + GAP, 0, *both.size)), GREEN) > 0.003


def test_an_image_that_is_missing_is_not_shown_as_empty_ground(world: World) -> None:
    world.harvest(FIRST, {LEFT: picture(RED)})
    shutil.rmtree(world.data / "tiles")
    with scenes(world) as drawn, pytest.raises(StoreError):
        drawn.mosaic(Ground(0, 0, 2, 2), 0, FIRST)


def share(image: Image.Image, colour: tuple[int, ...]) -> float:
    """The share of pixels of nearly this colour."""
    apart = ImageChops.difference(image, Image.new("RGB", image.size, colour[:3])).split()
    return sum(reduce(ImageChops.lighter, apart).histogram()[:13]) / (image.width * image.height)


def change_of(world: World) -> tuple[Image.Image, Image.Image] | None:
    """Before and after, in the picture of the second day's change."""
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        outline = map_outline(history, MAP)
        views = [(place.layer, place.views[0]) for place in changed_places(history, outline, SECOND)]
        body = change_picture(history, world.store, outline, views, SECOND)
    if body is None:
        return None
    whole = Image.open(io.BytesIO(body)).convert("RGB")
    side = (whole.width - GAP) // 2
    assert (whole.width <= 1200, whole.height) == (True, side + HEADING)
    return whole.crop((0, HEADING, side, whole.height)), whole.crop((side + GAP, HEADING, *whole.size))


@pytest.mark.parametrize(("body", "colour"), [(picture(GREEN), GREEN), (None, (26, 26, 26))])
def test_the_picture_of_a_change_has_a_frame_around_what_differs(
    world: World, body: bytes | None, colour: tuple[int, ...]
) -> None:
    """It is a quarter of a view of 2 x 2 tiles. What is gone is left blank."""
    world.harvest(FIRST, dict.fromkeys(square(0, 8), picture(RED)))
    world.harvest(SECOND, {Tile(0, 7, 5): body})
    halves = change_of(world)
    assert halves is not None
    assert [share(half, colour) for half in halves] == pytest.approx([0, 0.25], abs=0.01)
    before, after = (share(half, (255, 0, 200)) for half in halves)
    assert before == pytest.approx(after, abs=0.001) != 0
    shutil.rmtree(world.data / "tiles")
    assert change_of(world) is None


def test_the_colour_behind_tiles_is_the_maps_own_if_it_is_one() -> None:
    colours = [background(css) for css in ("#123456", "#12345680", None, "nice")]
    assert colours == [(18, 52, 86)] * 2 + [(26, 26, 26)] * 2


# ----------------------------------------------------------------------------- the story of some pixels

SIDE = 64
UNIT = 2 / SIDE
"""A pixel in grid units."""
LAYER = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(SIDE, SIDE), projection=projection_of(SIDE, 0))


def textured(seed: int, step: int = 1) -> Image.Image:
    """Squares of random colours, `step` pixels wide."""
    edge = SIDE // step
    drawn = Image.frombytes("RGB", (edge, edge), Random(seed).randbytes(3 * edge * edge))
    return drawn.resize((SIDE, SIDE), Image.Resampling.NEAREST).convert("RGBA")


def marked(image: Image.Image, *box: int) -> Image.Image:
    """The image with a white rectangle, edges included."""
    image = image.copy()
    ImageDraw.Draw(image).rectangle(box, fill="white")
    return image


def ground(left: int, top: int, right: int, bottom: int) -> Ground:
    """Of pixels, counted from the upper left corner of the left tile."""
    return Ground(left * UNIT, 2 - bottom * UNIT, right * UNIT, 2 - top * UNIT)


def harvest(
    world: World, *versions: dict[Tile, bytes], described: Layer = LAYER, extension: str = "png"
) -> None:
    for number, found in enumerate(versions):
        world.harvest(FIRST + timedelta(days=number), found, described=described, extension=extension)


def chapters(world: World, where: Ground) -> list[Chapter]:
    with History.open_read_only(f"sqlite:///{world.database}") as history:
        story = PixelStory(world.store, map_outline(history, MAP).layers[0], 0, where)
        return list(story.chapters(story.days(history)))


def days(world: World, where: Ground) -> list[int]:
    return [(chapter.day - FIRST).days for chapter in chapters(world, where)]


def test_of_a_canvas_the_story_of_a_single_pixel_is_told(world: World) -> None:
    first, canvas = textured(1), replace(LAYER, pyramid=Pyramid(1))
    versions = (first, marked(first, 9, 9, 9, 9), marked(first, 8, 9, 9, 9))
    harvest(world, *({LEFT: as_png(image)} for image in versions), described=canvas)
    assert days(world, ground(9, 9, 10, 10)) == [0, 1]
    assert days(world, ground(8, 9, 9, 10)) == [0, 2]


def test_a_rectangle_over_two_tiles_changes_with_either(world: World) -> None:
    left, right = textured(1), textured(2)
    harvest(
        world,
        {LEFT: as_png(left), RIGHT: as_png(right)},
        {RIGHT: as_png(marked(right, 0, 0, 3, 3))},
        {LEFT: as_png(marked(left, 60, 60, 63, 63))},
    )
    assert days(world, ground(58, 0, 70, 64)) == [0, 1, 2]
    assert days(world, ground(48, 0, 64, 64)) == [0, 2]


def test_the_noise_of_jpeg_is_no_change_and_a_mark_is(world: World) -> None:
    bodies, drawn = [], textured(1, 4)
    for image, quality in ((drawn, 95), (drawn, 85), (drawn, 75), (marked(drawn, 20, 20, 27, 27), 75)):
        body = io.BytesIO()
        image.convert("RGB").save(body, "JPEG", quality=quality)
        bodies.append({LEFT: body.getvalue()})
    harvest(world, *bodies, extension="jpg")
    assert days(world, ground(5, 3, 60, 61)) == [0, 3]


def test_an_image_that_cannot_be_read_is_told_and_the_story_goes_on(world: World) -> None:
    harvest(world, *({LEFT: as_png(textured(number))} for number in range(3)))
    damaged = world.versions(LEFT)[1].image
    assert damaged is not None
    for file in world.data.rglob(damaged):
        file.write_bytes(b"no image")
    assert [chapter.is_damaged for chapter in chapters(world, ground(0, 0, 20, 20))] == [False, True, False]
