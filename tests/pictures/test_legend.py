"""What is written on pictures: every sign of a text is there."""

from __future__ import annotations

import pytest
from PIL import Image

from tileharvest.errors import ConfigurationError
from tileharvest.pictures.frames import Legend


def test_title_and_day_are_on_the_picture_and_the_rest_of_it_stays() -> None:
    image = Image.new("RGB", (640, 360), (90, 140, 60))
    Legend((640, 360), "My server").write(image, "2024-05-01")
    for top in (0, 320):
        # Of letters the edges are neither dark nor white.
        _, brightest = image.convert("L").crop((0, top, 200, top + 40)).getextrema()
        assert isinstance(brightest, int)
        assert brightest > 200
    assert image.getpixel((320, 180)) == (90, 140, 60)


def test_signs_that_no_font_has_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no font of this computer has all signs of the title"):
        Legend((640, 360), "\U0010fffd")
