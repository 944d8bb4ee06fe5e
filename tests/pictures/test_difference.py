"""The picture of a change, opened as whoever gets it does."""

from __future__ import annotations

import io
from random import Random
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    RED,
    SECOND,
    SIZE,
    World,
    as_png,
    picture,
    square,
)
from tileharvest.history.database import History
from tileharvest.history.outlines import map_outline
from tileharvest.notices.places import changed_places
from tileharvest.pictures.difference import as_small_png, change_picture
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tileharvest.tiles.layers import Size

GROUND = square(0, 8)
LOOKED_AT = Tile(0, 7, 5)
FRAME = (255, 0, 200)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.harvest(FIRST, dict.fromkeys(GROUND, picture(RED)))
    return world


def picture_after(
    world: World, found: Mapping[Tile, bytes | None], size: Size = (SIZE, SIZE)
) -> Image.Image | None:
    """The picture of the second day, on which this was found."""
    world.harvest(SECOND, found, described=Layer(DAY_LAYER, Pyramid(10), "png", tile_size=size))
    with History.open_read_only(f"sqlite:///{world.history_file}") as history:
        places = changed_places(history, map_outline(history, MAP), SECOND)
        body = change_picture(
            history,
            world.store,
            [(place.layer_id, place.view, place.tile_size) for place in places],
            SECOND,
            FIRST,
        )
    return None if body is None else Image.open(io.BytesIO(body)).convert("RGB")


def halves(whole: Image.Image) -> tuple[Image.Image, Image.Image]:
    """Before and after, without the headings."""
    side = (whole.width - 8) // 2
    top = whole.height - side
    return (
        whole.crop((0, top, side, whole.height)),
        whole.crop((whole.width - side, top, whole.width, whole.height)),
    )


def test_before_and_after_differ_where_the_tile_does_and_nowhere_else(world: World) -> None:
    whole = picture_after(world, {LOOKED_AT: picture(GREEN)})
    assert whole is not None
    assert whole.width <= 1200
    before, after = halves(whole)
    colours = [dict(reversed(one) for one in half.getcolors() or ()) for half in (before, after)]
    framed = colours[0].pop(FRAME)
    # A quarter of the view of 2 x 2 tiles; the frame lies outside of it.
    quarter = before.width * before.height // 4
    assert colours[0] == {RED[:3]: 4 * quarter - framed}
    assert colours[1] == {RED[:3]: 3 * quarter - framed, GREEN[:3]: quarter, FRAME: framed}
    assert framed > 0


def test_tiles_lie_as_on_the_map(world: World) -> None:
    """The grid's y grows upwards, a picture's downwards."""
    corners = {Tile(0, 5, 5): BLUE, Tile(0, 7, 5): GREEN, Tile(0, 5, 7): (9, 9, 9, 255), Tile(0, 7, 7): RED}
    whole = picture_after(world, {tile: picture(colour) for tile, colour in corners.items()})
    assert whole is not None
    _, after = halves(whole)
    quarter = after.width // 4
    seen = [after.getpixel((x, y)) for y in (quarter, 3 * quarter) for x in (quarter, 3 * quarter)]
    assert seen == [(9, 9, 9), RED[:3], BLUE[:3], GREEN[:3]]


def test_of_what_nobody_can_see_there_is_no_picture(world: World) -> None:
    same = Image.new("RGBA", (SIZE, SIZE), RED)
    same.info["comment"] = "other bytes"
    palette = as_png(same.convert("RGB"))
    assert palette != picture(RED)
    assert picture_after(world, {LOOKED_AT: palette}) is None


def test_what_is_gone_and_what_cannot_be_read_is_left_blank(world: World) -> None:
    whole = picture_after(world, {LOOKED_AT: None, Tile(0, 5, 5): b"no image"})
    assert whole is not None
    _, after = halves(whole)
    assert {(26, 26, 26), RED[:3], FRAME} == {colour for _, colour in after.getcolors() or ()}


def test_a_picture_of_noise_is_made_small_enough() -> None:
    noise = Image.frombytes("RGB", (1184, 620), Random(1).randbytes(3 * 1184 * 620))
    body = as_small_png(noise)
    assert len(body) < 1_000_000
    with Image.open(io.BytesIO(body)) as opened:
        assert opened.width in {1184, 592}
