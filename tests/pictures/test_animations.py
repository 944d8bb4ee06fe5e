"""Animated files: what a frame keeps of a picture."""

from __future__ import annotations

import io
from random import Random

import pytest
from PIL import Image, ImageChops

from tileharvest.pictures.animations import GifFile
from tileharvest.pictures.frames import Patch


@pytest.mark.parametrize("edge", [64, 1_600])
def test_a_frame_of_a_gif_has_the_colours_of_its_picture_if_they_are_few(edge: int) -> None:
    """Those of a large one are chosen from a part of its pixels."""
    random, image = Random(edge), Image.new("RGBA", (edge, edge))
    for left in range(0, edge, edge // 32):
        image.paste((*random.randbytes(3), 255), (left, 0, left + edge // 32, edge))
    file = GifFile(body := io.BytesIO(), image.size)
    file.add((0, 0, edge, edge), file.packed(Patch(0, 0, image)), 100)
    file.end()
    shown = Image.open(body).convert("RGB")
    assert ImageChops.difference(shown, image.convert("RGB")).getbbox() is None
