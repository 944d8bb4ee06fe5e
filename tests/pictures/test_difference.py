"""The picture of a change, opened as whoever gets it does."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from tests.viewer.building import (
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    RED,
    SECOND,
    SIZE,
    World,
    picture,
    square,
)
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.notices.notice import changed_places
from tileharvest.pictures.scenes import change_picture
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


GROUND = square(0, 8)
LOOKED_AT = Tile(0, 7, 5)
FRAME = (255, 0, 200)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.harvest(FIRST, dict.fromkeys(GROUND, picture(RED)))
    return world


def picture_after(world: World, found: Mapping[Tile, bytes | None]) -> Image.Image | None:
    """The picture of the second day, on which this was found."""
    world.harvest(SECOND, found, described=Layer(DAY_LAYER, Pyramid(10), "png", tile_size=(SIZE, SIZE)))
    return picture_now(world)


def picture_now(world: World) -> Image.Image | None:
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        outline = map_outline(history, MAP)
        views = [(place.layer, place.views[0]) for place in changed_places(history, outline, SECOND)]
        body = change_picture(history, world.store, outline, views, SECOND)
    return None if body is None else Image.open(io.BytesIO(body)).convert("RGB")


def halves(whole: Image.Image) -> tuple[Image.Image, Image.Image]:
    """Before and after, without the headings."""
    side = (whole.width - 8) // 2
    top = whole.height - side
    return (
        whole.crop((0, top, side, whole.height)),
        whole.crop((whole.width - side, top, whole.width, whole.height)),
    )


def share(image: Image.Image, colour: tuple[int, ...]) -> float:
    """The share of pixels of nearly this colour."""
    seen = image.getcolors(image.width * image.height) or []
    near = sum(count for count, one in seen if is_near(one, colour))
    return near / (image.width * image.height)


def is_near(one: Any, other: tuple[int, ...]) -> bool:
    return max(abs(left - right) for left, right in zip(one, other, strict=False)) <= 12


def test_before_and_after_differ_where_the_tile_does_and_nowhere_else(world: World) -> None:
    whole = picture_after(world, {LOOKED_AT: picture(GREEN)})
    assert whole is not None
    assert whole.width <= 1200
    before, after = halves(whole)
    # A quarter of the view of 2 x 2 tiles; the frame lies outside of it, in both.
    assert (share(before, GREEN), share(before, RED)) == (0, pytest.approx(1, abs=0.05))
    assert share(after, GREEN) == pytest.approx(0.25, abs=0.01)
    assert share(after, RED) == pytest.approx(0.75, abs=0.05)
    assert share(before, FRAME) == pytest.approx(share(after, FRAME), abs=0.001) != 0


def test_what_is_gone_is_left_blank_and_a_view_that_cannot_be_read_is_left_out(world: World) -> None:
    whole = picture_after(world, {LOOKED_AT: None})
    assert whole is not None
    assert share(halves(whole)[1], (26, 26, 26)) == pytest.approx(0.25, abs=0.01)
    shutil.rmtree(world.data / "tiles")
    assert picture_now(world) is None
