"""What is written on pictures: a scale bar is as long as it says, and every sign of a text is there."""

from __future__ import annotations

from math import cos, pi, radians

import pytest
from PIL import Image

from tileharvest.errors import ConfigurationError
from tileharvest.pictures.legend import Legend, scale_bar
from tileharvest.renderers.xyz import south_of
from tileharvest.tiles.projection import Projection


def test_a_bar_from_above_has_the_pixels_of_its_blocks() -> None:
    """A tile has 16 blocks and 64 pixels: four pixels for a block. Two grid units are a tile."""
    found = scale_bar(Projection.from_above(16), (0, 0), 2 / 64, 1000, on_earth=False)
    assert found == (200, "50 blocks")


def test_a_bar_of_a_view_from_the_side_measures_along_its_horizontal() -> None:
    """Where east and south are drawn as far to the right, that is the diagonal: 20 blocks of it are 14 each
    way."""
    side = Projection((1, 0, 1, 0), (0.5, 0, -0.5, 0))
    # A pixel is a tenth of a unit; one to the right of (0, 0) lies 0.05 blocks east and 0.05 south.
    found = scale_bar(side, (0, 0), 0.1, 1920, on_earth=False)
    assert found is not None
    pixels, words = found
    assert words == "20 blocks"
    assert pixels == pytest.approx(20 / (0.05 * 2**0.5), abs=1)


def test_a_bar_of_the_earth_tells_metres_where_the_picture_is() -> None:
    """At 60 degrees north a degree of longitude is half as long as at the equator."""
    degrees = Projection((1, 0, 0, 0), (0, 0, -1, 0))
    found = scale_bar(degrees, (10, -south_of(60)), 0.001, 1000, on_earth=True)
    assert found is not None
    pixels, words = found
    assert words == "10 km"
    assert pixels == round(10_000 / (0.001 * pi / 180 * 6_378_137 * cos(radians(60))))


def test_nothing_is_measured_where_nothing_is_known_of_the_world() -> None:
    assert scale_bar(None, (0, 0), 1, 1000, on_earth=False) is None


def test_the_words_and_the_bar_are_on_the_picture() -> None:
    image = Image.new("RGB", (640, 360), (90, 140, 60))
    Legend((640, 360), "My server", (100, "50 blocks")).write(image, "2024-05-01")
    light = image.convert("L").load()
    assert light is not None
    for top in (0, 320):
        # Of letters the edges are neither dark nor white.
        assert max(int(light[x, top + y]) for x in range(200) for y in range(40)) > 200
    white = {(x, y) for x in range(400, 640) for y in range(320, 360) if light[x, y] == 255}
    # The bar is one line of exactly so many pixels.
    rows = {y: sum((x, y) in white for x in range(400, 640)) for y in range(320, 360)}
    assert 100 in rows.values()
    assert image.getpixel((320, 180)) == (90, 140, 60)


def test_signs_that_no_font_has_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no font of this computer has all signs of the title"):
        Legend((640, 360), "\U0010fffd")
