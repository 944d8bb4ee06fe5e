"""Pictures of some ground, against the tiles that lie there."""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.viewer.building import DAY_LAYER, FIRST, GREEN, MAP, RED, SECOND, World, as_png, picture, square
from tileharvest.errors import StoreError
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.pictures.composer import Composer, PastLayer
from tileharvest.pictures.scenes import HALF, MOST_ACROSS, Scenes
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.ground import Ground
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

A, B = Tile(0, 1, 1), Tile(0, 3, 1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@contextmanager
def scenes(world: World) -> Iterator[Scenes]:
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        outline = map_outline(history, MAP)
        yield Scenes(world.store, Composer(world.store), history, outline, outline.layers[0])


def test_a_rectangle_shows_its_part_of_each_tile_as_it_was_on_the_day(world: World) -> None:
    world.harvest(FIRST, {A: picture(RED), B: picture(RED)})
    world.harvest(SECOND, {B: picture(GREEN)})
    with scenes(world) as drawn:
        # Tiles of 8 pixels: two of the left tile, and three of the right one.
        image = drawn.mosaic(Ground(1.5, 0.5, 2.75, 2), 0, SECOND)
        assert (image.size, drawn.mosaic(Ground(1.5, 0.5, 2.75, 2), 0, FIRST).getcolors()) == (
            (5, 6),
            [(30, RED[:3])],
        )
    assert [image.getpixel((column, 3)) for column in range(5)] == [RED[:3]] * 2 + [GREEN[:3]] * 3


def test_a_large_rectangle_is_shown_at_a_coarser_zoom_that_is_composed(world: World) -> None:
    world.harvest(FIRST, dict.fromkeys(square(0, 8), picture(GREEN)))
    ground = Ground.of(TileRange(0, 1, 15, 1, 15))
    with scenes(world) as drawn:
        zoom = drawn.zoom(ground, FIRST)
        assert zoom == -1
        assert drawn.mosaic(ground, zoom, FIRST).getcolors() == [((8 * MOST_ACROSS) ** 2, GREEN[:3])]


@pytest.mark.parametrize(("depth", "colours"), [(1, {RED, GREEN, (0, 0, 0, 0)}), (2, None)])
def test_pixels_of_a_canvas_are_not_blended(
    world: World, depth: int, colours: set[tuple[int, ...]] | None
) -> None:
    """Each fourth pixel of its palette is transparent. Other maps blend the colours of their pixels."""
    image = Image.new("RGBA", (8, 8), RED)
    for place in range(64):
        if place % 4 == 0 or place % 3 == 0:
            image.putpixel((place % 8, place // 8), GREEN if place % 4 else (0, 0, 0, 0))
    layer = Layer(DAY_LAYER, Pyramid(depth), "png", tile_size=(8, 8))
    world.harvest(FIRST, dict.fromkeys(square(0, 8), as_png(image)), described=layer)
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        outline, composer, above = map_outline(history, MAP), Composer(world.store), Tile(-2, 4, 4)
        past = PastLayer.of(history, outline, outline.layers[0], FIRST, -2)
        assert past is not None
        found, _ = composer.image(past, composer.parts(past, TileRange.of(above))[above])
    assert found is not None
    seen = {colour for _, colour in found.getcolors() or ()}
    assert seen <= colours if colours else not seen <= {RED, GREEN, (0, 0, 0, 0)}


def test_two_days_are_cropped_to_what_differs(world: World) -> None:
    image = Image.new("RGBA", (256, 256), RED)
    image.paste(GREEN, (100, 100, 110, 110))
    marked = io.BytesIO()
    image.save(marked, "PNG")
    layer = Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(256, 256))
    world.harvest(FIRST, dict.fromkeys(square(0, 4), picture(RED, 256)), described=layer)
    world.harvest(SECOND, {A: marked.getvalue()}, described=layer)
    with scenes(world) as drawn:
        body = drawn.before_and_after(Ground.of(TileRange(0, 1, 7, 1, 7)), 0, FIRST, SECOND)
    assert body is not None
    both = Image.open(io.BytesIO(body)).convert("RGB")
    # The crop is square, so each half is; and the mark is seen in the right one alone.
    assert both.size == (2 * HALF + 8, HALF)
    greens = [x for x in range(both.width) if any(_is_green(both, x, y) for y in range(0, both.height, 4))]
    assert min(greens) > HALF + 8


def test_days_that_look_the_same_have_no_picture(world: World) -> None:
    world.harvest(FIRST, {A: picture(RED)})
    world.harvest(SECOND, {A: picture((254, 0, 1, 255))})
    with scenes(world) as drawn:
        assert drawn.before_and_after(Ground(0, 0, 2, 2), 0, FIRST, SECOND) is None


def test_an_image_that_is_missing_is_not_shown_as_empty_ground(world: World) -> None:
    world.harvest(FIRST, {A: picture(RED)})
    for file in (world.data / "tiles").rglob("*.png"):
        file.unlink()
    with scenes(world) as drawn, pytest.raises(StoreError):
        drawn.mosaic(Ground(0, 0, 2, 2), 0, FIRST)


def _is_green(image: Image.Image, x: int, y: int) -> bool:
    red, green, _ = image.getpixel((x, y))  # type: ignore[misc]
    return bool(green > 200 and red < 50)
