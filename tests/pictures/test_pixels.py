"""Pictures of images that hold more than a picture."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image, ImageChops, ImageStat

from tests.servers.published import published
from tests.viewer.building import as_png, picture
from tileharvest.pictures.pixels import UNREADABLE, background, decoded, picture_of

if TYPE_CHECKING:
    from pathlib import Path

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


def test_it_is_composed_of_and_compared_by_its_picture() -> None:
    assert decoded(lowres(), (10, 10)).getcolors() == [(100, GROUND)]
    assert decoded(lowres(), (5, 5)).getcolors() == [(25, GROUND)]


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


def test_real_pictures_of_children_are_what_their_parents_show(shared_maps: Path, tmp_path: Path) -> None:
    """A parent's pixel is the mean of 5 x 5. Light and heights below them would be far off."""
    tiles = published(shared_maps, "labyrinthmc", 5, tmp_path) / "maps/hub_rainbow/tiles"
    parent = decoded((tiles / "2/x0/z0.png").read_bytes(), (500, 500))
    compared = 0
    for x in range(3):
        for z in range(3):
            file = tiles / f"1/x{x}/z{z}.png"
            if not file.exists():
                continue
            child = decoded(file.read_bytes(), (500, 500)).reduce(5)
            part = parent.crop((100 * x, 100 * z, 100 * (x + 1), 100 * (z + 1)))
            difference = ImageChops.difference(child.convert("RGB"), part.convert("RGB"))
            opaque = ImageChops.darker(child.getchannel("A"), part.getchannel("A")).point(
                [255 if value == 255 else 0 for value in range(256)]
            )
            if opaque.getbbox() is not None:
                compared += 1
                assert max(ImageStat.Stat(difference, opaque).mean) < 2
    assert compared >= 4


@pytest.mark.parametrize(
    ("css", "colour"),
    [("#123456", (18, 52, 86)), (None, (26, 26, 26)), ("nice", (26, 26, 26)), ("#12345680", (18, 52, 86))],
)
def test_the_colour_behind_tiles_is_the_maps_own_if_it_is_one(
    css: str | None, colour: tuple[int, int, int]
) -> None:
    assert background(css) == colour
