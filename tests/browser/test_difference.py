"""The page's difference against Pillow's, on pictures that change here and there."""

import base64
import random
from collections.abc import Callable
from typing import Final

import pytest
from PIL import Image, ImageFilter
from playwright.sync_api import Page

from tests.viewer.building import as_png

Compare = Callable[[Image.Image, Image.Image | None], tuple[list[int], float, Image.Image]]

CELL: Final = 8
SIZE: Final = 48
THRESHOLD: Final = 5.0
UNSURE: Final = 0.5
"""How far from the threshold Pillow, which rounds what is half transparent, surely decides the same."""


@pytest.fixture
def compare(module_page: Page) -> Compare:
    """Have the page decode two pictures, compare them and draw the difference."""

    def compare(before: Image.Image, after: Image.Image | None) -> tuple[list[int], float, Image.Image]:
        addresses = [
            image and f"data:image/png;base64,{base64.b64encode(as_png(image)).decode()}"
            for image in (before, after)
        ]
        changed, share, drawing = module_page.evaluate(_COMPARING, addresses)
        return changed, share, Image.frombytes("RGBA", before.size, bytes(drawing))

    return compare


def test_cells_change_where_pillow_says_so(compare: Compare) -> None:
    chance = random.Random(6)
    before = Image.frombytes("RGBA", (SIZE, SIZE), chance.randbytes(4 * SIZE * SIZE))
    # Blurred more and more to the right, and fading there.
    after, blurred = before.copy(), before.filter(ImageFilter.BoxBlur(3))
    after.paste(blurred, mask=Image.linear_gradient("L").rotate(90).resize(before.size))
    changed, share, _ = compare(before, after)
    distances = distances_of(before, after)
    sure = [cell for cell, distance in enumerate(distances) if abs(distance - THRESHOLD) > UNSURE]
    assert [cell for cell in sure if changed[cell]] == [cell for cell in sure if distances[cell] > THRESHOLD]
    assert share == pytest.approx(sum(changed) / (SIZE // CELL) ** 2)
    assert 0.1 < share < 0.9
    assert len(sure) > 0.8 * len(changed)


def test_the_drawing_has_what_changed_in_colour_with_a_line_around_it_and_the_rest_faded(
    compare: Compare,
) -> None:
    before = Image.new("RGBA", (SIZE, SIZE), (30, 160, 60, 255))
    after = before.copy()
    after.paste((200, 120, 40, 255), (0, 16, 16, 32))
    after.paste((0, 0, 0, 0), (32, 32, 48, 48))
    (cells, _, changed), (_, _, gone) = compare(before, after), compare(before, None)
    wanted = {*((row, column) for row in (2, 3) for column in (0, 1)), (4, 4), (4, 5), (5, 4), (5, 5)}
    assert {divmod(number, 6) for number, cell in enumerate(cells) if cell} == wanted
    assert changed.getpixel((8, 24)) == (200, 120, 40, 255)
    # Along the picture's edge there is no line.
    line = [changed.getpixel(place) == (255, 0, 200, 255) for place in ((15, 24), (8, 16), (0, 24), (32, 40))]
    assert line == [True, True, False, True]
    red, green, blue, opacity = changed.getpixel((24, 8))  # type: ignore[misc]
    assert red == green == blue
    assert 0 < opacity < 128
    for drawing in (changed, gone):
        red, green, blue, opacity = drawing.getpixel((42, 42))  # type: ignore[misc]
        assert red > blue > green
        assert opacity > 128


def distances_of(before: Image.Image, after: Image.Image) -> list[float]:
    """How far the average colours, or opacities, of each cell lie apart, row by row."""
    return [
        max(sum(abs(a - b) for a, b in zip(old[:3], new[:3], strict=True)) / 3, abs(old[3] - new[3]))
        for old, new in zip(averages_of(before), averages_of(after), strict=True)
    ]


def averages_of(image: Image.Image) -> list[tuple[float, ...]]:
    """Red, green and blue on black, and the opacity, of each cell on average."""
    black = Image.alpha_composite(Image.new("RGBA", image.size, "black"), image).convert("RGB")
    # In floating point, as whole numbers would be rounded.
    bands = [band.convert("F").reduce(CELL) for band in (*black.split(), image.getchannel("A"))]
    return list(zip(*(band.get_flattened_data() for band in bands), strict=True))


_COMPARING: Final = """async (addresses) => {
  const { difference, drawDifference } = await import("/difference.js");
  const [before, after] = await Promise.all(addresses.map(async (address) => {
    if (address === null) return null;
    const picture = Object.assign(new Image(), { src: address });
    await picture.decode();
    const context = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
    context.drawImage(picture, 0, 0);
    return context.getImageData(0, 0, picture.width, picture.height);
  }));
  const found = difference(before, after);
  const output = new ImageData(before.width, before.height);
  drawDifference(before, after, found, output);
  return [[...found.changed], found.share, [...output.data]];
}"""
