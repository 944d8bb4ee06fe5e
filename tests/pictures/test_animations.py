"""Animated pictures as files, decoded again by Pillow."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from PIL import Image

from tileharvest.pictures.animations import GifFile, write_frames
from tileharvest.pictures.frames import Patch


def gif_of(image: Image.Image) -> Image.Image:
    """The only frame of a GIF of this image."""
    body = io.BytesIO()
    with ThreadPoolExecutor(1) as pool:
        write_frames(GifFile(body, image.size), image.size, [([Patch(0, 0, image)], 1000)], pool)
    with Image.open(body) as opened:
        return opened.convert("RGB")


@pytest.mark.parametrize("size", [(96, 64), (1920, 1080)])
def test_a_gif_keeps_255_colours_exactly_even_those_of_a_single_pixel(size: tuple[int, int]) -> None:
    """The colours of a large frame are chosen from some of its pixels, among which a single one need not
    be."""
    image, chance = Image.new("RGB", size, (40, 90, 30)), Random(1)
    places = chance.sample([(x, y) for x in range(0, size[0], 3) for y in range(0, size[1], 3)], 254)
    for number, place in enumerate(places):
        image.putpixel(place, (number, 255 - number, 7 * number % 256))
    assert gif_of(image).tobytes() == image.tobytes()


def test_more_colours_than_a_gif_has_become_similar_ones() -> None:
    """A slope of 1,024 x 768 colours is cut into 255: no part of it is more than a tenth of it wide."""
    across = Image.linear_gradient("L").rotate(90).resize((1024, 768))
    down = Image.linear_gradient("L").resize((1024, 768))
    image = Image.merge("RGB", (across, down, Image.new("L", (1024, 768), 90)))
    found = gif_of(image)
    assert len(found.getcolors(256) or ()) == 255
    for x in range(0, 1024, 64):
        for y in range(0, 768, 64):
            pair = zip(found.getpixel((x, y)), image.getpixel((x, y)), strict=True)  # type: ignore[arg-type]
            assert max(abs(one - other) for one, other in pair) <= 25
