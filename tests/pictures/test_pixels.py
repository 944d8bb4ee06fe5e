"""Pictures of images that hold more than a picture."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from tests.viewer.building import as_png, picture
from tileharvest.pictures.pixels import UNREADABLE, background, picture_of

LIGHT = (255, 0, 0, 255)
GROUND = (0, 90, 0, 255)
EDGE = (0, 0, 255, 255)


def lowres(side: int = 10) -> bytes:
    """As BlueMap's `LowresTile` lays it out: one column and one row more, and as much again below."""
    image = Image.new("RGBA", (side + 1, 2 * (side + 1)), LIGHT)
    image.paste(EDGE, (0, 0, side + 1, side + 1))
    image.paste(GROUND, (0, 0, side, side))
    return as_png(image)


def test_of_a_lowres_image_the_upper_part_is_the_picture() -> None:
    seen = Image.open(io.BytesIO(picture_of(lowres())))
    assert seen.size == (10, 10)
    assert seen.convert("RGBA").getcolors() == [(100, GROUND)]


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_the_picture_of_any_other_image_is_its_bytes(form: str) -> None:
    for size in ((8, 8), (8, 9), (16, 8)):
        body = io.BytesIO()
        Image.new("RGB", size).save(body, form)
        assert picture_of(body.getvalue()) == body.getvalue()


def test_what_is_no_image_is_not_opened_unless_it_looks_like_a_lowres_one() -> None:
    for other in (b"", b"abc", picture()[:30]):
        assert picture_of(other) == other
    with pytest.raises(UNREADABLE):
        picture_of(lowres()[:60])


@pytest.mark.parametrize(
    ("css", "colour"),
    [("#123456", (18, 52, 86)), (None, (26, 26, 26)), ("nice", (26, 26, 26)), ("#12345680", (18, 52, 86))],
)
def test_the_colour_behind_tiles_is_the_maps_own_if_it_is_one(
    css: str | None, colour: tuple[int, int, int]
) -> None:
    assert background(css) == colour
